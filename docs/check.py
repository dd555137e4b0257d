"""Checks a built site for readers who do not see it: `python docs/check.py SITE`.

Each page has one h1 and skips no level of headings, ids are unique, pictures have an alternative
text, and links and buttons have a name. Colours of text and their backgrounds, which the style
sheets name, have a contrast of 4.5 or more in both themes (WCAG 2.2, 1.4.3).
"""

import colorsys
import itertools
import re
import sys
from collections import Counter
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

# 4.5, and some more for how browsers round colours.
CONTRAST = 4.55
SCHEMES = ("default", "slate")
# Attributes of a page's body next to its scheme, as the theme writes them.
BODY = {"data-md-color-primary": "indigo", "data-md-color-accent": "indigo"}
BACKGROUNDS = {
    "--md-default-bg-color": r"--md-(typeset(-a)?-color|default-fg-color(--light)?)",
    "--md-code-bg-color": r"--md-(code-(fg-color|hl-[a-z]+-color)|typeset-a-color)",
    "--md-primary-fg-color": r"--md-primary-bg-color",
    "--md-footer-bg-color--dark": r"--md-footer-fg-color(--light(er)?)?",
}
# A background, not a colour of text.
NO_TEXT = "--md-code-hl-color"


class Page(HTMLParser):
    """Faults of a page, found as it is read."""

    def __init__(self) -> None:
        super().__init__()
        self.faults: list[str] = []
        self.ids: Counter[str] = Counter()
        self.levels: list[int] = []
        # Open links, buttons and headings, each with its name so far.
        self.open: list[list[str]] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attributes}
        if "id" in given:
            self.ids[given["id"]] += 1
        if tag == "img" and "alt" not in given:
            self.faults.append(f"no alternative text: {given.get('src')}")
        name = given.get("aria-label") or given.get("title") or given.get("alt") or ""
        for each in self.open:
            each[1] += name
        if re.fullmatch(r"h[1-6]", tag):
            self.levels.append(int(tag[1]))
        if tag == "button" or (tag == "a" and "href" in given):
            self.open.append([tag, name, given.get("href", "")])

    def handle_data(self, data: str) -> None:
        for each in self.open:
            each[1] += data.strip()

    def handle_endtag(self, tag: str) -> None:
        if self.open and self.open[-1][0] == tag:
            _, name, target = self.open.pop()
            if not name:
                self.faults.append(f"{tag} without a name: {target}")

    def check(self, text: str) -> list[str]:
        self.feed(text)
        self.faults += [f"{n} times the id {each}" for each, n in self.ids.items() if n > 1]
        if self.levels.count(1) != 1:
            self.faults.append(f"{self.levels.count(1)} headings of level 1")
        for above, below in zip([0, *self.levels], self.levels, strict=False):
            if below > above + 1:
                self.faults.append(f"a heading of level {below} follows one of level {above}")
        return self.faults


def properties(css: str, scheme: str) -> dict[str, str]:
    """Return the custom properties of a page's body in a scheme, by specificity, then order."""
    body = {**BODY, "data-md-color-scheme": scheme}
    found: list[tuple[int, list[tuple[str, str]]]] = []
    css = re.sub(r"/\*.*?\*/|url\(\"[^\"]*\"\)", "", css, flags=re.S)
    for selectors, declared in re.findall(r"([^{}]+)\{([^{}]*)\}", css):
        for selector in selectors.split(","):
            wanted = re.findall(r"\[([\w-]+)=\"?([\w-]+)\"?\]", selector)
            rest = re.sub(r"\[[^\]]*\]", "", selector).strip()
            if rest in ("", ":root") and all(body.get(name) == value for name, value in wanted):
                found.append((len(wanted), re.findall(r"(--[\w-]+)\s*:\s*([^;]+)", declared)))
    found.sort(key=lambda each: each[0])
    return dict(itertools.chain.from_iterable(each for _, each in found))


def colour(text: str, named: dict[str, str]) -> tuple[float, float, float, float]:
    """Return red, green, blue and alpha, from 0 to 1. Raises ValueError for other notations."""
    text = re.sub(r"var\((--[\w-]+)\)", lambda match: named[match[1]], text.strip())
    if "var(" in text:
        return colour(text, named)
    if text.startswith("#"):
        digits = text[1:] if len(text) > 5 else "".join(2 * each for each in text[1:])
        r, g, b, *a = (int(digits[i : i + 2], 16) / 255 for i in range(0, len(digits), 2))
        return r, g, b, a[0] if a else 1.0
    if match := re.fullmatch(r"hsla?\(([\d.]+)(?:deg)?[, ]+([\d.]+)%[, ]+([\d.]+)%(.*)\)", text):
        hue, saturation, light = (float(match[i]) for i in (1, 2, 3))
        alpha = match[4].strip(" ,/")
        part = float(alpha.rstrip("%")) / (100 if "%" in alpha else 1) if alpha else 1.0
        return (*colorsys.hls_to_rgb(hue / 360, light / 100, saturation / 100), part)
    raise ValueError(f"a colour in another notation: {text}")


def luminance(rgb: tuple[float, ...]) -> float:
    parts = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in rgb)
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), parts, strict=True))


def contrast(text: str, ground: str, named: dict[str, str]) -> float:
    *below, _ = colour(ground, named)
    *above, alpha = colour(text, named)
    mixed = tuple(alpha * a + (1 - alpha) * b for a, b in zip(above, below, strict=True))
    low, high = sorted((luminance(mixed), luminance(tuple(below))))
    return (high + 0.05) / (low + 0.05)


def pairs(named: dict[str, str]) -> Iterator[tuple[str, str]]:
    for ground, texts in BACKGROUNDS.items():
        for name in named:
            if re.fullmatch(texts, name) and name != NO_TEXT:
                yield name, ground


def main(site: Path) -> int:
    pages = sorted(site.rglob("*.html"))
    faults = [
        f"{page.relative_to(site)}: {fault}"
        for page in pages
        for fault in Page().check(page.read_text(encoding="utf8"))
    ]
    sheets = [*sorted(site.glob("assets/stylesheets/*.css")), *site.glob("*.css")]
    css = "".join(path.read_text(encoding="utf8") for path in sheets)
    n_pairs = 0
    for scheme in SCHEMES:
        named = properties(css, scheme)
        for text, ground in pairs(named):
            n_pairs += 1
            if (found := contrast(named[text], named[ground], named)) < CONTRAST:
                faults.append(f"{scheme}: {text} on {ground} has a contrast of {found:.2f}")
    print("\n".join(faults))
    print(f"{len(pages)} pages, {n_pairs} pairs of colours, {len(faults)} faults")
    return 1 if faults or not pages or not n_pairs else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))

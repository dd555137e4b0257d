"""Updates of linkers to another release of their ontology, checked by counts from the files.

    python benchmarks/updated_release.py hpo OLD.obo.gz NEW.json.gz gsc_plus/ann gsc_plus/corpus
    python benchmarks/updated_release.py medic medic.txt ncbi_train.PubTator.txt

Builds a linker of the earlier release, corrects it by gold mentions, updates it, and compares the
report of `krissel update` with counts that are made from the two files alone, by other code.
`medic` makes its second release from the first: a tenth of the entities are merged, renamed or
retired (`other_release`); then the linker is updated back, so that what was retired returns. Exits
with code 1 if a count differs, or a correction is lost.
"""

import csv
import gzip
import json
import re
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from spacy_krissel import build, update
from spacy_krissel.commands.correct_links import correct
from spacy_krissel.commands.update_linker import Updated, show_update
from spacy_krissel.kb.snapshot import verdicts_of
from spacy_krissel.pipeline.pipeline_io import find_linker

RESULT = Path(__file__).parent / "results" / "updated_release.json"
# One entity in 30 each is merged, renamed and retired.
PARTS = ("merged", "renamed", "retired")
SHARE = 30
CONTEXT = 200
app = typer.Typer(add_completion=False)


class Gold(NamedTuple):
    """A gold mention of one entity."""

    doc: str
    start: int
    end: int
    text: str
    id: str


# Releases, read by few lines of code of their own ------------------------------------------------


class Terms(NamedTuple):
    """names: of the entities that are not obsolete, by id, the preferred one first. steps: ids that
    replace an id, or have it as alternative id."""

    names: dict[str, list[str]]
    steps: dict[str, set[str]]

    def leads_to(self, id_: str) -> set[str]:
        """Follow an id until entities are reached."""
        if id_ in self.names:
            return {id_}
        seen, waiting, found = {id_}, [id_], set()
        while waiting:
            for step in self.steps.get(waiting.pop(), ()):
                if step in self.names:
                    found.add(step)
                elif step not in seen:
                    seen.add(step)
                    waiting.append(step)
        return found


def read_obo_terms(path: Path) -> Terms:
    names: dict[str, list[str]] = {}
    steps: dict[str, set[str]] = defaultdict(set)
    with gzip.open(path, "rt", encoding="utf8") as file_:
        stanzas = file_.read().split("\n\n")
    for stanza in stanzas:
        tags = re.findall(r"^(\w+): (.*)$", stanza, re.M)
        found = dict(reversed(tags))
        if "[Term]" not in stanza or "id" not in found or "name" not in found:
            continue
        id_ = found["id"]
        if found.get("is_obsolete") != "true":
            synonyms = re.findall(r'^synonym: "((?:[^"\\]|\\.)*)" (?:EXACT|RELATED)', stanza, re.M)
            unescaped = [re.sub(r"\\(.)", r"\1", each).strip() for each in synonyms]
            # Without modifiers, such as {xref="PMID:1"}.
            own = [re.sub(r" \{[^{}]*\}$", "", name) for tag, name in tags if tag == "name"]
            names[id_] = own + unescaped
        newer = [value for tag, value in tags if tag == "replaced_by"]
        considered = [value for tag, value in tags if tag == "consider"]
        steps[id_].update(newer or (considered if len(considered) == 1 else []))
        for tag, value in tags:
            if tag == "alt_id":
                steps[value].add(id_)
    return Terms(names, steps)


def read_json_terms(path: Path) -> Terms:
    names: dict[str, list[str]] = {}
    steps: dict[str, set[str]] = defaultdict(set)
    with gzip.open(path, "rt", encoding="utf8") as file_:
        (graph,) = json.load(file_)["graphs"]

    def curie(text: str) -> str:
        return text.rsplit("/", 1)[-1].replace("_", ":", 1)

    for node in graph["nodes"]:
        id_, meta = curie(node["id"]), node.get("meta", {})
        values: dict[str, list[str]] = defaultdict(list)
        for each in meta.get("basicPropertyValues", ()):
            values[re.split("[#/]", each["pred"])[-1]].append(each["val"])
        label = " ".join(node.get("lbl", "").split())
        if node.get("type") == "CLASS" and label and not meta.get("deprecated"):
            names[id_] = [label] + [
                " ".join(each["val"].split())
                for each in meta.get("synonyms", ())
                if each["pred"] in ("hasExactSynonym", "hasRelatedSynonym")
            ]
        newer = [*map(curie, values["IAO_0100001"])]
        considered = [*map(curie, values["consider"])]
        if meta.get("deprecated"):
            steps[id_].update(newer or (considered if len(considered) == 1 else []))
        for older in values["hasAlternativeId"]:
            steps[curie(older)].add(id_)
    return Terms(names, steps)


def read_medic_terms(path: Path) -> Terms:
    names: dict[str, list[str]] = {}
    steps: dict[str, set[str]] = defaultdict(set)
    for line in path.read_text(encoding="utf8").splitlines():
        ids, _, own = line.partition("||")
        id_, *others = ids.split("|")
        if id_ not in names:
            names[id_] = own.split("|")
        for other in others:
            steps[other].add(id_)
    return Terms(names, steps)


def other_release(path: Path, output: Path) -> Counter[str]:
    """Write MEDIC with a tenth of its entities merged, renamed or retired, chosen by a hash of the
    id. RETURNS: the number of each.

    A merged entity's ids and names go to the next entity that is unchanged.
    """
    lines = [line for line in path.read_text(encoding="utf8").splitlines() if line]
    kinds = [_part(line.partition("||")[0].partition("|")[0]) for line in lines]
    written: list[str] = []
    waiting: list[str] = []
    # Merged entities at the end go to the first that is unchanged.
    first = kinds.index("")
    for number in (*range(first + 1, len(lines)), *range(first + 1)):
        ids, _, names = lines[number].partition("||")
        if kinds[number] == "merged":
            waiting.append(lines[number])
        elif kinds[number] == "renamed":
            written.append(f"{ids}||Revised {names}")
        elif not kinds[number]:
            for each in waiting:
                ids, names = (
                    f"{own}|{other}"
                    for own, other in zip((ids, names), each.split("||", 1), strict=True)
                )
            waiting = []
            written.append(f"{ids}||{names}")
    output.write_text("".join(f"{line}\n" for line in written), encoding="utf8")
    return Counter(filter(None, kinds))


def _part(id_: str) -> str:
    number = int(sha256(id_.encode()).hexdigest(), 16) % SHARE
    return PARTS[number] if number < len(PARTS) else ""


# Gold mentions ------------------------------------------------------------------------------------


def read_gsc(annotations: Path, texts: Path) -> Iterator[tuple[str, str, list[Gold]]]:
    for path in sorted(annotations.iterdir()):
        text, found = (texts / path.name).read_text(encoding="utf8"), []
        for line in path.read_text(encoding="utf8").splitlines():
            if match := re.match(r"\[(\d+)::(\d+)\]\t(HP_\d+) \|", line):
                start, end = int(match[1]), int(match[2])
                found.append(Gold(path.name, start, end, text, match[3].replace("_", ":")))
        yield path.name, text, found


def read_pubtator(path: Path) -> Iterator[tuple[str, str, list[Gold]]]:
    for block in path.read_text(encoding="utf8").strip().split("\n\n"):
        title, abstract, *rows = block.splitlines()
        doc, text = title.split("|")[0], f"{title.split('|', 2)[2]} {abstract.split('|', 2)[2]}"
        cells = [row.split("\t") for row in rows]
        found = [
            Gold(doc, int(each[1]), int(each[2]), text, each[5].removeprefix("MESH:"))
            for each in cells
            if len(each) == 6 and re.fullmatch(r"(MESH:)?[CD]\d+", each[5])
        ]
        yield doc, text, found


def write_corrections(gold: Iterable[Gold], path: Path) -> None:
    """Write gold mentions as a table of links that a person filled in."""
    with path.open("w", encoding="utf8", newline="") as file_:
        table = csv.writer(file_, delimiter="\t", lineterminator="\n")
        table.writerow(["doc", "start", "end", "context", "id", "verdict", "right_id"])
        for doc, start, end, text, id_ in gold:
            left, right = text[max(0, start - CONTEXT) : start], text[end : end + CONTEXT]
            context = f"{left}⟦{text[start:end]}⟧{right}".replace("\n", " ").replace("\t", " ")
            table.writerow([doc, start, end, context, "", "", id_])


# Counts -------------------------------------------------------------------------------------------


def expected_counts(old: Terms, new: Terms, gold: Iterable[Gold]) -> Counter[tuple[str, str]]:
    """Count what an update must report, from the files alone."""
    counts: Counter[tuple[str, str]] = Counter()
    targets = {id_: new.leads_to(id_) for id_ in old.names}
    n_leading = Counter(next(iter(each)) for each in targets.values() if len(each) == 1)
    before: dict[str, set[str]] = defaultdict(set)
    for id_, found in targets.items():
        if len(found) != 1:
            counts["entity", "split" if found else "retired"] += 1
            continue
        (target,) = found
        before[target].update(old.names[id_])
        if target != id_:
            counts["entity", "merged" if n_leading[target] > 1 else "replaced"] += 1
        elif old.names[id_][0] != new.names[id_][0]:
            counts["entity", "renamed"] += 1
    counts["entity", "new"] = sum(not n_leading[id_] for id_ in new.names)
    for id_, names in before.items():
        counts["name", "added"] += len(set(new.names[id_]) - names)
        counts["name", "removed"] += len(names - set(new.names[id_]))
    listed, now = (
        {_number_free(name) for names in release.names.values() for name in names}
        for release in (old, new)
    )
    for mention in set(gold):
        (known,) = old.leads_to(mention.id)
        found = new.leads_to(known)
        change = "followed" if found != {known} else "kept"
        if _number_free(mention.text[mention.start : mention.end]) in listed - now:
            change = "not found now"
        counts["correction", change if len(found) == 1 else "inactive"] += 1
    return +counts


def _number_free(name: str) -> str:
    """Return what the singular and the plural of a name share."""
    return name.lower().rstrip("s")


def gold_of(nlp: Any) -> set[tuple[str, int, int]]:
    """Return the mentions of all corrections, active or not."""
    kb = find_linker(nlp).kb
    tables = [kb.current, *([] if kb.inactive is None else [kb.inactive])]
    return {each.origin[1:4] for now in tables for each in verdicts_of(now)}


def compared(
    what: str, expected: Counter[tuple[str, str]], updated: Updated, gold: set[Any], seconds: float
) -> dict[str, Any]:
    """Print the report, and the counts that differ."""
    said = show_update(updated, Path("updated"), None)
    print(f"\n== {what} ({seconds:.0f} CPU seconds)\n{said}\n")
    found = Counter({key: n for key, n in updated.counts.items() if key[0] != "link"})
    differ = {
        " ".join(key): (expected[key], found[key])
        for key in expected.keys() | found.keys()
        if expected[key] != found[key]
    }
    lost = len(gold - gold_of(updated.nlp))
    print(f"Counts: {len(expected)} kinds compared, different: {differ or 'none'}; lost: {lost}")
    counts = {" ".join(key): n for key, n in sorted(found.items())}
    figures = {name: list(pair) for name, pair in updated.figures.items()}
    return {
        "what": what,
        "counts": counts,
        "different": differ,
        "lost": lost,
        "figures": figures,
        "seconds": round(seconds),
    }


def measured(
    files: tuple[Path, Path],
    read: tuple[Callable[[Path], Terms], Callable[[Path], Terms]],
    gold: list[Gold],
    folder: Path,
) -> tuple[list[dict[str, Any]], Path, list[Gold]]:
    """Build, correct and update. RETURNS: results, the updated pipeline, and its corrections."""
    old, new = read[0](files[0]), read[1](files[1])
    gold = [each for each in gold if len(old.leads_to(each.id)) == 1]
    # First those of entities that change.
    gold.sort(key=lambda each: (_is_kept(each, old, new), sha256(repr(each).encode()).digest()))
    gold = gold[:200]
    built = build(files[0], folder / "built")
    write_corrections(gold, folder / "gold.tsv")
    counted = correct(built.output, folder / "gold.tsv", folder / "corrected")
    assert counted["corrections"] == len(gold), counted
    began = time.process_time()
    updated = update(folder / "corrected", files[1], folder / "updated")
    seconds = time.process_time() - began
    expected = expected_counts(old, new, gold)
    mentions = {(each.doc, each.start, each.end) for each in gold}
    what = f"{files[0].name} to {files[1].name}"
    return [compared(what, expected, updated, mentions, seconds)], folder / "updated", gold


def _is_kept(gold: Gold, old: Terms, new: Terms) -> bool:
    (known,) = old.leads_to(gold.id)
    return known in new.names


@app.command()
def hpo(
    earlier: Annotated[Path, typer.Argument(help="HPO, OBO format, .gz")],
    later: Annotated[Path, typer.Argument(help="HPO, OBO graphs, .gz")],
    annotations: Annotated[Path, typer.Argument(help="GSC+'s folder of annotations")],
    texts: Annotated[Path, typer.Argument(help="GSC+'s folder of texts")],
    output: Annotated[Path, typer.Option(help="Result (JSON)")] = RESULT,
) -> None:
    """Update HPO to a later release, with corrections by GSC+."""
    gold = [each for _, _, found in read_gsc(annotations, texts) for each in found]
    with tempfile.TemporaryDirectory() as folder:
        read = (read_obo_terms, read_json_terms)
        results, _, _ = measured((earlier, later), read, gold, Path(folder))
    finish("hpo", results, output)


@app.command()
def medic(
    earlier: Annotated[Path, typer.Argument(help="MEDIC, lines ID|other ids||names")],
    corpus: Annotated[Path, typer.Argument(help="NCBI Disease, PubTator")],
    output: Annotated[Path, typer.Option(help="Result (JSON)")] = RESULT,
) -> None:
    """Update MEDIC to one with a tenth of its entities merged, renamed or retired, and back."""
    gold = [each for _, _, found in read_pubtator(corpus) for each in found]
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        made = other_release(earlier, folder / "later.txt")
        print(f"Made: {dict(made)}")
        files = (earlier, folder / "later.txt")
        read = (read_medic_terms, read_medic_terms)
        results, updated, gold = measured(files, read, gold, folder)
        for kind in PARTS:
            assert results[0]["counts"][f"entity {kind}"] == made[kind], kind
        began = time.process_time()
        back = update(updated, earlier)
        seconds = time.process_time() - began
        old, new = read_medic_terms(files[1]), read_medic_terms(files[0])
        results.append(
            compared(
                "and back",
                expected_return(old, new, gold),
                back,
                {(each.doc, each.start, each.end) for each in gold},
                seconds,
            )
        )
    finish("medic", results, output)


def expected_return(now: Terms, back: Terms, gold: Iterable[Gold]) -> Counter[tuple[str, str]]:
    """Count what the update back must report: retired entities return with their corrections."""
    counts = expected_counts(now, back, [])
    returned = {id_ for id_ in back.names if not now.leads_to(id_)}
    counts["entity", "returned"] = len(returned)
    counts["entity", "new"] -= len(returned)
    for each in set(gold):
        (known,) = back.leads_to(each.id)
        counts["correction", "active again" if known in returned else "kept"] += 1
    return +counts


def finish(name: str, results: list[dict[str, Any]], output: Path) -> None:
    known = json.loads(output.read_text(encoding="utf8")) if output.exists() else {}
    output.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps({**known, name: results}, indent=2, ensure_ascii=False)
    output.write_text(f"{text}\n", encoding="utf8")
    sys.exit(any(each["different"] or each["lost"] for each in results))


if __name__ == "__main__":
    app()

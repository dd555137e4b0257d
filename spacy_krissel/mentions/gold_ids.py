"""Ids of gold mentions: composites, variants, prefixes and the marks for "no concept"."""

import re
from collections.abc import Callable
from typing import Protocol

from .annotations import NIL

# Marks of the sources for "this mention has no concept", and our own mark, in any case.
NIL_MARKS = frozenset({"-1", "-", NIL})
# A separator, or a variant in HGVS or by its intron, such as `NM_000059.3:c.68+1G>A` and
# `IVS2+1G>A`. A "+" between its numbers separates no ids.
_HGVS_OR_BAR = re.compile(
    r"(?<![^\s|+])(?:[^\s|+]*:)?(?:[cgmnpr]\.|IVS\d)(?:[^|+]+|(?<=[\d?])\+(?=[\d?]))*|([|+])"
)
# Separators in gold files of genes and chemicals, and a suffix that GNormPlus adds.
_OTHER_SEPARATOR = re.compile("[,;]")
_TAX_ID = re.compile(r"\(tax:\d+\)", re.IGNORECASE)
# The beginning of a variant in tmVar's form, `p|SUB|P|799|L`; its bars separate no ids. The first
# letter may be another kind. A label may precede it: `DNAMutation:c|SUB|A|1|G`.
_VARIANT_LABEL = (
    r"(?:(?:tmVar|SNP|(?:DNA|Protein|Other)Mutation|(?:DNA|Protein)?AcidChange|(?:DNA|"
    r"Protein)Allele|CopyNumberVariant):\s*)?"
)
_VARIANT_HEAD = (
    rf"{_VARIANT_LABEL}[a-z]?\|(?:SUB|DEL|INS|INDEL|DUP|INV|CON|FS|Allele|CNV|RPT|REP)\|"
)
_LABEL = re.compile(rf"\A{_VARIANT_LABEL}", re.IGNORECASE)
_VARIANT = re.compile(
    rf"\A\s*{_VARIANT_LABEL}[cgmnpr]\|[a-z]{{2,10}}\||{_VARIANT_HEAD}", re.IGNORECASE
)
_NEXT_VARIANT = re.compile(rf"([|+])(?=\s*(?:{_VARIANT_HEAD}|rs\d+\s*(?:[|+]|\Z)))", re.IGNORECASE)
# Separators of the variants of one mention, and tmVar's notes on a variant:
# `;CorrespondingGene:673`. All notes may also follow `##`.
_VARIANT_SEPARATOR = re.compile(rf";|,\s*(?=rs\d|{_VARIANT_HEAD})", re.IGNORECASE)
_VARIANT_NOTE = re.compile(r"(\w+#?):(.*)")
_NOTES = frozenset(
    "hgvs variantgroup correspondinggene correspondingspecies rs# ca# originalgene".split()
)
_HAS_NOTE = re.compile(rf"(?:\A|;|##)\s*(?:{'|'.join(_NOTES)}):", re.IGNORECASE)
# Prefixes of unlinked names in BioID, such as `protein:GFP`.
_UNLINKED = frozenset(
    "cell cellorganismgene gene molecule organism protein subcellular tissue".split()
)


class Resolver(Protocol):
    """Protocol of objects that resolve ids, such as an `OntologyStore` or a `PrototypeKB`."""

    def resolve(self, id: str) -> str | None: ...


def read_ids(raw: str) -> str:
    """Return the ids of a PubTator or BioC file, joined by `|` and without the species of genes.

    `4363,9429` and `4363;9429` become `4363|9429`, and `4535(Tax:9606)` becomes `4535`. A variant
    is one id: `p|SUB|V|600|E;CorrespondingGene:673;RS#:113488022` becomes `p|SUB|V|600|E`, since
    the gene is not a concept of the mention. A variant without an id of that form gets its dbSNP
    number, `rs113488022`, else its HGVS name. Text after `##` holds notes, no ids.
    """
    if _VARIANT.match(raw.lstrip()) or _HAS_NOTE.search(raw):
        return _read_variants(raw)
    first, *others = _OTHER_SEPARATOR.split(_TAX_ID.sub("", raw.partition("##")[0]))
    if not others:
        return first
    *between, last = others
    return "|".join([first.rstrip(), *map(str.strip, between), last.lstrip()])


def _read_variants(raw: str) -> str:
    ids, notes = [], {}
    before, *after = raw.split("##")
    for text in (before, *after):
        for part in map(str.strip, _VARIANT_SEPARATOR.split(text)):
            note = _VARIANT_NOTE.fullmatch(part)
            if note and note[1].lower() in _NOTES:
                notes[note[1].lower()] = note[2].strip()
            elif part and text is before:
                ids.append(_LABEL.sub("", part))
    if not ids and (number := notes.get("rs#")):
        ids = [f"rs{number.removeprefix('rs')}"]
    return "|".join(ids) or notes.get("hgvs", "")


def read_class(name: str) -> tuple[str, str]:
    """Return the label and the id of an annotation class.

    `CL:0000540` has the label `CL`. `Disease`, without a colon, is a label without an id.
    """
    prefix, colon, local = name.partition(":")
    return (prefix, name) if colon and prefix and local else (name, "")


def read_classes(name: str) -> tuple[str, str]:
    """Return the first label and all ids of BioID's classes, joined by `|`.

    `NCBI gene:7157|NCBI gene:22059` has the label `NCBI gene`, `CVCL_0030` has `Cellosaurus`.
    `Uberon:UBERON:0002107` loses its first prefix, and `protein:GFP` is no concept. Each class is
    parsed as in `read_class`.
    """
    found = []
    for part in map(str.strip, name.split("|")):
        label, kb_id = read_class(part)
        if part.startswith("CVCL_"):
            label, kb_id = "Cellosaurus", part
        elif label in _UNLINKED and kb_id:
            kb_id = NIL
        elif label == "Uberon" and kb_id.count(":") > 1:
            kb_id = kb_id.partition(":")[2]
        found.append((label, kb_id))
    return found[0][0], "|".join(kb_id for _, kb_id in found if kb_id)


def split_ids(kb_id: str) -> list[str]:
    """Return the distinct concepts of a gold id: `D1|D2` → `["D1", "D2"]`, `-1` → `[]`.

    A composite is joined by `|` or `+`; parts that mean "no concept" are dropped. A variant is one
    concept (`read_ids`), also in HGVS: `c.76+1G>A`.
    """
    return list(
        dict.fromkeys(part for part in _split(kb_id)[::2] if part and part.upper() not in NIL_MARKS)
    )


def _split(raw: str) -> list[str]:
    """Return the ids and the separators between them."""
    variant = _VARIANT.search(raw)
    if variant is None:
        return _split_at_separators(raw)
    # A variant may contain "+" and bars, and ends where another begins.
    before = _split_at_separators(raw[: variant.start()])
    if before[-1]:
        # The match is part of another id.
        return _split_at_separators(raw)
    return [*before[:-1], *map(str.strip, _NEXT_VARIANT.split(raw[variant.start() :]))]


def _split_at_separators(raw: str) -> list[str]:
    parts, end = [], 0
    for match in _HGVS_OR_BAR.finditer(raw):
        if separator := match[1]:
            parts += [raw[end : match.start()], separator]
            end = match.end()
    # Strip white space here: a pattern that includes it needs quadratic time for long runs.
    return [*map(str.strip, (*parts, raw[end:]))]


def is_nil(kb_id: str) -> bool:
    """Return whether a gold id means "no concept". An empty id is not NIL."""
    return bool(kb_id.strip()) and not split_ids(kb_id)


def is_composite(kb_id: str) -> bool:
    """Return whether a gold id is written as several ids, even if they are the same concept."""
    return not is_nil(kb_id) and len(_split(kb_id)) > 1


def to_kb_id(raw: str) -> str:
    """Return the id for a `Doc`: "NIL" for no concept, else without white space around its
    parts.
    """
    return NIL if is_nil(raw) else "".join(_split(raw))


def map_ids(kb_id: str, function: Callable[[str], str]) -> str:
    """Return `kb_id` with `function` applied to each concept.

    Separators and marks for "no concept" are kept.
    """
    parts = _split(to_kb_id(kb_id))
    return "".join(
        function(part) if part and i % 2 == 0 and part.upper() not in NIL_MARKS else part
        for i, part in enumerate(parts)
    )

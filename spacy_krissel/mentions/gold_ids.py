"""The ids of gold mentions: composites, variants, prefixes and the marks for "no concept"."""

import re
from collections.abc import Callable
from typing import Protocol

NIL = "NIL"
# What sources write for "this mention has no concept", beside our own mark.
NIL_MARKS = frozenset({"-1", "-", NIL})
# A joint, or a variant in HGVS or by its intron, such as `NM_000059.3:c.68+1G>A` and `IVS2+1G>A`: a
# "+" between its numbers joins no ids.
_HGVS_OR_JOINT = re.compile(r"(?<![^\s|+])(?:[^\s|+]*:)?(?:[cgmnpr]\.|IVS\d)(?:[^|+]+|(?<=[\d?])\+(?=[\d?]))*|([|+])")
# How gold files of genes and chemicals join ids, and what GNormPlus adds to some.
_OTHER_JOINT = re.compile("[,;]")
_TAX_ID = re.compile(r"\(tax:\d+\)", re.IGNORECASE)
# How the id of a variant begins in tmVar's form, `p|SUB|P|799|L`: its bars join no ids. At the
# beginning, its kind may be another. A label may stand before it, `DNAMutation:c|SUB|A|1|G`.
_VARIANT_LABEL = (
    r"(?:(?:tmVar|SNP|(?:DNA|Protein|Other)Mutation|(?:DNA|Protein)?AcidChange|(?:DNA|Protein)Allele"
    r"|CopyNumberVariant):\s*)?"
)
_VARIANT_HEAD = rf"{_VARIANT_LABEL}[a-z]?\|(?:SUB|DEL|INS|INDEL|DUP|INV|CON|FS|Allele|CNV|RPT|REP)\|"
_LABEL = re.compile(rf"\A{_VARIANT_LABEL}", re.IGNORECASE)
_VARIANT = re.compile(rf"\A\s*{_VARIANT_LABEL}[cgmnpr]\|[a-z]{{2,10}}\||{_VARIANT_HEAD}", re.IGNORECASE)
_NEXT_VARIANT = re.compile(rf"([|+])(?=\s*(?:{_VARIANT_HEAD}|rs\d+\s*(?:[|+]|\Z)))", re.IGNORECASE)
# Between variants of one mention, and before what tmVar says of a variant:
# `;CorrespondingGene:673`. All notes may also follow `##`.
_VARIANT_JOINT = re.compile(rf";|,\s*(?=rs\d|{_VARIANT_HEAD})", re.IGNORECASE)
_VARIANT_NOTE = re.compile(r"(\w+#?):(.*)")
_NOTES = frozenset("hgvs variantgroup correspondinggene correspondingspecies rs# ca# originalgene".split())
_HAS_NOTE = re.compile(rf"(?:\A|;|##)\s*(?:{'|'.join(_NOTES)}):", re.IGNORECASE)
# What BioID writes before the names of what it does not link, such as `protein:GFP`.
_UNLINKED = frozenset("cell cellorganismgene gene molecule organism protein subcellular tissue".split())


class Resolver(Protocol):
    """What is asked of an ontology where ids are concerned; an `OntologyStore` is one, a `PrototypeKB` too."""

    def resolve(self, id: str) -> str | None: ...


def read_ids(raw: str) -> str:
    """The ids of a PubTator or BioC file, joined as everywhere here and without the species of genes.

    `4363,9429` and `4363;9429` are `4363|9429`, and `4535(Tax:9606)` is `4535`. A variant is one
    id: that of `p|SUB|V|600|E;CorrespondingGene:673;RS#:113488022` is `p|SUB|V|600|E`, since the
    gene is no concept of the mention. Without an id of that form, it is the number of dbSNP,
    `rs113488022`, else the name in HGVS. What follows `##` holds notes and no ids.
    """
    if _VARIANT.match(raw.lstrip()) or _HAS_NOTE.search(raw):
        return _read_variants(raw)
    first, *others = _OTHER_JOINT.split(_TAX_ID.sub("", raw.partition("##")[0]))
    if not others:
        return first
    *between, last = others
    return "|".join([first.rstrip(), *map(str.strip, between), last.lstrip()])


def _read_variants(raw: str) -> str:
    ids, notes = [], {}
    before, *after = raw.split("##")
    for text in (before, *after):
        for part in map(str.strip, _VARIANT_JOINT.split(text)):
            note = _VARIANT_NOTE.fullmatch(part)
            if note and note[1].lower() in _NOTES:
                notes[note[1].lower()] = note[2].strip()
            elif part and text is before:
                ids.append(_LABEL.sub("", part))
    if not ids and (number := notes.get("rs#")):
        ids = [f"rs{number.removeprefix('rs')}"]
    return "|".join(ids) or notes.get("hgvs", "")


def read_class(name: str) -> tuple[str, str]:
    """The label and the id of a class of annotations: one named `CL:0000540` is of the label `CL`, and one named
    `Disease`, which has no colon, is a label without an id."""
    prefix, colon, local = name.partition(":")
    return (prefix, name) if colon and prefix and local else (name, "")


def read_classes(name: str) -> tuple[str, str]:
    """The label and the ids of BioID's classes, several joined by `|`; the label is that of the first.

    `NCBI gene:7157|NCBI gene:22059` is of the label `NCBI gene`, `CVCL_0030` of `Cellosaurus`; `Uberon:UBERON:0002107`
    loses the first prefix, and `protein:GFP` is no concept. A class by itself is as in `read_class`.
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
    """The concepts of a gold id, without repeats: `D1|D2` → `["D1", "D2"]`, `-1` → `[]`.

    A composite is joined by `|` or `+`; parts that mean "no concept" are not concepts. A variant is
    one concept (`read_ids`), as is one in HGVS: `c.76+1G>A`.
    """
    return list(dict.fromkeys(part for part in _split(kb_id)[::2] if part and part not in NIL_MARKS))


def _split(raw: str) -> list[str]:
    """The ids and, between them, their joints."""
    variant = _VARIANT.search(raw)
    if variant is None:
        return _split_at_joints(raw)
    # A variant may hold "+" as well as bars, and ends where another begins.
    before = _split_at_joints(raw[: variant.start()])
    if before[-1]:
        # Part of another id.
        return _split_at_joints(raw)
    return [*before[:-1], *map(str.strip, _NEXT_VARIANT.split(raw[variant.start() :]))]


def _split_at_joints(raw: str) -> list[str]:
    parts, end = [], 0
    for match in _HGVS_OR_JOINT.finditer(raw):
        if joint := match[1]:
            parts += [raw[end : match.start()], joint]
            end = match.end()
    # White space apart: a pattern that takes it in needs quadratic time for long runs of it.
    return [*map(str.strip, (*parts, raw[end:]))]


def is_nil(kb_id: str) -> bool:
    """Whether a gold id says "no concept". An empty id says nothing and is not NIL."""
    return bool(kb_id.strip()) and not split_ids(kb_id)


def is_composite(kb_id: str) -> bool:
    """Whether a gold id is written as several joined ones, even if they turn out to be one concept."""
    return not is_nil(kb_id) and len(_split(kb_id)) > 1


def to_kb_id(raw: str) -> str:
    """The id as a `Doc` holds it: "NIL" for no concept, else as in the source without white space around its parts."""
    return NIL if is_nil(raw) else "".join(_split(raw))


def map_ids(kb_id: str, function: Callable[[str], str]) -> str:
    """`kb_id` with `function` applied to each concept; joints and marks for "no concept" stay."""
    parts = _split(to_kb_id(kb_id))
    return "".join(
        function(part) if part and i % 2 == 0 and part not in NIL_MARKS else part for i, part in enumerate(parts)
    )

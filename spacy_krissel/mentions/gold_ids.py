"""The ids of gold mentions: composites, prefixes and the marks for "no concept"."""

import re
from collections.abc import Callable
from typing import Protocol

NIL = "NIL"
# What sources write for "this mention has no concept", beside our own mark.
NIL_MARKS = frozenset({"-1", "-", NIL})
_JOINT = re.compile("([|+])")
# How gold files of genes and chemicals join ids, and what GNormPlus adds to some.
_OTHER_JOINT = re.compile("[,;]")
_TAX_ID = re.compile(r"\(tax:\d+\)", re.IGNORECASE)
# What BioID writes before the names of what it does not link, such as `protein:GFP`.
_UNLINKED = frozenset("cell cellorganismgene gene molecule organism protein subcellular tissue".split())


class Resolver(Protocol):
    """What is asked of an ontology where ids are concerned; an `OntologyStore` is one, a `PrototypeKB` too."""

    def resolve(self, id: str) -> str | None: ...


def read_ids(raw: str) -> str:
    """The ids of a PubTator or BioC file, joined as everywhere here and without the species of genes.

    `4363,9429` and `4363;9429` are `4363|9429`, and `4535(Tax:9606)` is `4535`.
    """
    first, *others = _OTHER_JOINT.split(_TAX_ID.sub("", raw))
    if not others:
        return first
    *between, last = others
    return "|".join([first.rstrip(), *map(str.strip, between), last.lstrip()])


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

    A composite is joined by `|` or `+`; parts that mean "no concept" are not concepts.
    """
    parts = _split(_JOINT, kb_id)[::2]
    return list(dict.fromkeys(part for part in parts if part and part not in NIL_MARKS))


def _split(joint: "re.Pattern[str]", raw: str) -> list[str]:
    # White space apart: a pattern that takes it in needs quadratic time for long runs of it.
    return [part.strip() for part in joint.split(raw)]


def is_nil(kb_id: str) -> bool:
    """Whether a gold id says "no concept". An empty id says nothing and is not NIL."""
    return bool(kb_id.strip()) and not split_ids(kb_id)


def is_composite(kb_id: str) -> bool:
    """Whether a gold id is written as several joined ones, even if they turn out to be one concept."""
    return not is_nil(kb_id) and _JOINT.search(kb_id) is not None


def to_kb_id(raw: str) -> str:
    """The id as a `Doc` holds it: "NIL" for no concept, else as in the source without white space around its parts."""
    return NIL if is_nil(raw) else "".join(_split(_JOINT, raw))


def map_ids(kb_id: str, function: Callable[[str], str]) -> str:
    """`kb_id` with `function` applied to each concept; joints and marks for "no concept" stay."""
    parts = _JOINT.split(to_kb_id(kb_id))
    return "".join(
        function(part) if part and i % 2 == 0 and part not in NIL_MARKS else part for i, part in enumerate(parts)
    )

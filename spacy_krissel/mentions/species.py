"""Species of the mentions of a doc, inferred from the species words in the text.

Genes of many species share a name. Words elsewhere in the text disambiguate them: "patients",
"mice", "HeLa".
"""

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import chain
from typing import NamedTuple

import numpy as np
from spacy.tokens import Doc, Span

from ..ontology.species_words import SPECIES_WORDS
from ..views import doc_text
from .contexts import sentence_starts

# By taxon id (NCBI Taxonomy): strains, cell lines, and words for people or for a group of species
# that mean this one near a gene. None is a name of the species.
OTHER_WORDS: dict[str, str] = {
    "9606": (
        "donors|subjects|kindred|kindreds|smokers|HeLa|HEK|HEK293|HEK-293|HEK293T|293T|HepG2|Hep3B|"
        "Huh7|Huh-7|MCF-7|MCF7|MCF10A|MCF-10A|T47D|T-47D|MDA-MB-231|MDA-MB-468|SK-BR-3|SKBR3|"
        "Jurkat|K562|U937|U-937|THP-1|THP1|HL-60|HL60|KG-1|MOLT-4|Raji|Daudi|Ramos|Caco-2|Caco2|"
        "HT-29|HT29|SW480|RKO|LoVo|HCT116|HCT-116|A549|H1299|Calu-3|BEAS-2B|LNCaP|PC-3|PC3|DU145|"
        "DU-145|SH-SY5Y|U251|U87|U2OS|Saos-2|MG-63|HT1080|HT-1080|A431|A375|HaCaT|IMR-90|WI-38|"
        "ARPE-19|SKOV3|SK-OV-3|PANC-1|BxPC-3|MKN45|HUVEC|HUVECs|PBMC|PBMCs|cancer cell|cancer "
        "cells|carcinoma|carcinoma cell|carcinoma cells|xenograft|xenografts|nude mice|nude mouse"
    ),
    "10090": (
        "C57BL|BALB|NIH3T3|3T3|3T3-L1|C2C12|C3H10T1/2|MC3T3-E1|RAW264|RAW264.7|RAW 264.7|J774|BV-2|"
        "BV2|Ba/F3|BaF3|EL4|CTLL-2|4T1|CT26|Neuro-2a|Neuro2a|N2a|NSC-34|MIN6|ATDC5|ST-2|Hepa1-6|"
        "splenocytes|MEF|MEFs"
    ),
    "10116": (
        "Rattus|Sprague-Dawley|Sprague "
        "Dawley|Wistar|Long-Evans|PC12|PC-12|INS-1|H9c2|GH3|RBL-2H3|IEC-6|AR42J"
    ),
    "7227": "Drosophila|fly|flies",
    "4932": "Saccharomyces",
    "4896": "Schizosaccharomyces",
    "3702": "Arabidopsis",
    "6239": "Caenorhabditis|nematode|nematodes|worm|worms",
    "7955": "danio",
    "8355": "Xenopus",
    "9031": "avian|Gallus",
    "9615": "MDCK",
    "9544": "macaque|macaques|monkey|monkeys",
    "10029": "CHO",
}
WORDS = {
    taxon: "|".join([words, OTHER_WORDS.get(taxon, "")]).strip("|")
    for taxon, words in SPECIES_WORDS.items()
}
# Reagents made from a species, or assays in it, do not name the species studied. The words after or
# before a match tell.
TOOL = re.compile(
    r"(?:human|mouse|murine|rat|rabbit)[\s-]+(?:anti[\s-](?!m[uü]ller)|monoclonal|polyclonal|"
    r"antibod|antiser)|rabbit\s+(?:reticulocyte|serum|sera)|(?:bovine|"
    r"calf)\s+(?:serum(?!\s+amyloid)|thymus)|yeast[\s-]+(?:one|two|three|[123])[\s-]*hybrid",
    re.IGNORECASE,
)
TOOL_BEFORE = re.compile(r"(?:anti[\s-]|fo?etal\s|scid\s)$", re.IGNORECASE)
TOOL_CHARS = 8
# The words allowed between a species and a gene that follows it, and their maximum length: "bovine
# DGI", "mice lacking Rad51".
SHORT_GAP = re.compile(r"[^\S\n]*(?:(?!(?:and|or|but|than)\s)[\w/-]+[^\S\n]+){0,3}", re.IGNORECASE)
MAX_GAP_CHARS = 40
# Strains and subspecies that publishers annotate instead of the species.
SPECIES_OF = {
    "559292": "4932",
    "284812": "4896",
    "511145": "562",
    "83333": "562",
    "10091": "10090",
    "10092": "10090",
}
# Species prefixes of gene mentions: hMLH1, mCB2.
PREFIXES = {
    "h": "9606",
    "m": "10090",
    "r": "10116",
    "d": "7227",
    "y": "4932",
    "x": "8355",
    "z": "7955",
}
PREFIX = re.compile(rf"([{''.join(PREFIXES)}])(?=[A-Z][A-Za-z\d])")
# Log-odds of the least likely species: no text rules one out.
FLOOR = -4.0
# Prefixes of taxon ids, and labels of spans whose bare number is a taxon id.
TAXONOMIES = ("ncbitaxon", "taxonomy", "txid")
TAXA_LABELS = ("species", "organism", "taxon")


class _Cue(NamedTuple):
    """A species word: its character offsets in the doc's text, and its taxon id (NCBI Taxonomy)."""

    start: int
    end: int
    taxon: str


class Weights(NamedTuple):
    """Log-odds of a species (`species_scores`), per feature.

    fraction: per fraction of the doc's cues. sentence: a cue in the mention's sentence. title: a
        cue in the first sentence. before: the last cue before the mention. nearest: the nearest
        cue. just_before: a cue in the mention or directly before it ("bovine DGI"). prefix: a
        species prefix of the mention. prior: by species, if the doc names any. prior_unnamed: by
        species, if it names none.

    The first five are fitted to mentions of names that only genes of one species have, in
    unlabelled text (`lab fit-species`). The last four are set by hand after an error analysis.
    """

    fraction: float = 1.6
    sentence: float = 0.02
    title: float = 0.37
    before: float = 0.21
    nearest: float = 0.38
    just_before: float = 2.0
    prefix: float = 8.0
    prior: tuple[tuple[str, float], ...] = (("9606", 1.0), ("10090", 0.5), ("10116", 0.5))
    prior_unnamed: tuple[tuple[str, float], ...] = (("9606", 4.0), ("10090", 2.5), ("10116", 1.0))


WEIGHTS = Weights()
# Number of species features: the first fields of `Weights`.
N_FEATURES = 6


def _lexicon() -> tuple[dict[str, str], re.Pattern[str]]:
    """Return the taxon of each word, and a pattern of the words in lower-case text."""
    taxa = {word.lower(): taxon for taxon, words in WORDS.items() for word in words.split("|")}
    for taxon, words in WORDS.items():
        genus, _, species = words.partition("|")[0].partition(" ")
        taxa[f"{genus[0]}. {species}".lower()] = taxon
    # Exclude PIG-A and MEF-2.
    end = r"(?![^\W_]|-\d|-[a-z](?![^\W_]))"
    return taxa, re.compile(rf"(?<![^\W_]){_pattern(taxa)}{end}")


def _pattern(words: Iterable[str]) -> str:
    """Return a pattern of the words, the longest first, any white space for a space.

    As a tree of their letters, it takes a tenth of the time of the list of all words.
    """
    tree: dict[str, list[str]] = {}
    for word in words:
        tree.setdefault(word[:1], []).append(word[1:])
    ends = tree.pop("", None) is not None
    branches = [
        (r"\s+" if letter == " " else re.escape(letter)) + _pattern(rests)
        for letter, rests in sorted(tree.items())
    ]
    if not branches:
        return ""
    return f"(?:{'|'.join(branches)}){'?' if ends else ''}"


TAXA, CUE = _lexicon()


@lru_cache(maxsize=100_000)
def taxon_of(species: str) -> str:
    """Return the taxon id (NCBI Taxonomy) of `Entity.species`, an id or a name.

    An unknown name is returned as a plain name.
    """
    number = species.rpartition(":")[2].strip()
    if number.isdigit():
        return SPECIES_OF.get(number, number)
    name = re.sub(r"\s*\(.*", "", species).strip()
    return TAXA.get(name.lower(), name)


def taxon_numbers(species: Sequence[str]) -> np.ndarray | None:
    """Return a number per species of a knowledge base (s,), equal for all names of one taxon.

    Return None for fewer than two taxa, since the species then disambiguates nothing.
    """
    taxa = [taxon_of(each) for each in species]
    return np.unique(taxa, return_inverse=True)[1] if len({*taxa} - {""}) > 1 else None


def prefix_taxon(mention: str) -> str | None:
    """Return the taxon of a gene's species prefix, such as human in hTERT."""
    match = PREFIX.match(mention)
    return PREFIXES[match[1]] if match else None


def species_cues(doc: Doc, text: str | None = None) -> list[_Cue]:
    """Return the species cues of a doc, in order. text: the doc's, if known.

    Cues are words of this module's lexicon, and spans linked to a taxon by any component
    ("NCBITaxon:10090", or "10090" for a span labelled "Species"). Words of reagents and assays are
    skipped: "yeast two-hybrid", "rabbit anti-FLAG", "fetal bovine serum".
    """
    text = doc_text(doc) if text is None else text
    cues = [
        _Cue(match.start(), match.end(), TAXA[" ".join(match[0].split())])
        for match in CUE.finditer(_lower(text))
        if not TOOL.match(text, match.start())
        and not TOOL_BEFORE.search(text, max(0, match.start() - TOOL_CHARS), match.start())
    ]
    for span in chain(doc.ents, *doc.spans.values()):
        prefix, _, number = span.kb_id_.rpartition(":")
        is_taxon = prefix.lower() in TAXONOMIES or (
            not prefix and span.label_.lower() in TAXA_LABELS
        )
        if is_taxon and number.isdigit():
            cues.append(_Cue(span.start_char, span.end_char, SPECIES_OF.get(number, number)))
    # A linked span may also be a word of the lexicon.
    return sorted(set(cues))


def _lower(text: str) -> str:
    """Return the text in lower case, with the same offsets: İ becomes two characters."""
    lower = text.lower()
    if len(lower) != len(text):
        lower = "".join(char if len(char.lower()) > 1 else char.lower() for char in text)
    return lower


def species_scores(
    doc: Doc,
    spans: Sequence[Span],
    taxa: Sequence[str],
    prefixes: Sequence[str | None] = (),
    weights: Weights = WEIGHTS,
    text: str | None = None,
) -> np.ndarray:
    """Return the log-odds of each taxon for each span, relative to the most likely taxon.

    The shape is (len(spans), len(taxa)), the values are between `FLOOR` and 0. Further taxa that
    the doc does not name leave them unchanged.

    taxa: the possible taxa (`taxon_of`). "" stands for entities without a species, which score 0.
    prefixes: the taxon prefix of each span (`prefix_taxon`), unless it is part of the name; () for
        none. text: the doc's, if known.

    The log-odds sum the evidence in the doc (`Weights`). If it names no species, human precedes
    mouse and rat, which precede others.
    """
    named = np.array(taxa) != ""
    found = np.zeros((len(spans), len(taxa)), dtype=np.float32)
    if not (len(spans) and named.any()):
        return found
    features = species_features(doc, spans, taxa, text)
    prior = dict(weights.prior if features[:, :, 0].any() else weights.prior_unnamed)
    odds = features @ np.array(weights[: features.shape[2]])
    odds += [prior.get(taxon, 0.0) for taxon in taxa]
    for row, prefix in enumerate(prefixes):
        if prefix is None:
            continue
        odds[row] += weights.prefix * (np.array(taxa) == prefix)
    odds = odds[:, named]
    found[:, named] = np.maximum(odds - odds.max(axis=1, keepdims=True), FLOOR)
    return found


def species_features(
    doc: Doc, spans: Sequence[Span], taxa: Sequence[str], text: str | None = None
) -> np.ndarray:
    """Return the features of each taxon for each span: (len(spans), len(taxa), 6).

    The columns are in the order of `Weights`. text: the doc's, if known.
    """
    numbers = {taxon: number for number, taxon in enumerate(dict.fromkeys(taxa))}
    text = doc_text(doc) if text is None else text
    cues = [cue for cue in species_cues(doc, text) if cue.taxon in numbers]
    found = np.zeros((len(spans), len(taxa), N_FEATURES))
    if not cues:
        return found
    of_cue = np.array([numbers[cue.taxon] for cue in cues])
    is_of = of_cue[:, None] == np.array([numbers[taxon] for taxon in taxa])  # (cues, taxa)
    start, end = np.array([cue[:2] for cue in cues]).T
    first, last = np.array([(span.start_char, span.end_char) for span in spans]).reshape(-1, 2).T
    sentences = np.array(sentence_starts(doc))
    in_sentence = np.searchsorted(sentences, start, side="right")
    own = np.searchsorted(sentences, first, side="right")
    found[:, :, 0] = is_of.sum(axis=0) / len(cues)
    # Cues before each one, by taxon.
    before = np.concatenate([np.zeros((1, len(taxa)), int), is_of.cumsum(axis=0)])
    edges = (np.searchsorted(in_sentence, own + more) for more in (1, 0))
    found[:, :, 1] = np.subtract(*(before[each] for each in edges)) > 0
    found[:, :, 2] = is_of[in_sentence == 1].any(axis=0)
    # The next cue that begins in or after each span, and the last one that begins before it.
    after = np.searchsorted(start, first)
    has_last, has_next = after > 0, after < len(cues)
    left, right = np.maximum(after - 1, 0), np.minimum(after, len(cues) - 1)
    found[:, :, 3] = is_of[left] & has_last[:, None]
    distances = (np.maximum(start[i] - last, first - end[i]).clip(0) for i in (left, right))
    is_right = ~has_last | (has_next & np.less(*reversed([*distances])))
    found[:, :, 4] = is_of[np.where(is_right, right, left)]
    inside = has_next & (start[right] < last)
    gap = first - end[left]
    close = has_last & (in_sentence[left] == own) & (gap >= 0) & (gap <= MAX_GAP_CHARS) & ~inside
    for row in np.flatnonzero(close).tolist():
        close[row] = SHORT_GAP.fullmatch(text, end[left[row]], first[row]) is not None
    found[:, :, 5] = is_of[np.where(inside, right, left)] & (inside | close)[:, None]
    return found

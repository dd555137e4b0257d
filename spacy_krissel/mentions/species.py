"""Which species each mention of a doc is of, by the species that the doc names.

Genes of many species share a name. Which one is meant, the text says elsewhere: "patients", "mice", "HeLa".
"""

import re
from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np
from spacy.tokens import Doc, Span

from ..views import doc_text
from .contexts import sentence_starts

# Id in NCBI's Taxonomy -> its scientific name, then other words for it, its strains, cells and people.
WORDS: dict[str, str] = {
    "9606": "Homo sapiens|human|humans|patient|patients|man|men|woman|women|person|persons|people|individual"
    "|individuals|child|children|infant|infants|newborn|newborns|neonate|neonates|boy|boys|girl|girls|adult|adults|volunteer"
    "|volunteers|participant|participants|donor|donors|subject|subjects|family|families|kindred|kindreds|proband"
    "|probands|carrier|carriers|smokers|HeLa|HEK|HEK293|HEK293T|293T|HepG2|MCF-7|MCF7|Jurkat|K562|U937|THP-1|HL-60"
    "|Caco-2|HUVEC|HUVECs|A549|SH-SY5Y|HCT116|LNCaP|PBMC|PBMCs",
    "10090": "Mus musculus|mouse|mice|murine|C57BL|BALB|NIH3T3|3T3|3T3-L1|C2C12|RAW264|MEF|MEFs",
    "10116": "Rattus norvegicus|rat|rats|Rattus|Sprague-Dawley|Wistar|PC12",
    "7227": "Drosophila melanogaster|Drosophila|fly|flies|fruitfly",
    "4932": "Saccharomyces cerevisiae|Saccharomyces|yeast|yeasts",
    "4896": "Schizosaccharomyces pombe|Schizosaccharomyces",
    "3702": "Arabidopsis thaliana|Arabidopsis",
    "6239": "Caenorhabditis elegans|Caenorhabditis|nematode|nematodes|worm|worms",
    "7955": "Danio rerio|zebrafish|danio",
    "8364": "Xenopus tropicalis",
    "8355": "Xenopus laevis|Xenopus",
    "9913": "Bos taurus|bovine|cow|cows|calf|cattle",
    "9823": "Sus scrofa|porcine|pig|pigs|swine|piglet|piglets",
    "9031": "Gallus gallus|chicken|chickens|chick|chicks|avian|Gallus",
    "9615": "Canis lupus familiaris|dog|dogs|canine|canines",
    "9986": "Oryctolagus cuniculus|rabbit|rabbits",
    "9940": "Ovis aries|sheep|ovine|lamb|lambs",
    "9544": "Macaca mulatta|macaque|macaques|rhesus|monkey|monkeys",
    "10029": "Cricetulus griseus|hamster|hamsters|CHO",
    "10141": "Cavia porcellus|guinea pig|guinea pigs",
    "562": "Escherichia coli|E. coli",
}
# A strain or subspecies that publishers give in place of its species.
SPECIES_OF = {"559292": "4932", "284812": "4896", "511145": "562", "83333": "562", "10091": "10090", "10092": "10090"}
# What a mention may begin with: hTERT, mTOR.
PREFIXES = {"h": "9606", "m": "10090", "r": "10116", "d": "7227", "y": "4932", "x": "8355", "z": "7955"}
PREFIX = re.compile(rf"([{''.join(PREFIXES)}])(?=[A-Z][A-Za-z\d])")
# How many species words a doc is read for, so that the time stays linear in its mentions.
MOST_CUES = 256
# Least log-probability of a species: no text rules one out.
FLOOR = -4.0
TAXONOMIES = ("ncbitaxon", "taxonomy", "txid")


class Cue(NamedTuple):
    """A word for a species: its characters in the doc's text, and the species, as an id of NCBI's Taxonomy."""

    start: int
    end: int
    taxon: str


class Weights(NamedTuple):
    """The log-odds of a species (`species_scores`): for its share of the doc's cues, the logarithm of one more than
    their number, a cue in the mention's sentence, in the first sentence, the last one before the mention, the nearest
    one, and a prefix of the mention; and before anything is read, by species.

    Fitted to mentions of names that genes of one species alone have, in text without labels (`lab fit-species`); the
    last two are set by hand.
    """

    share: float = 1.29
    number: float = 0.28
    sentence: float = 0.05
    title: float = 0.4
    before: float = 0.24
    nearest: float = 0.19
    prefix: float = 3.0
    prior: tuple[tuple[str, float], ...] = (("9606", 1.0), ("10090", 0.5), ("10116", 0.2))


WEIGHTS = Weights()


def _lexicon() -> tuple[dict[str, str], re.Pattern[str]]:
    taxa = {word.lower(): taxon for taxon, words in WORDS.items() for word in words.split("|")}
    longest_first = sorted(map(re.escape, taxa), key=len, reverse=True)
    return taxa, re.compile(rf"(?<![^\W_])(?:{'|'.join(longest_first)})(?![^\W_])", re.IGNORECASE)


TAXA, CUE = _lexicon()


def taxon_of(species: str) -> str:
    """The id in NCBI's Taxonomy of what `Entity.species` holds, an id or a name; of another name, the name itself."""
    number = species.rpartition(":")[2].strip()
    if number.isdigit():
        return SPECIES_OF.get(number, number)
    name = re.sub(r"\s*\(.*", "", species).strip()
    return TAXA.get(name.lower(), name)


def prefix_taxon(mention: str) -> str | None:
    """The species that a gene is prefixed with, as human in hTERT."""
    match = PREFIX.match(mention)
    return PREFIXES[match[1]] if match else None


def species_cues(doc: Doc) -> list[Cue]:
    """The words for a species in the doc's text, by the lexicon of this module, and its spans that are linked to a
    taxon ("NCBITaxon:10090"), whichever component did that. In order; the first `MOST_CUES`."""
    cues = [Cue(match.start(), match.end(), TAXA[match[0].lower()]) for match in CUE.finditer(doc_text(doc))]
    for span in chain(doc.ents, *doc.spans.values()):
        prefix, _, number = span.kb_id_.partition(":")
        if number.isdigit() and prefix.lower() in TAXONOMIES:
            cues.append(Cue(span.start_char, span.end_char, SPECIES_OF.get(number, number)))
    # A linked span is a word of the lexicon too.
    return sorted(set(cues))[:MOST_CUES]


def species_scores(doc: Doc, spans: Sequence[Span], species: Sequence[str], weights: Weights = WEIGHTS) -> np.ndarray:
    """The log-probability that each span is of each of the species (len(spans), len(species)), at least `FLOOR`.

    species: those that are possible, as `Entity.species` has them.

    A softmax over log-odds that add up what the doc says (`Weights`). Where it names no species, man comes before mouse
    and rat, and these before others.
    """
    taxa = [taxon_of(each) for each in species]
    odds = species_features(doc, spans, taxa) @ np.array(weights[:-1])
    odds += [dict(weights.prior).get(taxon, 0.0) for taxon in taxa]
    odds -= odds.max(axis=1, keepdims=True, initial=-np.inf)
    return np.maximum(odds - np.log(np.exp(odds).sum(axis=1, keepdims=True)), FLOOR).astype(np.float32)


def species_features(doc: Doc, spans: Sequence[Span], taxa: Sequence[str]) -> np.ndarray:
    """What the doc says for each taxon being that of each span: (len(spans), len(taxa), 7), as `Weights` are."""
    columns = np.array(taxa)
    cues = [cue for cue in species_cues(doc) if cue.taxon in taxa]
    is_of = np.array([columns == cue.taxon for cue in cues]).reshape(-1, len(taxa))  # (cues, taxa)
    start, end = np.array([cue[:2] for cue in cues], dtype=np.int64).reshape(-1, 2).T
    sentences = np.array(sentence_starts(doc))
    in_sentence = np.searchsorted(sentences, start, side="right")
    number = is_of.sum(axis=0)
    found = np.zeros((len(spans), len(taxa), len(Weights._fields) - 1))
    found[:, :, 0] = number / max(1, len(cues))
    found[:, :, 1] = np.log1p(number)
    found[:, :, 3] = is_of[in_sentence == 1].any(axis=0)
    for of_span, span in zip(found, spans, strict=True):
        if cues:
            own = np.searchsorted(sentences, span.start_char, side="right")
            of_span[:, 2] = is_of[in_sentence == own].any(axis=0)
            before = end <= span.start_char
            if before.any():
                of_span[:, 4] = is_of[np.where(before, end, -1).argmax()]
            distance = np.maximum(np.maximum(start - span.end_char, span.start_char - end), 0)
            of_span[:, 5] = is_of[distance.argmin()]
        of_span[:, 6] = columns == prefix_taxon(span.text)
    return found

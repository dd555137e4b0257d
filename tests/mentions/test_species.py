"""The species of a mention: which words count, and how."""

import re
from bisect import bisect

import numpy as np
import pytest
import spacy
from hypothesis import given, settings
from hypothesis import strategies as st
from spacy.tokens import Span

from spacy_krissel.mentions.contexts import sentence_starts
from spacy_krissel.mentions.species import (
    FLOOR,
    N_FEATURES,
    SHORT_GAP,
    TOOL,
    TOOL_BEFORE,
    WEIGHTS,
    WORDS,
    prefix_taxon,
    species_cues,
    species_features,
    species_scores,
    taxon_of,
)
from spacy_krissel.mentions.species import TAXA as TAXA_OF_WORDS

HUMAN, MOUSE, RAT, FLY, YEAST = "9606", "10090", "10116", "7227", "4932"
TAXA = [HUMAN, MOUSE, RAT, FLY, YEAST]


@pytest.fixture(scope="module")
def blank():
    return spacy.blank("en")


def spans_of(doc, *words):
    return [token.doc[token.i : token.i + 1] for token in doc if token.text in words]


def best(doc, *words, species=TAXA):
    return [
        species[row] for row in species_scores(doc, spans_of(doc, *words), species).argmax(axis=1)
    ]


@pytest.mark.parametrize(
    "species, taxon",
    [
        ("9606", HUMAN),
        ("NCBITaxon:10090", MOUSE),
        ("559292", YEAST),
        ("Mus musculus", MOUSE),
        ("Homo sapiens (Human)", HUMAN),
        ("Vulpes vulpes", "Vulpes vulpes"),
        ("", ""),
    ],
)
def test_names_and_strains_map_to_their_species(species, taxon):
    assert taxon_of(species) == taxon


@pytest.mark.parametrize(
    "mention, taxon",
    [
        ("hTERT", HUMAN),
        ("mTOR", MOUSE),
        ("rBrca1", RAT),
        ("dMyc", FLY),
        ("hedgehog", None),
        ("h2", None),
        ("TERT", None),
        ("", None),
        ("mT", None),
    ],
)
def test_species_prefixes_of_genes_are_recognized(mention, taxon):
    assert prefix_taxon(mention) == taxon


def test_species_words_are_found_as_whole_words(blank):
    doc = blank(
        "Mice, MURINE cells, ratios, a strategy, patients' kin, womanhood, E. coli, C. elegans, "
        "fission\n"
        "yeast and yeast-like cells; PIG-A, MEF-2, HEK-293 cells, guinea  pigs, mouse-derived"
    )
    text = doc.text
    assert [(text[cue.start : cue.end], cue.taxon) for cue in species_cues(doc)] == [
        ("Mice", MOUSE),
        ("MURINE", MOUSE),
        ("patients", HUMAN),
        ("E. coli", "562"),
        ("C. elegans", "6239"),
        ("fission\nyeast", "4896"),
        ("yeast", YEAST),
        ("HEK-293", HUMAN),
        ("guinea  pigs", "10141"),
        ("mouse", MOUSE),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "yeast two-hybrid",
        "rat anti-mouse CD4",
        "rabbit anti-human IgG",
        "rabbit polyclonal sera",
        "fetal bovine serum",
        "calf thymus",
        "SCID mice",
        "mouse monoclonal",
    ],
)
def test_reagents_and_tools_are_no_species_cues(blank, text):
    assert species_cues(blank(f"A {text} was used.")) == []


@pytest.mark.parametrize(
    "text, taxon",
    [
        ("yeast cells", YEAST),
        ("mouse antigens", MOUSE),
        ("rat anti-Müllerian hormone", RAT),
        ("bovine serum amyloid A", "9913"),
        ("mouse serum", MOUSE),
        ("nude mice", HUMAN),
    ],
)
def test_species_with_tool_like_words_are_cues(blank, text, taxon):
    assert [cue.taxon for cue in species_cues(blank(f"A {text} was used."))] == [taxon]


@pytest.mark.parametrize(
    "text, just_before",
    [
        ("bovine DGI", True),
        ("bovine skin cDNA for DGI", True),
        ("bovine, and DGI", False),
        ("bovine cells that have in their membranes DGI", False),
        (f"bovine {'x' * 40} DGI", False),
        ("bovine. DGI", False),
        ("bovine\n\nDGI", False),
        ("bovine and DGI", False),
    ],
)
def test_just_before_feature_needs_a_species_close_to_the_gene(blank, text, just_before):
    doc = blank(text)
    assert species_features(doc, spans_of(doc, "DGI"), ["9606", "9913"])[0, 1, 5] == just_before


def test_linked_taxa_are_cues(blank):
    doc = blank("Brca1 of the dormouse and of mice")
    doc.ents = [Span(doc, 3, 4, label="Species", kb_id="NCBITaxon:10092")]
    doc.spans["taxa"] = [
        Span(doc, 6, 7, label="Species", kb_id="NCBITaxon:10090"),
        Span(doc, 0, 1, label="Gene", kb_id="9606"),
        Span(doc, 1, 2, label="Species", kb_id="10116"),
    ]
    # A subspecies counts for its species; "mice", linked and in the lexicon, counts once.
    assert [(cue.start, cue.taxon) for cue in species_cues(doc)] == [
        (6, RAT),
        (13, MOUSE),
        (29, MOUSE),
    ]


def test_taxa_missing_from_the_doc_do_not_lower_those_it_names(blank):
    """Example: genes together with the thousand species of cell lines."""
    doc = blank("Brca1 in mice.")
    others = [str(taxon) for taxon in range(1, 2000)]
    few, many = (
        species_scores(doc, spans_of(doc, "Brca1"), [*TAXA, *more])[0] for more in ([], others)
    )
    assert many[: len(TAXA)] == pytest.approx(few) and few[1] > few[0] > few[2] > few[3] > FLOOR


def test_doc_without_species_is_scored_by_the_prior(blank):
    human, mouse, rat, fly, _ = np.exp(
        species_scores(blank("Brca1 was seen."), [blank("Brca1")[:1]], TAXA)[0]
    )
    assert human > 4 * mouse > 4 * rat > 4 * fly


def test_features_match_hand_computed_values(blank):
    doc = blank("Brca1 in mice. Loss of hRad51 in patients and in mice. Yeast cells had Rad51 too.")
    first, second, last = species_features(doc, spans_of(doc, "Brca1", "hRad51", "Rad51"), TAXA)
    #                  fraction sentence title before nearest just before
    assert first == pytest.approx(
        np.array(
            [[1 / 4, 0, 0, 0, 0, 0], [1 / 2, 1, 1, 0, 1, 0], *np.zeros((2, 6)), [1 / 4, *[0] * 5]]
        )
    )
    assert second[0] == pytest.approx([1 / 4, 1, 0, 0, 1, 0])
    assert second[1] == pytest.approx([1 / 2, 1, 1, 1, 0, 0])
    assert last[4] == pytest.approx([1 / 4, 1, 0, 1, 1, 1])
    expected = last @ np.array(WEIGHTS[:N_FEATURES]) + [
        dict(WEIGHTS.prior).get(taxon, 0) for taxon in TAXA
    ]
    scores = species_scores(doc, spans_of(doc, "Rad51"), TAXA)[0]
    assert scores == pytest.approx(np.maximum(expected - expected.max(), FLOOR), abs=1e-6)


def test_species_within_a_mention_wins_over_the_one_before(blank):
    doc = blank("In patients the mouse Brca1 gene")
    assert species_features(doc, [doc[3:5]], TAXA)[0, :2, 5].tolist() == [0, 1]
    assert species_scores(doc, [doc[3:5]], TAXA).argmax() == TAXA.index(MOUSE)


def test_missing_species_gets_the_best_score(blank):
    doc = blank("Mice without Brca1")
    scores = species_scores(doc, spans_of(doc, "Brca1"), [*TAXA, ""])
    assert scores[:, :-1] == pytest.approx(
        species_scores(doc, spans_of(doc, "Brca1"), TAXA), abs=1e-6
    )
    assert scores[0, -1] == scores[0].max()
    assert (species_scores(doc, spans_of(doc, "Brca1"), [""]) == 0).all()


def test_given_prefix_decides_the_species(blank):
    doc = blank("Patients with mTOR, men with mTOR")
    spans = spans_of(doc, "mTOR")
    assert species_scores(doc, spans, TAXA, [None, MOUSE]).argmax(axis=1).tolist() == [0, 1]


def test_long_doc_is_read_completely(blank):
    doc = blank("The patients were seen. " * 300 + "In mice, Shh was deleted in mouse embryos.")
    found = species_features(doc, spans_of(doc, "Shh"), TAXA)[0]
    assert found[0, 0] == pytest.approx(300 / 302) and found[1, 1:].tolist() == [1, 0, 1, 1, 0]


def test_named_species_scores_highest(blank):
    assert best(blank("Patients with mutations of Brca1 were studied."), "Brca1") == [HUMAN]
    assert best(blank("Mice without Brca1 were studied."), "Brca1") == [MOUSE]
    assert best(blank("Brca1 was studied."), "Brca1") == [HUMAN]
    assert best(blank("In Drosophila, flies with Brca1"), "Brca1") == [FLY]
    # Species that the knowledge base does not have say nothing.
    assert best(blank("In zebrafish with Brca1"), "Brca1", species=[MOUSE, RAT]) == [MOUSE]
    assert best(blank("daf-16 in C. elegans"), "daf-16", "daf", species=["6239", HUMAN]) == ["6239"]


def test_species_of_one_taxon_score_equally(blank):
    doc = blank("Mice without Brca1")
    scores = species_scores(
        doc, spans_of(doc, "Brca1"), [taxon_of(each) for each in ("10090", "10092", "9606")]
    )
    assert scores[0, 0] == scores[0, 1] > scores[0, 2]


NAMES = [*(words.split("|")[0] for words in WORDS.values()), "and", ".", "mice", "of"]


@given(words=st.lists(st.sampled_from(NAMES), max_size=40), n=st.integers(0, 3))
def test_scores_of_any_doc_are_finite_and_bounded(blank, words, n):
    doc = blank("A1 " + " ".join(words))
    spans = [doc[0:1]] * n
    scores = species_scores(doc, spans, TAXA)
    assert (
        scores.shape == (n, len(TAXA))
        and np.isfinite(scores).all()
        and (scores <= 0).all()
        and (scores >= FLOOR).all()
    )


PIECES = (
    "human mice Mouse rats E. coli fission yeast hybrid anti- rabbit fetal bovine serum Brca1 and "
    "in cells lacking the . ? İ ſ guinea pig HEK-293 PC3 \n"
).split(" ")

WORD_PATTERNS = sorted(map(re.escape, TAXA_OF_WORDS), key=len, reverse=True)
ANY_WORD = re.compile(
    rf"(?<![^\W_])(?:{'|'.join(WORD_PATTERNS)})(?![^\W_]|-\d|-[a-z](?![^\W_]))".replace(
        r"\ ", r"\s+"
    )
)


@settings(max_examples=40)
@given(st.data())
def test_features_equal_a_plain_restatement(blank, data):
    doc = blank(" ".join(data.draw(st.lists(st.sampled_from(PIECES), min_size=1, max_size=30))))
    starts = data.draw(st.lists(st.integers(0, len(doc) - 1), unique=True, max_size=5))
    spans = [doc[start : min(len(doc), start + 2)] for start in sorted(starts)]
    taxa = data.draw(st.permutations([*TAXA, "562", "10141", HUMAN]))
    assert species_cues(doc) == plain_cues(doc)
    expected = [[plain_features(doc, span, taxon) for taxon in taxa] for span in spans]
    found = species_features(doc, spans, taxa)
    np.testing.assert_array_equal(found, np.reshape(expected, found.shape))


def plain_cues(doc):
    """The longest words of the lexicon, by a list of them all."""
    text = doc.text.replace("İ", "i").lower()
    return [
        (match.start(), match.end(), TAXA_OF_WORDS[" ".join(match[0].split())])
        for match in ANY_WORD.finditer(text)
        if not TOOL.match(doc.text, match.start())
        and not TOOL_BEFORE.search(doc.text[max(0, match.start() - 8) : match.start()])
    ]


def plain_features(doc, span, taxon):
    cues = [cue for cue in species_cues(doc) if cue.taxon in [*TAXA, "562", "10141"]]
    if not cues:
        return [0] * N_FEATURES
    starts = sentence_starts(doc)
    sentence = [bisect(starts, cue.start) for cue in cues]
    own = bisect(starts, span.start_char)
    earlier = [i for i, cue in enumerate(cues) if cue.start < span.start_char]
    later = [i for i, cue in enumerate(cues) if cue.start >= span.start_char]
    near = min(
        [*earlier[-1:], *later[:1]],
        key=lambda i: max(cues[i].start - span.end_char, span.start_char - cues[i].end, 0),
    )
    just = None
    if later and cues[later[0]].start < span.end_char:
        just = later[0]
    elif earlier and sentence[earlier[-1]] == own:
        gap = doc.text[cues[earlier[-1]].end : span.start_char]
        touches = cues[earlier[-1]].end <= span.start_char
        just = earlier[-1] if touches and len(gap) <= 40 and SHORT_GAP.fullmatch(gap) else None
    mine = [cue.taxon == taxon for cue in cues]
    return [
        sum(mine) / len(cues),
        any(each and place == own for each, place in zip(mine, sentence, strict=True)),
        any(each and place == 1 for each, place in zip(mine, sentence, strict=True)),
        bool(earlier) and mine[earlier[-1]],
        mine[near],
        just is not None and mine[just],
    ]

import numpy as np
import pytest
import spacy
from tiers import nightly

from spacy_krissel.evaluation import baselines
from spacy_krissel.evaluation.baselines import (
    BASELINES,
    exact_match,
    expand_abbreviations,
    settle_ties,
    tfidf,
)
from spacy_krissel.evaluation.gold import read_gold
from spacy_krissel.evaluation.metrics import is_lenient, is_strict, measure
from spacy_krissel.evaluation.records import LinkRecord
from spacy_krissel.mentions.gold_mentions import split_gold
from spacy_krissel.ontology.entity import Entity
from spacy_krissel.ontology.store import write_store
from spacy_krissel.util.folding import fold_name

pytestmark = pytest.mark.slow


def test_exact_match_folds_names_and_keeps_ties(make_record, store):
    cancer, shared, unlisted = exact_match(
        [make_record("BREAST-cancer"), make_record("ms", ("D2",)), make_record("mammary growth")],
        store,
    )
    assert (cancer.prediction, cancer.ties, cancer.prototype_surface) == ("D5", [], "breast cancer")
    assert shared.ties == ["D1", "D2"] and shared.ranked == ["D1", "D2"]
    assert not is_strict(shared) and is_lenient(shared, store.find)
    assert (unlisted.prediction, unlisted.ranked, unlisted.prototype) == ("", [], "")


def test_tfidf_finds_the_nearest_name(make_record, store):
    near, shared, nothing = tfidf(
        [make_record("breast cancers"), make_record("MS"), make_record("zzz")], store
    )
    assert near.prediction == "D5" and not near.ties
    assert near.prototype == "⟦breast cancer⟧" and near.prototype_surface == "breast cancer"
    assert near.scores == sorted(near.scores, reverse=True) and near.scores[0] < 1
    assert shared.ties == ["D1", "D2"] and not is_strict(shared)
    assert (nothing.prediction, nothing.ranked) == ("", [])


def test_baselines_settle_ties_like_the_linker(make_record, store):
    before = exact_match([make_record("ms", ("D2",)), make_record("BREAST-cancer")], store)
    known = {id_: len(store.get(id_).names) for id_ in before[0].ties}
    shared, single = settle_ties(before, store)
    assert known["D1"] != known["D2"]
    best = max(known, key=known.get)
    assert (shared.prediction, shared.ranked[0], shared.ties) == (best, best, [])
    assert sorted(shared.ranked) == ["D1", "D2"] and single == before[1]


@pytest.mark.parametrize("link", BASELINES.values())
def test_baselines_keep_the_mention_and_drop_results_of_the_other_system(make_record, store, link):
    record = make_record(
        "cold", ("D3",), "D1", ["D1"], left="a ", prototype="p", prototype_kind="gold", scores=[3.0]
    )
    (linked,) = link([record], store)
    assert (linked.gold, linked.left, linked.start) == (("D3",), "a ", 0)
    assert linked.prototype_kind == "name" and linked.ranked[:2] == ["D3", "D4"]
    assert record.prediction == "D1"
    (lost,) = link([make_record("cold", ("D3",), found=False)], store)
    assert lost.prediction == "" and not lost.found
    assert link([], store) == []


@pytest.mark.parametrize("link", BASELINES.values())
def test_baselines_can_search_another_text(make_record, store, link):
    """The mention is looked up by the text that is given, and keeps its own."""
    records = [make_record("BRC"), make_record("cold", found=False), make_record("MS")]
    first, lost, tied = link(records, store, texts=["Breast-Cancer", "cold", "MS"])
    assert (first.prediction, first.text, first.prototype_surface) == ("D5", "BRC", "breast cancer")
    assert lost.prediction == "" and tied.ties == ["D1", "D2"]


def test_abbreviations_are_expanded_per_document(make_record):
    documents = {"1": "Breast cancer (BRC) is", "2": "bronchiectasis (BRC) and BRC"}
    records = [
        make_record("BRC", doc="1"),
        make_record("BRC", doc="2"),
        make_record("late BRC", doc="1"),
    ]
    assert expand_abbreviations(records, documents) == [
        "Breast cancer",
        "bronchiectasis",
        "late Breast cancer",
    ]


def test_tfidf_in_small_blocks_gives_the_same_links(make_record, store, monkeypatch):
    records = [
        make_record(text)
        for text in ("cold", "MS", "breast", "sclerosis of the cold breast", "odd")
    ]
    whole = tfidf(records, store, k=4)
    monkeypatch.setattr(baselines, "BLOCK_CELLS", 6)
    monkeypatch.setattr(baselines, "QUERY_BLOCK", 2)
    assert tfidf(records, store, k=4) == whole


def test_tfidf_agrees_with_a_dense_reference(tmp_path, make_record):
    rng = np.random.default_rng(0)
    words = ["".join(rng.choice(list("abcd"), size=4)) for _ in range(60)]
    entities = [
        Entity(f"E{i:02}", words[i], (f"{words[i]} {words[-1 - i]}", words[(i * 7) % 60]))
        for i in range(30)
    ]
    store = write_store(iter(entities), tmp_path / "store")
    records = [make_record(f"{words[i]} {words[(i * 11) % 60]}") for i in range(40)]

    from sklearn.feature_extraction.text import TfidfVectorizer

    names = sorted({fold_name(name) for entity in entities for name in entity.names})
    vectorizer = TfidfVectorizer(analyzer="char_wb", ngram_range=(3, 3))
    dense = vectorizer.fit_transform(names).toarray()
    queries = vectorizer.transform([record.text for record in records]).toarray()
    for record, query in zip(tfidf(records, store, k=5), queries, strict=True):
        scores = {
            e.id: max(dense[names.index(fold_name(name))] @ query for name in e.names)
            for e in entities
        }
        best = sorted(scores.values(), reverse=True)[: len(record.ranked)]
        assert record.scores == pytest.approx(best, abs=1e-5)
        assert [scores[id_] for id_ in record.ranked] == pytest.approx(best, abs=1e-5)
        tied = sorted(id_ for id_, score in scores.items() if score > best[0] - 1e-7)
        assert record.ties == (tied if len(tied) > 1 else [])


@pytest.fixture(scope="module")
def medic(data_dir, tmp_path_factory):
    """MEDIC with its names as the file spells them: the figures are for those, HTML's `&apos;`
    included."""

    def entities():
        for line in (
            (data_dir / "ontologies" / "medic_06Jul2012.txt")
            .read_text(encoding="utf8")
            .splitlines()
        ):
            ids, _, names = line.partition("||")
            first, *others = [id_ for id_ in ids.split("|") if id_]
            yield Entity(
                first, names.split("|")[0], tuple(names.split("|")[1:]), alt_ids=tuple(others)
            )

    return write_store(entities(), tmp_path_factory.mktemp("medic") / "store")


@pytest.mark.data
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::spacy_krissel.errors.KrisselWarning")
@pytest.mark.parametrize(
    "corpus, labels, n, n_composite, figures",
    [
        (
            "ncbi_disease/NCBIdevelopset_corpus.txt",
            None,
            787,
            30,
            {"exact": (0.531, 0.564), "tfidf": (0.701, 0.755)},
        ),
        # Of the 98 composites of this file one is an id and "-1", which is one concept.
        nightly(
            "bc5cdr/CDR_DevelopmentSet.PubTator.txt",
            ["Disease"],
            4228,
            97,
            {"exact": (0.563, 0.567), "tfidf": (0.713, 0.718)},
        ),
    ],
)
def test_baselines_reproduce_published_results(
    data_dir, medic, corpus, labels, n, n_composite, figures
):
    records = []
    for item in read_gold(data_dir / "corpora" / corpus, spacy.blank("en"), labels=labels):
        for mention in item.mentions:
            if gold := split_gold(mention.kb_id_, medic):
                place = (mention.start_char, mention.end_char)
                records.append(LinkRecord(item.id, *place, mention.text, mention.label_, gold))
    assert len(records) == n
    assert sum(len(record.gold) > 1 for record in records) == n_composite
    for name, (strict, lenient) in figures.items():
        found = measure(BASELINES[name](records, medic), medic, resamples=10)
        assert found["strict"] == pytest.approx(strict, abs=0.001), name
        assert found["lenient"] == pytest.approx(lenient, abs=0.001), name

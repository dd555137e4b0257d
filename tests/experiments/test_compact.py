"""The encoder that ships: the texts that it may be trained on, the gold it is measured by, and its
weights."""

import gzip
import json

import numpy as np
import pytest
import spacy
import srsly
from lab.data.compact import gsc_plus, make_compact, open_texts
from lab.data.distilled_names import distill_names, name_vectors, read_vectors
from lab.data.phrases import phrases, phrases_of
from numpy.testing import assert_allclose
from spacy.tokens import DocBin

from spacy_krissel.corpora.convert import convert
from spacy_krissel.errors import KrisselError
from spacy_krissel.layers.hashed_bags import MAX_STEP, HashedTable
from spacy_krissel.mentions.gold_mentions import SPANS_KEY
from spacy_krissel.ontology.entity import Entity
from spacy_krissel.ontology.store import write_store
from spacy_krissel.pipeline.pipeline_io import find_linker

CARD = {
    "lang": "en",
    "name": "tiny",
    "version": "3.2.1",
    "license": "MIT",
    "sources": [{"name": "x"}],
}


def json_lines(*ids):
    return "".join(
        json.dumps({"id": id_, "text": f"Text “{id_}”."}, ensure_ascii=False) + "\n" for id_ in ids
    )


def test_phrases_are_runs_of_words_between_stop_words_and_marks():
    text = "The TNF-α level was 4.5 mg in CD8+ T cells, not in (renal) biopsies of one two  men."
    assert [*phrases_of(text)] == ["TNF-α level", "mg", "CD8+ T cells", "renal", "biopsies", "men"]
    assert [*phrases_of("severe acute renal tubular necrosis")] == []


def test_phrases_of_enough_texts_are_drawn_by_hash(tmp_path):
    texts = tmp_path / "texts.jsonl"
    lines = [{"id": str(i), "text": f"Renal biopsies of patients {'abc'[i]}x."} for i in range(3)]
    texts.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert phrases([texts], tmp_path / "all.txt.gz", progress=False) == (1, 1)
    found = gzip.decompress((tmp_path / "all.txt.gz").read_bytes()).decode()
    assert found == "Renal biopsies\n"
    assert phrases([texts], tmp_path / "few.txt.gz", n=2, min_docs=1, progress=False) == (2, 4)
    phrases([texts], tmp_path / "same.txt.gz", n=2, min_docs=1, progress=False)
    first, second = ((tmp_path / f"{name}.txt.gz").read_bytes() for name in ("few", "same"))
    assert first == second


def test_only_texts_of_open_sources_are_copied(tmp_path):
    (tmp_path / "abstracts.jsonl.gz").write_bytes(gzip.compress(json_lines(7, "8").encode("utf8")))
    (tmp_path / "genes.jsonl").write_text(
        json_lines("epi-1", "epis-1", "a-epi", "epi", "pc-2-a"), encoding="utf8"
    )
    paths = [tmp_path / "abstracts.jsonl.gz", tmp_path / "genes.jsonl"]
    assert open_texts(paths, tmp_path / "open.jsonl", {"epi", "pc"}) == (4, 7)
    assert (tmp_path / "open.jsonl").read_text(encoding="utf8") == json_lines(
        7, "8", "epis-1", "a-epi"
    )


@pytest.mark.filterwarnings("error")
def test_a_text_without_an_id_is_skipped_with_a_warning(tmp_path):
    """Its licence is not known."""
    (tmp_path / "texts.jsonl").write_text(
        json_lines("a-1") + '{"text": "Whose?"}\n', encoding="utf8"
    )
    with pytest.warns(UserWarning, match="line 2.*it has no id"):
        assert open_texts([tmp_path / "texts.jsonl"], tmp_path / "open.jsonl", ()) == (1, 1)


@pytest.fixture
def gsc(tmp_path):
    """Two texts, one on several lines and one with a letter that takes two bytes."""
    texts = {
        "11": (
            "Short  fingers\nand gout.\n",
            [(0, 14, "HP_0001156"), (19, 23, "HP_0001997"), (19, 23, "HP_0001")],
        ),
        "2": ("Naïve\n\n gout", [(8, 12, "HP_0001997")]),
    }
    for name in ("corpus", "ann"):
        (tmp_path / "gsc" / name).mkdir(parents=True)
    for name, (text, mentions) in texts.items():
        lines = [f"[{start}::{end}]\t{id_} | as it is called" for start, end, id_ in mentions]
        (tmp_path / "gsc" / "corpus" / name).write_text(text, encoding="utf8")
        (tmp_path / "gsc" / "ann" / name).write_text("\n".join(["", *lines]), encoding="utf8")
    return tmp_path / "gsc"


def test_gsc_plus_phenotypes_keep_their_offsets(gsc, tmp_path):
    assert gsc_plus(gsc, tmp_path / "gsc.pubtator") == (2, 4)
    convert([tmp_path / "gsc.pubtator"], tmp_path / "gsc.spacy")
    docs = list(DocBin().from_disk(tmp_path / "gsc.spacy").get_docs(spacy.blank("en").vocab))
    assert [doc.text for doc in docs] == ["Short  fingers and gout.", "Naïve   gout"]
    found = [
        [(span.text, span.label_, span.kb_id_) for span in doc.spans[SPANS_KEY]] for doc in docs
    ]
    gout = ("gout", "Phenotype", "HP:0001997")
    assert found == [
        [("Short  fingers", "Phenotype", "HP:0001156"), gout, (*gout[:2], "HP:0001")],
        [gout],
    ]


def test_a_missing_part_of_gsc_plus_raises_a_coded_error(gsc, tmp_path):
    (gsc / "ann" / "2").unlink()
    with pytest.raises(KrisselError, match="K026.*ann/2"):
        gsc_plus(gsc, tmp_path / "gsc.pubtator")
    with pytest.raises(KrisselError, match="K201.*corpus"):
        gsc_plus(gsc / "ann", tmp_path / "gsc.pubtator")
    assert [*tmp_path.iterdir()] == [gsc]


@pytest.fixture
def make_pipeline(tmp_path):
    """Saves a pipeline with a small encoder, its weights drawn by `seed`. RETURNS: its path and
    encoder."""

    def make(name, seed):
        nlp = spacy.blank("en")
        sizes = {"width": 6, "rows": 128, "context_rows": 64, "hidden": 5, "seed": seed}
        model = {"@architectures": "spacy-krissel.SmallEncoder.v1", **sizes}
        nlp.add_pipe("krissel_linker", config={"model": model, "lexical_weight": 0.7})
        nlp.initialize()
        encoder = find_linker(nlp).model
        random = np.random.default_rng(seed)
        for node in encoder.walk():
            for param in node.param_names:
                node.set_param(
                    param, random.normal(size=node.get_param(param).shape).astype("float32")
                )
        nlp.to_disk(tmp_path / name)
        return tmp_path / name, encoder

    return make


def weights(encoder):
    """Its tables, and its parameters."""
    nodes = list(encoder.walk())
    tables = [shim.table for node in nodes for shim in node.shims if isinstance(shim, HashedTable)]
    return tables, [
        node.get_param(name) for node in nodes for name in node.param_names if node.has_param(name)
    ]


def test_the_shipped_encoder_is_a_rounded_average(make_pipeline, tmp_path):
    (start, before), (trained, after) = make_pipeline("start", 1), make_pipeline("trained", 2)
    srsly.write_json(tmp_path / "meta.json", CARD)
    size = make_compact(trained, start, tmp_path / "made", share=0.75, meta=tmp_path / "meta.json")
    files = [path for path in (tmp_path / "made").rglob("*") if path.is_file()]
    assert size == sum(path.stat().st_size for path in files) and "vocab" not in {
        path.name for path in files
    }
    made = spacy.load(tmp_path / "made")
    (tables, params), (old, old_params), (new, new_params) = map(
        weights, (find_linker(made).model, before, after)
    )
    assert len(tables) == 2 and len(params) > 2
    for found, a, b in zip(tables, old, new, strict=True):
        expected = 0.25 * a + 0.75 * b
        step = np.abs(expected).max(axis=1, keepdims=True) / MAX_STEP
        assert (np.abs(found - expected) <= 0.5001 * step).all()
        assert_allclose(found / step, np.rint(found / step), atol=1e-3)
    for found, a, b in zip(params, old_params, new_params, strict=True):
        assert_allclose(found, 0.25 * a + 0.75 * b, atol=1e-6)
    # A byte a weight, in place of four.
    before_size, made_size = (
        path / "krissel_linker" / "model" for path in (trained, tmp_path / "made")
    )
    assert before_size.stat().st_size - made_size.stat().st_size > 0.5 * sum(
        table.nbytes for table in tables
    )


def test_several_trained_encoders_are_averaged_alike(make_pipeline, tmp_path):
    paths, encoders = zip(*(make_pipeline(name, i) for i, name in enumerate("abc")), strict=True)
    srsly.write_json(tmp_path / "meta.json", CARD)
    start, first, second = paths
    settings = {"share": 0.8, "meta": tmp_path / "meta.json"}
    make_compact(first, start, tmp_path / "made", others=[second], **settings)
    found = weights(find_linker(spacy.load(tmp_path / "made")).model)[1]
    old, *new = (weights(encoder)[1] for encoder in encoders)
    for each, a, b, c in zip(found, old, *new, strict=True):
        assert_allclose(each, 0.2 * a + 0.4 * b + 0.4 * c, atol=1e-6)


def test_the_shipped_encoder_has_the_given_model_card_and_no_training(make_pipeline, tmp_path):
    path, _ = make_pipeline("start", 1)
    srsly.write_json(tmp_path / "meta.json", CARD)
    make_compact(path, path, tmp_path / "made", share=0.5, meta=tmp_path / "meta.json")
    made = spacy.load(tmp_path / "made")
    assert {key: made.meta[key] for key in CARD} == CARD
    assert made.get_pipe_config("krissel_linker")["objective"] is None
    # `krissel build` starts another from it.
    assert made.pipe_names == ["krissel_linker"] and not find_linker(made).kb.n_prototypes


@pytest.fixture
def vectors(tiny_bert, tmp_path):
    """Vectors of names and phrases."""
    entities = [Entity("a", "Gout", ["Gouty arthritis"]), Entity("b", "Renal  failure", ["GOUT"])]
    write_store(iter(entities), tmp_path / "store")
    (tmp_path / "phrases.txt.gz").write_bytes(gzip.compress(b"renal failure\nna\xc3\xafve cells\n"))
    phrases = [tmp_path / "phrases.txt.gz"]
    path = tmp_path / "vectors.arrow"
    assert name_vectors(str(tiny_bert), path, ontology=tmp_path / "store", phrases=phrases) == 4
    return path


def test_a_teacher_encodes_each_name_and_phrase_once(vectors):
    names, found = read_vectors(vectors)
    assert sorted(names) == ["gout", "gouty arthritis", "naïve cells", "renal failure"]
    assert_allclose(np.linalg.norm(found.astype("float32"), axis=1), 1, atol=1e-3)
    assert len(np.unique(found, axis=0)) == 4


def test_distilled_names_are_nearer_to_the_teacher_and_repeatable(vectors, make_pipeline, tmp_path):
    start, _ = make_pipeline("start", 1)
    settings = {"passes": 200, "progress": False}
    few = distill_names(vectors, start, tmp_path / "few", passes=1, progress=False)
    cosine = distill_names(vectors, start, tmp_path / "made", **settings)
    assert cosine > few + 0.3
    again = distill_names(vectors, start, tmp_path / "again", **settings)
    models = [tmp_path / name / "krissel_linker" / "model" for name in ("made", "again")]
    assert again == cosine and models[0].read_bytes() == models[1].read_bytes()


def test_unreadable_vectors_raise_a_coded_error(make_pipeline, tmp_path):
    start, _ = make_pipeline("start", 1)
    with pytest.raises(KrisselError, match=r"K026.*none\.arrow"):
        distill_names(tmp_path / "none.arrow", start, tmp_path / "made")
    assert not (tmp_path / "made").exists()

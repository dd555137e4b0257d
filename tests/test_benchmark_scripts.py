"""Benchmarks that are run at full size elsewhere, at a size that shows that they run."""

import ast
import gzip
import importlib
import json
import re
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
import spacy
from spacy.tokens import DocBin, Span

from spacy_krissel import Entity, build
from spacy_krissel.corpora.convert import convert
from spacy_krissel.mining.mine import mine
from spacy_krissel.mining.shards import MentionShards
from spacy_krissel.ontology.build import build_ontology
from spacy_krissel.ontology.store import write_store

pytestmark = pytest.mark.slow

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture
def benchmark(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    return importlib.import_module


@pytest.mark.nightly
def test_synthetic_umls_is_read_completely(benchmark, tmp_path):
    rows = benchmark("umls_files").write_umls(tmp_path / "META", 300)
    again = benchmark("umls_files").write_umls(tmp_path / "again", 300)
    assert rows == again
    for name in ("MRCONSO.RRF", "MRREL.RRF", "SRDEF"):
        assert (tmp_path / "META" / name).read_bytes() == (tmp_path / "again" / name).read_bytes()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        store = build_ontology(
            tmp_path / "META", tmp_path / "store", relations=["RB"], semantic_types=["A", "B"]
        )
    assert len(store) == 300 and 2 < store.manifest["names"] / len(store) < 2.7
    assert store.manifest["shared_names"] and store.manifest["alternative_ids"] == rows["MRCUI"]
    assert len(store.manifest["info"]["provenance"][0]["vocabularies"]) == rows["MRSAB"]


def test_ontology_benchmark_runs(benchmark, tmp_path, capsys):
    script = benchmark("ontology_at_size")
    benchmark("umls_files").write_umls(tmp_path / "META", 300)
    store = build_ontology(tmp_path / "META", tmp_path / "store")
    script.open_store(store.path)
    script.rates(store.path, n=50)
    opened, rates = map(json.loads, capsys.readouterr().out.splitlines())
    assert 0 < opened["seconds"] <= opened["first_entity"] and len(rates["a second"]) == 3
    script.write_concepts(store, tmp_path / "concepts.jsonl")
    again = build_ontology(tmp_path / "concepts.jsonl", tmp_path / "again")
    assert [entity.names for entity in again] == [entity.names for entity in store]


def test_lexical_index_benchmark_runs(benchmark, tmp_path):
    script = benchmark("lexical_at_size")
    benchmark("umls_files").write_umls(tmp_path / "META", 100)
    store = build_ontology(tmp_path / "META", tmp_path / "store")
    n = 2 * store.manifest["names"]
    names, entities = script.names_of(store.path, n, 0)
    assert len(set(names)) > n - 20 and len(set(entities.tolist())) == 200, (
        "the second round is not told from the first"
    )
    (tmp_path / "place").mkdir()
    row = {
        "names": n,
        **script.build(store.path, tmp_path / "place", n, 0),
        **script.search(tmp_path / "place"),
    }
    assert row["found"] > 0.5 and row["files_mib"] > 0
    assert f"{n:,}" in script.markdown([row])


@pytest.fixture(scope="module")
def linking(tmp_path_factory):
    """A store, a linker to it, and gold mentions: the folder of `store`, `linker` and
    `gold.spacy`."""
    folder = tmp_path_factory.mktemp("linking")
    names = (
        "heart failure",
        "liver failure",
        "skin cancer",
        "lung disease",
        "common cold",
        "stroke",
    )
    write_store(
        (Entity(f"D{i}", name, (f"{name} {i}",)) for i, name in enumerate(names)), folder / "store"
    )
    build(folder / "store", folder / "linker")
    blank, docs = spacy.blank("en"), []
    for i, name in enumerate(names):
        doc = blank.make_doc(f"She had {name} twice.")
        doc.set_ents([Span(doc, 2, len(doc) - 2, label="X", kb_id=f"D{i}")])
        docs.append(doc)
    DocBin(docs=docs, store_user_data=True).to_disk(folder / "gold.spacy")
    return folder


@pytest.mark.nightly
def test_linking_benchmark_runs(benchmark, linking, tmp_path, monkeypatch):
    script = benchmark("linking_at_size")
    monkeypatch.setattr(script, "WORDS_TOGETHER", 60)
    # More names than the store has: they come again, with a number.
    script.main(
        tmp_path / "folder",
        linking / "store",
        [],
        gold=[linking / "gold.spacy"],
        names=[30],
        words=[5],
        passes=1,
        output=tmp_path / "found.json",
    )
    found = json.loads((tmp_path / "found.json").read_text())
    (row,), (length,) = found["rows"], found["lengths"]
    assert (
        row["entities"] == 15
        and row["recommended"]["mentions"] == 6
        and row["recommended"]["strict"] == 1
    )
    assert length["documents"] == length["mentions"] == 12
    assert (tmp_path / "found.svg").read_text().startswith("<?xml")


@pytest.mark.nightly
def test_startup_benchmark_runs(benchmark, linking, tmp_path, monkeypatch):
    script = benchmark("start")
    for title in ("import spacy, a blank pipeline", "spacy.load", "krissel --help"):
        monkeypatch.delitem(script.SCRIPTS, title)
    script.main(linking / "linker", times=1, output=tmp_path / "found.json")
    found = json.loads((tmp_path / "found.json").read_text())
    assert (
        found["ratio"]["a blank pipeline, saved and loaded"] == 1
        and found["setup"]["pipeline_mib"] > 0
    )


def test_annotators_are_compared_on_the_same_names(
    benchmark, linking, tmp_path, monkeypatch, capsys
):
    script, peers = benchmark("finder"), benchmark("finder_peers")
    nlp = spacy.load(linking / "linker")
    nlp.remove_pipe("krissel_finder")
    ruler = nlp.add_pipe("entity_ruler", first=True)
    ruler.add_patterns([{"label": "X", "pattern": "skin cancer"}])
    nlp.to_disk(tmp_path / "ruled")
    script.main(
        str(linking / "store"),
        linking / "gold.spacy",
        [f"ruled={tmp_path / 'ruled'}"],
        peer=[f"gilda={sys.executable}", f"missing={sys.executable}"],
        passes=1,
        output=tmp_path / "found.json",
    )
    rows = {row["system"]: row for row in json.loads((tmp_path / "found.json").read_text())["rows"]}
    assert rows["dictionary"]["spans"]["micro"]["f1"] == 1.0
    assert rows["ruled"]["spans"]["micro"]["recall"] == pytest.approx(1 / 6)
    assert rows["ruled"]["texts_per_second"] > 0
    assert rows["gilda"]["skipped"] == "gilda is not installed"
    assert "missing" in rows["missing"]["skipped"]
    assert "| ruled | 1.000 | 0.167 |" in capsys.readouterr().out

    def longest(entities, data):
        names = {entity["name"]: entity["id"] for entity in entities}
        return lambda text: [
            (text.index(name), text.index(name) + len(name), id_)
            for name, id_ in names.items()
            if name in text
        ]

    monkeypatch.setitem(peers.PEERS, "longest", (longest, "spacy"))
    (tmp_path / "names.jsonl").write_text('{"id": "D1", "name": "stroke", "aliases": []}\n')
    (tmp_path / "texts.jsonl").write_text('"A stroke."\n"None."\n')
    paths = [tmp_path / name for name in ("names.jsonl", "texts.jsonl", "links.json")]
    peers.main("longest", *paths)
    found = json.loads(paths[2].read_text())
    assert found["links"] == [[[2, 8, "D1"]], []] and found["version"] == spacy.__version__


@pytest.mark.nightly
def test_linking_stage_times_add_up(benchmark, linking, tmp_path):
    script = benchmark("linking_stages")
    paths = linking / "store", [linking / "linker"]
    script.main(*paths, gold=[linking / "gold.spacy"], passes=1, output=tmp_path / "found.json")
    ours, peer = json.loads((tmp_path / "found.json").read_text())["rows"]
    assert ours["mentions"] == peer["mentions"] == 6 and ours["strict"] == peer["strict"] == 1
    assert set(ours["stages"]) == {script.REST, *script.STAGES.values()}, (
        "a function is not called where it was"
    )
    assert sum(ours["stages"].values()) == pytest.approx(6 / ours["mentions_per_second"])


@pytest.mark.nightly
def test_service_load_benchmark_runs(benchmark, linking, tmp_path):
    benchmark("serving_load").main(
        linking / "linker",
        [linking / "gold.spacy"],
        clients=2,
        seconds=0.5,
        output=tmp_path / "found.json",
    )
    found = json.loads((tmp_path / "found.json").read_text())
    assert set(found["load"]["statuses"]) == {"200"} and set(found["overload"]["statuses"]) <= {
        "200",
        "429",
    }


@pytest.mark.nightly
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_corrections_benchmark_runs(benchmark, linking, tmp_path, monkeypatch):
    script = benchmark("corrections_scale")
    for limit in ("MAX_CHANGE", "MAX_START", "MAX_FIRST"):
        monkeypatch.setattr(script, limit, 600.0)
    monkeypatch.setattr(script, "CHANGES", 2)
    script.main(linking / "linker", sizes=[1_200], workers=1, output=tmp_path / "found.json")
    none, some = json.loads((tmp_path / "found.json").read_text())["rows"]
    assert (none["corrections"], some["corrections"]) == (0, 1_200)
    assert all(
        some[key] > 0 for key in ("first_start", "start", "link", "correct", "undo", "rss", "pss")
    )


@pytest.mark.nightly
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_service_survives_the_attack_benchmark(benchmark, linking, tmp_path, monkeypatch):
    pytest.importorskip("cassis")
    script = benchmark("attack_service")
    monkeypatch.setattr(script, "HELD", 0.5)
    monkeypatch.setattr(script, "MAX_WAIT", 60.0)
    monkeypatch.setattr(script, "MAX_BYTES", 10**11)
    monkeypatch.setattr(script, "MAX_END", 60.0)
    nlp = spacy.load(linking / "linker")
    nlp.add_pipe("entity_ruler", first=True).add_patterns([{"label": "X", "pattern": "MS"}])
    nlp.to_disk(tmp_path / "pipeline")
    script.main(
        tmp_path / "pipeline", workers=1, scale=0.02, clients=1, output=tmp_path / "found.json"
    )
    found = json.loads((tmp_path / "found.json").read_text())
    assert found["statuses"]["brackets"] == {"200": 1} and found["statuses"]["short forms"] == {
        "413": 1
    }
    assert (
        found["left"] == 0
        and found["max_rss"] > found["max_bytes"] > 0
        and set(found["answered"]) == {"200"}
    )


def test_searches_by_names_and_by_contexts_are_compared(benchmark, linking, tmp_path, capsys):
    case = ",".join(str(linking / name) for name in ("linker", "store", "gold.spacy"))
    benchmark("searched_names").main([case], output=tmp_path / "result.json")
    (row,) = json.loads((tmp_path / "result.json").read_text())
    assert (
        row["mentions"] == 6 and row["strict"] == {"contexts": 1, "names": 1} and row["differ"] == 0
    )
    assert "| gold | 6 | 100.0 | 100.0 | 0 |" in capsys.readouterr().out


def test_searches_of_all_names_and_of_similar_ones_are_compared(benchmark, linking, tmp_path):
    case = ",".join(str(linking / name) for name in ("linker", "store", "gold.spacy"))
    script = benchmark("searched_names")
    script.main([case], script.Compare.SIMILAR, tmp_path / "result.json")
    (row,) = json.loads((tmp_path / "result.json").read_text())
    assert row["strict"] == {"all": 1, "similar": 1} and row["differ"] == 0


def test_bfloat16_exact_search_benchmark_runs(benchmark, linking, capsys):
    benchmark("exact_bfloat16").main(linking / "linker", [linking / "gold.spacy"], k=[2], passes=1)
    assert "| 100.00 |" in capsys.readouterr().out


@pytest.mark.nightly
def test_mining_rate_benchmark_runs(benchmark, tmp_path, capsys):
    script = benchmark("mining_rate")
    benchmark("umls_files").write_umls(tmp_path / "META", 300)
    store = build_ontology(tmp_path / "META", tmp_path / "store")
    script.write_texts(store, tmp_path / "texts", 50_000, 0)
    script.mine_once(store.path, tmp_path / "texts", tmp_path / "mined", 1)
    ours = json.loads(capsys.readouterr().out)
    assert ours["matches"] > 100 and ours["mb_per_second"] > 0
    some = list(script.first_entities(store, 100))
    assert 100 <= sum(len(entity.names) for entity in some) < 120
    names = [name for entity in some for name in entity.names]
    (tmp_path / "names.txt").write_text("\n".join(names) + "\n")
    benchmark("matcher_peers").main(
        "phrasematcher", str(tmp_path / "names.txt"), tmp_path / "texts"
    )
    peer = json.loads(capsys.readouterr().out)
    assert peer["names"] == len(names) and peer["matches"] > 30


def test_synthetic_pubmed_and_gold_are_read_completely(benchmark, tmp_path, monkeypatch):
    script = benchmark("pubmed_files")
    monkeypatch.setattr(script, "FILE_ARTICLES", 25)
    benchmark("umls_files").write_umls(tmp_path / "META", 300)
    texts = script.Texts(tmp_path / "META")
    script.write_pubmed(tmp_path / "PUBMED", texts, 40)
    n_mentions = script.write_gold(tmp_path / "gold.txt.gz", tmp_path / "ids.txt", texts, 3)
    store = build_ontology(tmp_path / "META", tmp_path / "store")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mined = mine(store, tmp_path / "PUBMED", tmp_path / "mined").manifest
        docs = convert(
            tmp_path / "gold.txt.gz",
            tmp_path / "gold.spacy",
            ids=tmp_path / "ids.txt",
            ontology=store.path,
        )
    assert len(list((tmp_path / "PUBMED").iterdir())) == 2
    assert mined["counts"]["texts"] == 40 and mined["counts"]["mentions_found"] > 200
    assert docs["mentions"] == n_mentions > 100


@pytest.mark.nightly
def test_memory_and_growth_of_a_command_are_measured(benchmark, tmp_path):
    script = benchmark("umls_workflow")
    hold = "import time; held = b'1' * 300_000_000; time.sleep(2)"
    # The memory is that of a process below the one that is started.
    below = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {hold!r}])"
    write = "open('made', 'wb').write(b'1' * 2**20)"
    row = script.measured("a line", [sys.executable, "-c", f"{below}; {write}"], tmp_path)
    assert 280 < row.anonymous_mib < row.mib < 450 and row.left_mib == 1
    runs = {key: {"lines": [row._asdict()]} for key in ("0.001", "0.01")}
    assert script.table(runs).endswith("| 1 · 1 · **1** |")
    assert script.extrapolated(0.001, 11, 0.01, 20) == "1,010"
    assert script.extrapolated(0.001, 1, 0.01, 100) == "> 10,990"


def test_linking_rate_benchmark_runs(benchmark, tmp_path, capsys):
    script = benchmark("linking_rate")
    script.main(
        size="tiny", entities=300, prototypes=1000, mentions=95, device="cpu", batch_size=4,
        passes=1, peak=1.0, seed=0,
        folder=tmp_path, output=tmp_path / "result.json",
    )  # fmt: skip
    result = json.loads((tmp_path / "result.json").read_text())
    assert result["setup"]["mentions"] == 100 and set(result["share_of_bf16"]) == {
        "linking",
        "encoding",
        "searching",
    }
    assert 0 < result["mentions_per_second"]["linking"] < result["mentions_per_second"]["searching"]
    assert "times the paper's 91" in capsys.readouterr().out
    # A layer of width 1 over one piece: 8 + 4 operations, and 4 of attention.
    assert script.Size(hidden=1, layers=1, heads=1, inner=1).arithmetic(1) == 16


def test_small_encoder_parts_are_timed(benchmark):
    found = benchmark("small_encoder_parts").main(batches=2, size=4, rows=256, width=8)
    assert len(found) == 6 and min(found.values()) >= 0


def test_our_reader_is_measured(benchmark, obo_file):
    row = benchmark("reader_peers").measure("ours", str(obo_file))
    # One term may fit into memory that the process holds already.
    assert row["found"] == "1" and row["mib"] >= 0 and row["seconds"] > 0
    assert (
        benchmark("reader_peers").measure("ours", "nothing.obo")["found"].startswith("KrisselError")
    )


@pytest.fixture
def obo_file(tmp_path):
    path = tmp_path / "one.obo"
    path.write_text("format-version: 1.2\n\n[Term]\nid: X:1\nname: one\n")
    return path


def test_indexes_over_varied_norms_are_measured(benchmark, tmp_path):
    pytest.importorskip("faiss")
    script = benchmark("index_norms")
    output = tmp_path / "norms.json"
    for _ in range(2):
        script.main(3000, 16, ["ivf", "hnsw"], [0.4], 0.9, 50, 0, output)
    (run,) = json.loads(output.read_text())["runs"]
    assert {row["type"] for row in run["rows"]} == {"ivf", "hnsw"}
    assert all(row["lengths_sd"] == pytest.approx(0.4, abs=0.05) for row in run["rows"])
    assert max(row["recall_1"] for row in run["rows"]) >= 0.9


def test_filtered_searches_are_measured(benchmark, tmp_path):
    pytest.importorskip("faiss")
    script = benchmark("index_filters")
    script.main(3000, 16, ["hnsw", "ivf_sq8"], [0.3], 0.9, 50, 0, tmp_path / "filters.json")
    (run,) = json.loads((tmp_path / "filters.json").read_text())["runs"]
    assert [row["filter"] for row in run["rows"]] == 2 * ["none", "drawn", "near"]
    assert min(row["recall_1"] for row in run["rows"]) >= 0.9


def test_indexes_are_compared_at_equal_recall(benchmark, tmp_path, capsys):
    pytest.importorskip("faiss")
    script = benchmark("index_peers")
    script.main(
        3000, 16, ["hnsw", "ivf_pq"], None, None, [0.8, 0.9], 50, 0, tmp_path / "peers.json"
    )
    (run,) = json.loads((tmp_path / "peers.json").read_text())["runs"]
    assert (run["size"], run["width"], run["peers"]) == (3000, 16, {})
    assert min(row["recall_10"] for row in run["rows"]) >= 0.8
    lines = [
        line.split(" | ")
        for line in capsys.readouterr().out.splitlines()
        if line.startswith("| 0.9 ")
    ]
    assert {line[1] for line in lines} == {"hnsw", "ivf_pq"} and max(
        float(line[4]) for line in lines
    ) == 1
    assert all(float(line[2]) >= 0.9 for line in lines)


def test_the_papers_knowledge_base_is_measured(benchmark, tmp_path, monkeypatch):
    pytest.importorskip("faiss")
    script = benchmark("krissbert_kb")
    monkeypatch.setattr(script, "in_process", lambda function, *arguments: function(*arguments))
    script.main(tmp_path / "kb", [500], [500], 16, "ivf_sq8", 0, tmp_path / "kb.json")
    (row,) = json.loads((tmp_path / "kb.json").read_text())["sizes"]
    assert (
        row["entities"] == 100
        and row["files_mib"]["vectors.npy"] > 0
        and row["indexed"]["index_mib"] > 0
    )
    assert not list((tmp_path / "kb").iterdir())


@pytest.mark.nightly
def test_training_benchmark_runs(benchmark, tmp_path):
    script = benchmark("training_at_size")
    benchmark("umls_files").write_umls(tmp_path / "META", 300)
    store = build_ontology(tmp_path / "META", tmp_path / "store")
    benchmark("mined_shards").write_mined(store, tmp_path / "shards", 3000, 200)
    shards = MentionShards(tmp_path / "shards")
    assert len(list(shards)) == 3000 and len(shards.by_entity()) == 200
    assert all(mention.name in store.get(mention.entity).names for mention in shards[::100])
    assert {len(mention.left) // 100 for mention in shards} == {2}
    here, ahead = (script.read_alone(store.path, shards.path, 1000, size) for size in (0, 2048))
    assert here["per_second"] > 0 and ahead["per_second"] > 0 and ahead["reader_per_second"] > 0
    assert ahead["reader_peak_mib"] > 0 and not any(key.startswith("reader_") for key in here)
    encoder = script.make_encoder(tmp_path / "encoder")
    (report,) = script.train(store.path, shards.path, encoder, 2, 1)
    assert report["steps"] == 2 and 0 < report["first_batch"][0] <= report["first_step"][0]
    assert 0 < report["not_mapped_mib"] <= report["peak_mib"]


MED = """1
Of ataxia.
He had ataxia telangiectasia (AT) and Escherichia coli; E. coli (fever).
//no abbreviation
  AT|ataxia  Telangiectasia

2
Of two.
Systemic sclerosis (SSc) and unknown things (XYZ).
//*  SSc|sclerosis
  SSc|systemic sclerosis
  XYZ|unknown|0.5

3
Of none.
"""


def test_abbreviation_definitions_are_scored(benchmark, tmp_path, capsys):
    script = benchmark("abbreviations")
    (tmp_path / "med").write_text(MED)
    documents = script.read_corpus(tmp_path / "med")
    assert [len(document.gold) for document in documents] == [1, 2, 0]
    assert script.score(script.own_pairs, documents) == (2, 2, 3)
    script.main(tmp_path / "med")
    rows = capsys.readouterr().out.splitlines()
    assert "| this package | both | 3 | 3 | 1.000 | 0.667 | 0.800 |" in rows
    parts = [document for document in documents if script.quarter(document.pmid)]
    assert f"| this package | second quarter | {len(parts)} |" in "\n".join(rows)


@pytest.mark.nightly
def test_learned_finder_benchmark_runs(benchmark, linking, tmp_path, capsys):
    gold = linking / "gold.spacy"
    benchmark("learned_finder").main(
        str(linking / "store"), linking / "linker", gold, gold, docs=2, draws=1, minutes=1
    )
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("|")[1].strip() for line in lines[2:]] == [
        "without labels",
        "1 minutes of review",
        "2 documents, names, draw 0",
        "2 documents, names and prototypes, draw 0",
    ]
    assert "| without labels | 1.000 | +0.0 (+0.0 to +0.0) |" in lines[2]


def test_abbreviation_strategies_are_learned(benchmark, tmp_path, capsys):
    script = benchmark("abbreviations")
    words = [f"{a}{b}no {c}{d}ti" for a in "abcd" for b in "ou" for c in "efgh" for d in "ai"]
    texts = [
        f"We saw {pair} ({pair[0]}{pair.split()[1][0]}) here.".replace("(", "( ") for pair in words
    ]
    texts = [text[: text.index("(")] + text[text.index("(") :].upper() for text in texts]
    texts += [f"We saw small mice (Z{a}{b})." for a in "QXW" for b in "QXW"]
    lines = (json.dumps({"title": "Of pairs.", "text": text}) for text in texts)
    (tmp_path / "texts.jsonl").write_text("\n".join(lines))
    script.main(tmp_path / "none", learn=tmp_path / "texts.jsonl")
    table = ast.literal_eval(capsys.readouterr().out.partition(" = ")[2])
    assert table["initials"][0] > 0.5
    assert table["scattered"] == (0, 0, 0, 0)


def test_names_equal_only_in_canonical_form_are_found_by_spelling(benchmark, tmp_path, capsys):
    names = (
        "Löfgren syndrome",
        "Lofgren syndrome",
        "Quincke's edema",
        "Quincke edema",
        "asthma",
        "Asthma",
    )
    store = write_store(
        (Entity(f"X:{i}", name) for i, name in enumerate(names)), tmp_path / "store"
    )
    benchmark("canonical_names").main([store.path], tmp_path / "collisions.tsv")
    assert re.search(r"store +6 +2 +2 +4 of 4", capsys.readouterr().out)
    lines = (tmp_path / "collisions.tsv").read_text(encoding="utf8").splitlines()
    assert lines[1:3] == [
        "store\tlofgren syndrome\tlofgren syndrome\tX:1",
        "store\tlofgren syndrome\tlöfgren syndrome\tX:0",
    ]


@pytest.mark.nightly
def test_only_words_that_are_names_are_linked_confidently(benchmark, tmp_path, capsys):
    script = benchmark("english_words")
    # "heart" is an induced name of the first entity.
    entities = [Entity("H", "Heart Diseases", tree_numbers=("C1",))]
    entities += [Entity(f"H{i}", f"Heart {i}th", tree_numbers=(f"C1.{i}",)) for i in range(3)]
    names = ["stroke", "lung", *(f"Other {i}" for i in range(95))]
    entities += [Entity(f"O{i}", name, tree_numbers=(f"C2.{i}",)) for i, name in enumerate(names)]
    write_store(entities, tmp_path / "store")
    build(tmp_path / "store", tmp_path / "linker")
    (tmp_path / "text.txt").write_text(
        "The heart and the heart stroke, not Heart-lung or isn't. A lung, il and beta-x.\n"
    )
    script.main([tmp_path / "linker"], tmp_path / "text.txt", words=400)
    row = next(line for line in capsys.readouterr().out.splitlines() if "common" in line)
    pipeline, _, n, confident, name, spelling, neither, _, no_name = row.split()
    # "heart" is linked to an entity that has it as an induced name only.
    assert no_name in ("0", "1")
    assert (pipeline, confident, name, spelling, neither) == ("linker", "2", "2", "0", "0") and int(
        n
    ) > 300


def test_confident_word_that_is_no_name_fails(benchmark, linking, tmp_path, monkeypatch, capsys):
    script = benchmark("english_words")
    (tmp_path / "text.txt").write_text("Of stroke.\n")
    monkeypatch.setattr(script, "CONFIDENT", 0.0)
    with pytest.raises(SystemExit):
        script.main([linking / "linker"], tmp_path / "text.txt", words=1)
    assert "words that are no name" in capsys.readouterr().out


def test_word_sets_are_limited_and_reproducible(benchmark):
    script = benchmark("english_words")
    texts = ["zebra Zoo zebra quagga's okapi-like ibex"]
    sets = script.word_sets(texts, 400, seed=1)
    assert (
        sets["common"][-2:] == ["zebra", "ibex"]
        and "about" in sets["common"]
        and sets["random"] == []
    )
    few = script.word_sets(texts, 1, seed=1)
    assert set(few["random"]) <= {"zebra", "ibex"} and [*map(len, few.values())] == [1, 1, 1]
    assert few == script.word_sets(texts, 1, seed=1)


def test_confidence_benchmark_counts_other_labels_as_unknown(benchmark, linking, capsys):
    script = benchmark("confidence")
    script.main(linking / "linker", linking / "gold.spacy", seeds=1)
    script.main(linking / "linker", linking / "gold.spacy", label=["Other"], as_built=True)
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    first, second = (row for row in rows if row and row[0] == "0")
    assert first[1:3] == ["6", "6"] and second[1:3] == ["6", "0"]
    # The same entities by their names, in another ontology.
    store = linking / "store"
    for alike in (False, True):
        script.main(
            linking / "linker", linking / "gold.spacy", ["Other"], store, alike, as_built=True
        )
        rows = [line.split() for line in capsys.readouterr().out.splitlines()]
        (third,) = (row for row in rows if row and row[0] == "0")
        assert third[1:3] == first[1:3] and float(third[5]) > 0
    confidence, right = np.array([0.95, 0.85, 0.15]), np.array([True, False, False])
    assert script.calibration_error(confidence, right) == pytest.approx((0.05 + 0.85 + 0.15) / 3)
    assert script.area(confidence, right) == pytest.approx((1 + 1 / 2 + 1 / 3) / 3)


@pytest.mark.nightly
def test_gold_settings_benchmark_pairs_the_links_of_each_setting(benchmark, linking, capsys):
    script = benchmark("gold_settings")
    script.main(linking / "linker", linking / "store", [linking / "gold.spacy"], seeds=2)
    *_, row = capsys.readouterr().out.splitlines()
    assert row == f"| gold | 4 | 100.0 |{' +0.00 (+0.00 to +0.00) |' * 4}"
    right, wrong = (
        script.LinkRecord("a", 0, 1, "x", "", ("D1",), prediction=id_) for id_ in ("D1", "D2")
    )
    assert script.gain([right, right], [right, wrong]) == "+50.00 (+50.00 to +50.00)"


@pytest.mark.nightly
def test_counts_of_an_update_equal_those_of_the_files(benchmark, tmp_path, capsys):
    script = benchmark("updated_release")
    lines = [f"D{i:06}|{i}||disease number {i}|illness {i}\n" for i in range(150)]
    (tmp_path / "medic.txt").write_text("".join(lines))
    blocks = []
    for i in range(150):
        title, text = f"{i}|t|A case {i} of it.", f"{i}|a|None."
        blocks.append(f"{title}\n{text}\n{i}\t2\t8\tcase {i}\tDiseaseClass\tD{i:06}\n")
    (tmp_path / "gold.txt").write_text("\n".join(blocks))
    result = tmp_path / "result.json"
    with pytest.raises(SystemExit, match="False"):
        script.medic(tmp_path / "medic.txt", tmp_path / "gold.txt", result)
    there, back = json.loads(result.read_text())["medic"]
    assert all(there["counts"][f"entity {kind}"] > 1 for kind in script.PARTS)
    assert there["counts"]["correction inactive"] == back["counts"]["correction active again"]
    assert there["counts"]["correction followed"] == there["counts"]["entity merged"]
    assert "different: none; lost: 0" in capsys.readouterr().out


@pytest.mark.nightly
def test_counts_of_an_update_of_hpo_equal_those_of_the_files(benchmark, tmp_path):
    script = benchmark("updated_release")
    obo = [
        "format-version: 1.2\nontology: hp",
        '[Term]\nid: HP:0000001\nname: First {xref="X:1"}\nalt_id: HP:0000010\n'
        'synonym: "One \\"1\\"" EXACT []\nsynonym: "Narrow" NARROW []',
        "[Term]\nid: HP:0000002\nname: Second",
        "[Term]\nid: HP:0000003\nname: Third",
        "[Term]\nid: HP:0000004\nname: Fourth",
        "[Term]\nid: HP:0000009\nname: Gone\nis_obsolete: true\nreplaced_by: HP:0000002",
        *(f"[Term]\nid: HP:00000{number}\nname: Same {number}" for number in (11, 12)),
    ]
    (tmp_path / "old.obo.gz").write_bytes(gzip.compress("\n\n".join([*obo, ""]).encode()))

    def node(number, name, **properties):
        values = [{"pred": pred, "val": val} for pred, val in properties.items() if val]
        replaced = name.startswith("obsolete")
        return {
            "id": f"http://purl.obolibrary.org/obo/HP_{number:07}",
            "lbl": name,
            "type": "CLASS",
            "meta": {"basicPropertyValues": values, "deprecated": replaced},
        }

    nodes = [
        node(1, "First of all"),
        node(2, "obsolete Second", IAO_0100001="HP:0000001"),
        node(3, "obsolete Third", consider="HP:0000005"),
        node(4, "obsolete Fourth"),
        node(5, "Fifth", hasAlternativeId="HP:0000008"),
        node(6, "First"),
        *(node(number, f"Same {number}") for number in (11, 12)),
    ]
    data = json.dumps({"graphs": [{"nodes": nodes}]})
    (tmp_path / "new.json.gz").write_bytes(gzip.compress(data.encode()))
    for name in ("ann", "texts"):
        (tmp_path / name).mkdir()
    ids = ["0000001", "0000010", "0000002", "0000009", "0000003", "0000004"]
    text = " ".join(f"word{i}" for i in range(len(ids)))
    rows = [f"[{6 * i}::{6 * i + 5}]\tHP_{id_} | word{i}" for i, id_ in enumerate(ids)]
    (tmp_path / "ann" / "1").write_text("\n".join(rows))
    (tmp_path / "texts" / "1").write_text(text)
    result = tmp_path / "result.json"
    files = (tmp_path / name for name in ("old.obo.gz", "new.json.gz", "ann", "texts"))
    with pytest.raises(SystemExit, match="False"):
        script.hpo(*files, result)
    (found,) = json.loads(result.read_text())["hpo"]
    assert found["counts"] == {
        "correction followed": 3,
        "correction inactive": 1,
        "correction kept": 2,
        "entity merged": 1,
        "entity new": 1,
        "entity renamed": 1,
        "entity replaced": 1,
        "entity retired": 1,
        "name added": 2,
        "name removed": 4,
    }

import gzip
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import spacy
from spacy.tokens import DocBin

from spacy_krissel.errors import KrisselWarning
from spacy_krissel.mining.shards import MentionShards
from spacy_krissel.ontology.store import OntologyStore


def test_ontology_reports_homonyms(made):
    said = made.printed["ontology"]
    assert "12 entities" in said and "(2 shared)" in said
    assert "| names that are homonyms | 4 of 52 (7.69%) |" in said and "disambiguated" not in said
    report = json.loads((made.path / "homonyms.json").read_text())
    assert list(report) == ["read"] and report["read"]["homonyms"] == 2
    assert [(item["name"], item["ids"]) for item in report["read"]["listed"]] == [
        ("cold", ["T04", "T05"]),
        ("ms", ["T01", "T02"]),
    ]
    assert OntologyStore(made.path / "store").find("MS") == ["T01", "T02"]


def test_ontology_disambiguates_homonyms(made, run, tmp_path):
    gold, report = made.path / "gold.spacy", tmp_path / "reports" / "homonyms.json"
    said = run(
        "ontology", made.path / "store", "-o", tmp_path / "apart", "--disambiguate", "shortest",
        "--homonyms", report,
    )  # fmt: skip
    assert (
        "100.00% of 2 homonyms disambiguated, 0 names still shared; 0 second choices, 0 names "
        "unchanged"
    ) in said
    assert "| names that are homonyms | 4 of 52 (7.69%) | 0 of 52 (0.00%) |" in said
    found = json.loads(report.read_text())
    assert list(found) == ["read", "result", "disambiguated"]
    assert found["disambiguated"]["success_rate"] == 1.0 and found["result"]["listed"] == []
    store = OntologyStore(tmp_path / "apart")
    assert store.find("MS") == [] and store.find("MS (mitral stenosis)") == ["T02"]
    assert store.manifest["info"]["disambiguated"] == found["disambiguated"]
    # "MS" twice and "cold", both of them second names.
    assert f"| {gold} | 11 | 11 | 4 | 36.4 | 4 | 36.4 |" in run(
        "affected-mentions", made.path / "store", gold
    )
    assert f"| {gold} | 11 | 11 | 0 | 0.0 | 0 | 0.0 |" in run(
        "affected-mentions", tmp_path / "apart", gold
    )
    said = run(
        "ontology", tmp_path / "apart", "-o", tmp_path / "again", "--disambiguate", "longest"
    )
    assert "No homonyms to disambiguate" in said and "Report" not in said


def test_genes_are_disambiguated_by_species(run, tmp_path):
    genes = [
        {"concept_id": id_, "canonical_name": "A2M", "species": taxon}
        for id_, taxon in (("2", "9606"), ("3", "9913"))
    ]
    taxa = [
        {"concept_id": "9606", "canonical_name": "human"},
        {"concept_id": "9913", "canonical_name": "cattle"},
    ]
    for name, records in (("genes", genes), ("taxa", taxa)):
        (tmp_path / f"{name}.jsonl").write_text(
            "".join(json.dumps(record) + "\n" for record in records)
        )
    run("ontology", tmp_path / "taxa.jsonl", "-o", tmp_path / "taxa")
    said = run(
        "ontology", tmp_path / "genes.jsonl", "-o", tmp_path / "genes", "--disambiguate", "longest",
        "--taxonomy", tmp_path / "taxa", "--homonyms", tmp_path / "homonyms.json",
    )  # fmt: skip
    assert "| – cross-species | 2 | 0 |" in said
    assert [entity.name for entity in OntologyStore(tmp_path / "genes")] == [
        "A2M (human)",
        "A2M (cattle)",
    ]


def test_convert_writes_linked_mentions(made):
    assert "11" in made.printed["convert"]
    docs = list(DocBin().from_disk(made.path / "gold.spacy").get_docs(spacy.blank("en").vocab))
    assert [ent.kb_id_ for doc in docs for ent in doc.ents] == [f"T{i:02}" for i in range(1, 12)]


def test_convert_keeps_mentions_of_the_given_types(run, refuse, toy_files, made, tmp_path):
    output = ("-o", tmp_path / "gold.spacy", "--ontology", made.path / "store", "--force")
    arguments = ("convert", toy_files / "gold.pubtator", *output)
    said = run(*arguments, "--type", "T184")
    assert "mentions: 5" in said and "other_types: 6" in said
    with pytest.warns(KrisselWarning, match="KW223"):
        assert "other_types: 11" in run(*arguments, "--type", "T017")


def test_convert_splits_sentences_and_adds_text_labels(run, tmp_path):
    (tmp_path / "brat").mkdir()
    (tmp_path / "brat" / "1.txt").write_text("Gout. Pain and swelling in knee")
    (tmp_path / "brat" / "1.ann").write_text("T1\tX:1 6 10;27 31\tPain knee\n")
    said = run(
        "convert", tmp_path / "brat", "-o", tmp_path / "gold.spacy", "--sentences", "--text-labels"
    )
    assert "disjoint: 1" in said and "sentences: 2" in said
    docs = DocBin().from_disk(tmp_path / "gold.spacy").get_docs(spacy.blank("en").vocab)
    assert [doc.cats for doc in docs] == [{}, {"X:1": 1.0}]


def test_zeshel_documents_become_ontology_and_texts(run, refuse, tmp_path):
    """Documents are the ontology and the texts; mentions point into them."""
    (tmp_path / "worlds").mkdir()
    document = {"document_id": "0A", "title": "Kermit", "text": "Kermit the Frog ."}
    (tmp_path / "worlds" / "muppets.json").write_text(json.dumps(document) + "\n")
    mention = {
        "context_document_id": "0A",
        "start_index": 0,
        "end_index": 2,
        "text": "Kermit the Frog",
    }
    mention.update(
        label_document_id="0A", corpus="muppets", mention_id="1", category="HIGH_OVERLAP"
    )
    (tmp_path / "train.json").write_text(json.dumps(mention) + "\n")
    assert "1 entities" in run(
        "ontology", tmp_path / "worlds" / "muppets.json", "-o", tmp_path / "store"
    )
    arguments = (
        "convert",
        tmp_path / "train.json",
        "-o",
        tmp_path / "train.spacy",
        "--format",
        "zeshel",
    )
    assert "[K006]" in refuse(*arguments)
    said = run(*arguments, "--documents", tmp_path / "worlds", "--ontology", tmp_path / "store")
    assert "mentions: 1" in said and "unknown" not in said


def test_umls_options_select_concepts_and_names(run, refuse, tmp_path):
    rows = [
        ("C0000001", "ENG", "MSH", "MH", "Knee pain", "N"),
        ("C0000001", "ENG", "SNOMEDCT_US", "PT", "Gonalgia", "O"),
        ("C0000001", "SPA", "MSHSPA", "MH", "Dolor de rodilla", "N"),
        ("C0000002", "ENG", "NCI", "PT", "Gout", "N"),
    ]
    atoms = [
        f"{cui}|{lat}|P|L|PF|S|Y|A||||{sab}|{tty}|1|{text}|0|{out}||"
        for cui, lat, sab, tty, text, out in rows
    ]
    (tmp_path / "MRCONSO.RRF").write_text("\n".join(atoms) + "\n")
    (tmp_path / "MRSTY.RRF").write_text("C0000002|T047|B2.2.1.2.1|Disease or Syndrome|AT1||\n")
    arguments = ("ontology", tmp_path, "--output", tmp_path / "store")
    for options, said in (
        ((), "2 entities, 2 names"),
        (("--umls-source", "MSH"), "1 entities, 1 names"),
        (("--umls-term-type", "PT"), "1 entities, 1 names"),
        (("--umls-suppressed",), "2 entities, 3 names"),
        (("--umls-language", "ENG", "--umls-language", "SPA"), "2 entities, 3 names"),
        (("--umls-type", "T047", "--umls-type-ids"), "1 entities, 1 names"),
    ):
        assert said in run(*arguments, *options)
    assert OntologyStore(tmp_path / "store").entity_at(0).types == ("T047",)
    assert "[K006]" in refuse(*arguments, "--umls-type", "Illness")


def test_omop_options_select_concepts(run, refuse, tmp_path):
    columns = (
        "concept_id concept_name domain_id vocabulary_id standard_concept concept_code "
        "invalid_reason"
    ).split()
    rows = [
        columns,
        ["1", "Gout", "Condition", "SNOMED", "S", "11", ""],
        ["2", "Gout", "Condition", "MeSH", "", "12", ""],
        ["3", "colchicine", "Drug", "RxNorm", "S", "13", ""],
    ]
    (tmp_path / "CONCEPT.csv").write_text("".join("\t".join(row) + "\n" for row in rows))
    (tmp_path / "CONCEPT_SYNONYM.csv").write_text(
        "concept_id\tconcept_synonym_name\tlanguage_concept_id\n"
    )
    arguments = ("ontology", tmp_path, "--output", tmp_path / "store")
    for options, said in (
        ((), "3 entities"),
        (("--omop-vocabulary", "SNOMED", "--omop-vocabulary", "MeSH"), "2 entities"),
        (("--omop-domain", "Drug"), "1 entities"),
        (("--omop-standard",), "2 entities"),
    ):
        assert said in run(*arguments, *options)
    assert "CONCEPT_RELATIONSHIP.csv" in refuse(*arguments, "--omop-parents")


def test_genes_are_selected_by_species(run, refuse, tmp_path):
    """The store's ids are those of a corpus of genes."""
    columns = (
        "#tax_id",
        "GeneID",
        "Symbol",
        "Synonyms",
        "dbXrefs",
        "description",
        "Other_designations",
    )
    authority = ("Symbol_from_nomenclature_authority", "Full_name_from_nomenclature_authority")
    genes = (("9606", "2", "A2M"), ("9913", "513856", "A2M"))
    rows = [(*columns, *authority), *((*gene, *"------") for gene in genes)]
    (tmp_path / "gene_info").write_text("".join("\t".join(row) + "\n" for row in rows))
    (tmp_path / "gold.txt").write_text("1|t|A2M\n1|a|\n1\t0\t3\tA2M\tGene\t2(Tax:9606),513856\n")
    arguments = ("ontology", tmp_path / "gene_info", "-o", tmp_path / "store")
    assert "[K006]" in refuse(*arguments, "--species", "human")
    assert "1 entities" in run(*arguments, "--species", "9913")
    assert "2 entities, 2 names (1 shared)" in run(
        *arguments, "--species", "9913", "--species", "9606"
    )
    said = run(
        "convert",
        tmp_path / "gold.txt",
        "-o",
        tmp_path / "gold.spacy",
        "--ontology",
        tmp_path / "store",
    )
    assert "composite: 1" in said and "unknown" not in said
    said = run(
        "convert",
        tmp_path / "gold.txt",
        "-o",
        tmp_path / "gold.spacy",
        "--prefix",
        "NCBIGene",
        "--force",
    )
    assert "rewritten_ids: 1" in said


def test_mine_finds_every_unambiguous_name(made):
    shards = MentionShards(made.path / "shards")
    assert (
        f"{len(shards)} mentions of 11 entities" in made.printed["mine"]
        and "MB/s" in made.printed["mine"]
    )
    # Without a cap, every unambiguous name of every text.
    assert len(shards) == shards.manifest["counts"]["mentions_found"] > 100


def test_sample_is_reproducible_by_seed(made, run):
    said = made.printed["sample"]
    assert said.count("⟦") == 5 and "T0" in said
    assert (
        run("sample", made.path / "shards", "--number", 5, "--ontology", made.path / "store")
        == said
    )
    assert run("sample", made.path / "shards", "--number", 5, "--seed", 1) != said
    assert run("sample", made.path / "shards", "--number", 2, "--format", "markdown").startswith(
        "|"
    )


def test_prototypes_builds_a_linker_with_a_knowledge_base(made):
    said = made.printed["prototypes"]
    assert "entities: 12" in said and "'mention'" in said and "index: {'kind': 'exact'" in said
    linker = spacy.load(made.path / "linker").get_pipe("krissel_linker")
    assert linker.kb.n_entities == 12
    assert linker.cfg["n_candidates"] == 3


def test_encoder_exports_a_transformer_and_refuses_others(made, run, refuse, tiny_bert, tmp_path):
    nlp = spacy.blank("en")
    settings = {
        "@architectures": "spacy-krissel.TransformerEncoder.v1",
        "name": str(tiny_bert),
        "window": 16,
    }
    nlp.add_pipe("krissel_linker", config={"model": settings})
    nlp.initialize()
    nlp.to_disk(tmp_path / "pipeline")
    assert str(tmp_path / "encoder") in run(
        "encoder", tmp_path / "pipeline", "-o", tmp_path / "encoder"
    )
    assert (tmp_path / "encoder" / "model.safetensors").exists()
    said = refuse("encoder", made.path / "training" / "model-last", "-o", tmp_path / "small")
    assert "[K632]" in said and not (tmp_path / "small").exists()


def test_the_knowledge_base_can_be_saved_outside_the_pipeline(made, run, tmp_path):
    run(
        "prototypes", made.path / "training" / "model-last", "-o", tmp_path / "out",
        "--ontology", made.path / "store",
        "--kb-path", tmp_path / "kb", "--index", "exact", "--max-entities", 3,
    )  # fmt: skip
    assert (tmp_path / "kb" / "manifest.json").exists()
    assert spacy.load(tmp_path / "out").get_pipe("krissel_linker").kb.n_entities == 3


def test_no_aliases_uses_preferred_names_only(made, run, toy_files, tmp_path):
    said = run(
        "mine", made.path / "store", toy_files / "texts.jsonl", "-o", tmp_path / "shards",
        "--cap", "0", "--no-aliases",
    )  # fmt: skip
    mentions = list(MentionShards(tmp_path / "shards"))
    preferred = {entity.name for entity in OntologyStore(made.path / "store")}
    assert {mention.name for mention in mentions} <= preferred and "of 11 entities" in said
    said = run(
        "prototypes", made.path / "training" / "model-last", "-o", tmp_path / "out",
        "--ontology", made.path / "store",
        "--no-aliases", "--no-references",
    )  # fmt: skip
    assert "prototype_kinds: {'name': 12}" in said and "references: None" in said


def test_evaluate_leaves_out_gold_prototypes_of_the_same_documents(made, run, tmp_path):
    """Added to the pipeline's knowledge base; the report then does without those of the same
    documents."""
    gold = made.path / "gold.spacy"
    said = run("prototypes", made.path / "linker", "-o", tmp_path / "lazy", "--gold", gold)
    # Eleven mentions and their bare texts, but for four: names with other bearers, in one document
    # each.
    assert "'gold': 18" in said and "prototype_sources: {'gold': 18}" in said
    arguments = ("--ontology", made.path / "store", "-o", tmp_path, "--no-baselines")
    with pytest.warns(KrisselWarning, match="KW703"):
        run("evaluate", tmp_path / "lazy", gold, *arguments)
    found, plain = (
        [json.loads(line) for line in (path / name).read_text().splitlines()]
        for path, name in (
            (tmp_path, "evaluation.links.jsonl"),
            (made.path / "metrics", "toy.links.jsonl"),
        )
    )
    assert [record["prediction"] for record in found] == [record["prediction"] for record in plain]


def test_few_shot_reports_one_row_per_number_of_shots(made, run, refuse, tmp_path):
    gold = made.path / "gold.spacy"
    arguments = (
        "few-shot",
        made.path / "linker",
        gold,
        "--examples",
        gold,
        "--ontology",
        made.path / "store",
    )
    with pytest.warns(KrisselWarning, match="KW703"):
        said = run(
            *arguments,
            "--shot",
            0,
            "--shot",
            1,
            "--shot",
            "all",
            "--seed",
            3,
            "--seed",
            4,
            "-o",
            tmp_path,
            "--name",
            "toy",
        )
    assert "| all |" in said
    rows = json.loads((tmp_path / "toy.json").read_text())["few_shot"]
    assert [(row["shots"], len(row["strict"])) for row in rows] == [(0, 1), (1, 2), ("all", 1)]
    assert "[K006]" in refuse(*arguments, "--shot", "none", "-o", tmp_path)


@pytest.fixture(scope="module")
def nil_corpus(tmp_path_factory):
    """A PubTator file: two mentions with an entity and one without."""
    mentions = [("lung cancer", "T03"), ("bronchial asthma", "T07"), ("zyxt", "-1")]
    lines = []
    for number, (text, id_) in enumerate(mentions):
        lines += [
            f"{number}|t|Saw {text}.",
            f"{number}|a|None.",
            f"{number}\t4\t{4 + len(text)}\t{text}\tDisease\t{id_}",
            "",
        ]
    path = tmp_path_factory.mktemp("nil") / "dev.pubtator"
    path.write_text("\n".join(lines) + "\n", encoding="utf8")
    return path


def test_calibrate_sets_the_threshold_and_draws_the_curve(made, run, nil_corpus, tmp_path):
    pytest.importorskip("matplotlib")
    out, metrics, plot = (
        tmp_path / "new" / "out",
        tmp_path / "figures" / "nil.json",
        tmp_path / "plots" / "nil.svg",
    )
    said = run("calibrate", made.path / "linker", nil_corpus, "-o", out, "--metrics", metrics)
    run("nil-curve", metrics, "-o", plot)
    data = json.loads(metrics.read_text())
    cfg = spacy.load(out).get_pipe("krissel_linker").cfg
    assert (
        cfg["threshold"] == pytest.approx(data["threshold"], abs=1e-9) and cfg["n_candidates"] == 3
    )
    assert f"Threshold: {data['threshold']:.6g} on the scores of krissel_linker\n" in said
    assert "3 mentions, 1 of them NIL" in said and "auPR 100.0" in said
    assert (
        "before (no threshold)" in said
        and "66.7 over all classes, 100.0 on mentions with an entity" in said
    )
    assert (
        "precision 100.0, recall 100.0, F1 100.0" in said
        and "100.0 over all classes, 100.0 on mentions" in said
    )
    assert (data["gold"], data["before"]["recall"], data["after"]["recall"]) == (
        "dev.pubtator",
        0.0,
        1.0,
    )
    assert data["curve"]["precision"][0] == 1.0 and len(data["curve"]["thresholds"]) == 3
    assert "<svg" in plot.read_text() and "zyxt" not in plot.read_text()
    # Over the folder that it came from, a second time, to another aim.
    again = run("calibrate", out, nil_corpus, "-o", out, "--nil-precision", "0.5")
    assert (
        f"before ({data['threshold']:.6g})" in again
        and spacy.load(out).meta["krissel"]["calibration"]
    )
    said = run(
        "evaluate", out, nil_corpus, "--ontology", made.path / "store", "-o", tmp_path, "--gold-nil"
    )
    assert "recall 100.0, F1 100.0, auPR 100.0 where 33.3 % are NIL; 1 predicted, 1 gold" in said


def test_invalid_calibrate_arguments_are_refused(run, refuse, made, missing, nil_corpus, tmp_path):
    linker, gold, output = made.path / "linker", made.path / "gold.spacy", ("-o", tmp_path / "out")
    assert "[K611]" in refuse("calibrate", missing, nil_corpus, *output)
    assert "[K001]" in refuse("calibrate", linker, missing, *output)
    assert "[K711]" in refuse("calibrate", linker, gold, *output)
    assert "[K610]" in refuse("calibrate", linker, nil_corpus, *output, "--linker", "cake")
    assert "Invalid value for '--nil-precision'" in run(
        "calibrate", linker, nil_corpus, *output, "--nil-precision", "90", code=2
    )
    assert "[K006]" in refuse("nil-curve", missing, "-o", tmp_path / "nil.txt")
    assert "[K906]" in refuse("nil-curve", missing, "-o", tmp_path / "nil.svg")
    assert "[K701]" in refuse("calibrate", linker, nil_corpus, *output, "--label", "Cake")
    assert "[K603]" in refuse(
        "calibrate", made.path / "training" / "model-last", nil_corpus, *output
    )
    assert list(tmp_path.iterdir()) == []


def test_projection_draws_the_entities_of_each_linker(made, run, refuse, tmp_path):
    pytest.importorskip("matplotlib")
    linker, store = made.path / "linker", made.path / "store"
    said = run(
        "projection",
        linker,
        linker,
        "--ontology",
        store,
        "-o",
        tmp_path / "a.svg",
        "--entities",
        2,
        "--names",
        2,
    )
    assert said.count(f"| {linker} |") == 1 and (tmp_path / "a.svg").exists()
    assert "[K905]" in refuse(
        "projection", linker, "--ontology", store, "-o", tmp_path / "b.svg", "--names", 99
    )


@pytest.fixture
def ablation(made, configs, toy_overrides, tmp_path):
    """An ablation file of one row over the names alone, and its path."""
    knowledge = {"ontology": str(made.path / "store"), "mentions": str(made.path / "shards")}
    few_steps = {
        key: value for key, value in toy_overrides["small"].items() if not key.startswith("paths.")
    }
    content = {
        "train": {"config": str(configs / "small.cfg"), **knowledge, "overrides": few_steps},
        "sets": {"toy": {"gold": str(made.path / "missing.spacy"), **knowledge}},
        "rows": {
            "full": {"title": "full"},
            "names": {
                "title": "names alone",
                "of": "full",
                "prototypes": {"mentions_per_entity": 0},
            },
        },
    }
    path = tmp_path / "ablation.json"
    path.write_text(json.dumps(content))
    return path


def test_ablation_runs_and_reuses_its_rows(made, run, ablation, tmp_path):
    arguments = (
        "ablation",
        ablation,
        "-o",
        tmp_path / "out",
        "--sets.toy.gold",
        made.path / "gold.spacy",
    )
    said = run(*arguments, "--row", "full")
    assert "| full |" in said and "names alone" not in said and "training the linker" in said
    said = run(*arguments)
    assert "| full |" in said and "| names alone |" in said and "training the linker" not in said
    rows = json.loads((tmp_path / "out" / "ablation.json").read_text())["rows"]
    assert [row["sets"]["toy"]["n"] for row in rows] == [11, 11]


def test_invalid_ablation_arguments_are_refused(refuse, missing, ablation, tmp_path):
    output = ("-o", tmp_path / "out")
    assert "[K001]" in refuse("ablation", missing, *output)
    assert "[K902]" in refuse("ablation", ablation, *output, "--row", "cake")
    assert "rows.full.cake" in refuse("ablation", ablation, *output, "--rows.full.cake", "1")
    assert not (tmp_path / "out").exists()


def test_evaluate_writes_metrics_with_baselines(made):
    said = made.printed["evaluate"]
    metrics = json.loads((made.path / "metrics" / "toy.json").read_text())
    assert metrics["n"] == 11
    assert 0 <= metrics["strict"] <= 1
    assert set(metrics["baselines"]) and all(
        "strict" in baseline for baseline in metrics["baselines"].values()
    )
    assert str(made.path / "metrics" / "toy") in said.replace("\n", "")
    assert {".md", ".html"} <= {path.suffix for path in (made.path / "metrics").iterdir()}


def test_evaluate_compares_and_leaves_out_baselines(made, run, tmp_path):
    (links,) = (made.path / "metrics").glob("*.links.jsonl")
    said = run(
        "evaluate", made.path / "linker", made.path / "gold.spacy",
        "--ontology", made.path / "store", "-o", tmp_path,
        "--no-baselines", "--compare", f"earlier={links}", "--label", "Disease",
    )  # fmt: skip
    assert "earlier" in said
    assert set(json.loads((tmp_path / "evaluation.json").read_text())["baselines"]) == {"earlier"}


def test_evaluate_applies_overrides_and_refuses_unknown_ones(made, run, refuse, tmp_path):
    arguments = (
        "evaluate",
        made.path / "linker",
        made.path / "gold.spacy",
        "--ontology",
        made.path / "store",
    )
    run(*arguments, "-o", tmp_path, "--no-baselines", "--components.krissel_linker.threshold", "99")
    assert json.loads((tmp_path / "evaluation.json").read_text())["strict"] == 0
    assert "treshold" in refuse(
        *arguments, "-o", tmp_path, "--components.krissel_linker.treshold", "99"
    )


def test_evaluate_counts_seen_and_unseen_entities(made, run, refuse, toy_files, tmp_path):
    arguments = (
        "evaluate",
        made.path / "linker",
        made.path / "gold.spacy",
        "--ontology",
        made.path / "store",
    )
    train = ("--train", made.path / "gold.spacy", "--train", toy_files / "gold.pubtator")
    said = run(*arguments, "-o", tmp_path, "--no-baselines", *train)
    metrics = json.loads((tmp_path / "evaluation.json").read_text())
    assert (
        metrics["slices"]["seen"]["n"] == metrics["n_seen"] == 11
        and "unseen" not in metrics["slices"]
    )
    assert "11 seen in training" in said and "R@64" in said
    assert "[K001]" in refuse(*arguments, "-o", tmp_path, "--train", tmp_path / "missing.spacy")


def test_link_writes_candidates_of_every_mention(made):
    assert "11 mentions of 11 docs" in made.printed["link"]
    records = [json.loads(line) for line in (made.path / "links.jsonl").read_text().splitlines()]
    assert len(records) == 11
    assert all(
        len(mention["candidates"]) == 3 for record in records for mention in record["mentions"]
    )


def test_every_command_has_help(run):
    said = run("--help")
    commands = "ontology convert mine prototypes evaluate calibrate link"
    for command in commands.split():
        assert command in said
        assert "Usage" in run(command, "--help")


@pytest.mark.slow
def test_commands_run_in_a_separate_process(made):
    """Run as typed: the entry point adds the commands to spaCy's."""
    command = [sys.executable, "-m", "spacy", "krissel", "link", "--help"]
    found = subprocess.run(command, capture_output=True, text=True, encoding="utf8")
    assert found.returncode == 0 and "Usage" in found.stdout
    laboratory = Path(__file__).parents[2] / "experiments" / "lab"
    command = [
        sys.executable,
        str(laboratory),
        "sample",
        str(made.path / "shards"),
        "--number",
        "1",
    ]
    found = subprocess.run(command, capture_output=True, text=True, encoding="utf8")
    assert found.returncode == 0 and "⟦" in found.stdout
    found = subprocess.run([*command[:-1], "9999"], capture_output=True, text=True, encoding="utf8")
    assert found.returncode == 1 and "[K304]" in found.stderr and "Traceback" not in found.stderr


@pytest.fixture
def missing(tmp_path):
    return tmp_path / "missing"


def test_a_missing_ontology_is_refused(refuse, missing, tmp_path, toy_files):
    assert "[K101]" in refuse("ontology", missing, "-o", tmp_path / "store")
    assert not (tmp_path / "store").exists()
    assert "[K001]" in refuse("mine", missing, toy_files / "texts.jsonl", "-o", tmp_path / "shards")


def test_invalid_disambiguation_arguments_are_refused(made, run, refuse, missing, tmp_path):
    arguments = ("ontology", made.path / "store", "-o", tmp_path / "store")
    refused = run(*arguments, "--disambiguate", "cake", code=2)
    # A panel may have a line end between them.
    assert "'shortest'" in refused and "'longest'" in refused
    assert "[K001]" in refuse(*arguments, "--disambiguate", "longest", "--taxonomy", missing)
    assert "--disambiguate" in refuse(*arguments, "--taxonomy", made.path / "store")
    assert "[K212]" in refuse("affected-mentions", made.path / "store", made.path / "homonyms.json")
    assert list(tmp_path.iterdir()) == []


def test_ontology_does_not_overwrite_other_files(refuse, toy_files, tmp_path):
    (tmp_path / "thesis.txt").write_text("mine")
    assert "[K005]" in refuse("ontology", toy_files / "ontology.jsonl", "-o", tmp_path)
    assert (tmp_path / "thesis.txt").read_text() == "mine"


def test_invalid_ontology_formats_are_refused(run, refuse, toy_files, tmp_path):
    assert "gold.pubtator" in refuse(
        "ontology", toy_files / "gold.pubtator", "-o", tmp_path / "s", "--format", "jsonl"
    )
    cake = ("ontology", toy_files / "ontology.jsonl", "-o", tmp_path / "s", "--format", "cake")
    assert "'obographs'" in run(*cake, code=2)


def test_invalid_convert_arguments_are_refused(run, refuse, missing, toy_files, tmp_path):
    output = tmp_path / "gold.spacy"
    assert "[K201]" in refuse("convert", missing, "-o", output)
    assert "line 1" in refuse(
        "convert", toy_files / "ontology.jsonl", "-o", output, "--format", "pubtator"
    )
    assert "'bioc'" in run(
        "convert", toy_files / "gold.pubtator", "-o", output, "--format", "cake", code=2
    )
    assert "[K006]" in refuse("convert", toy_files / "gold.pubtator", "-o", tmp_path / "gold.txt")
    assert "[K001]" in refuse(
        "convert", toy_files / "gold.pubtator", "-o", output, "--ontology", missing
    )
    assert not output.exists()


def test_invalid_mine_arguments_are_refused(run, refuse, made, missing, toy_files, tmp_path):
    output = tmp_path / "shards"
    assert "[K201]" in refuse("mine", made.path / "store", missing, "-o", output)
    texts = toy_files / "texts.jsonl"
    assert "'smart'" in run(
        "mine", made.path / "store", texts, "-o", output, "--case", "upper", code=2
    )
    assert "cap" in run(
        "mine",
        made.path / "store",
        toy_files / "texts.jsonl",
        "-o",
        output,
        "--cap",
        "-1",
        code=None,
    )
    for ray in (("--ray", "local"), ("--ray", "auto")):
        said = refuse(
            "mine",
            made.path / "store",
            toy_files / "texts.jsonl",
            "-o",
            output,
            *ray,
            "--n-process",
            "2",
        )
        assert "[K006]" in said and "n_process" in said


def test_invalid_sample_arguments_are_refused(refuse, made, missing):
    assert "[K001]" in refuse("sample", missing)
    assert "[K304]" in refuse("sample", made.path / "shards", "--number", 9999)
    assert "[K002]" in refuse("sample", made.path / "store")


def test_invalid_prototypes_arguments_are_refused(run, refuse, made, missing, tmp_path):
    trained, store = made.path / "training" / "model-last", made.path / "store"
    output = tmp_path / "out"
    assert "[K611]" in refuse("prototypes", missing, "-o", output, "--ontology", store)
    assert "[K001]" in refuse("prototypes", trained, "-o", output, "--ontology", missing)
    assert "[K614]" in refuse("prototypes", made.path / "linker", "-o", output)
    ontology = ("--ontology", store)
    assert "nothing reads gold_weight" in refuse(
        "prototypes", made.path / "linker", "-o", output, *ontology, "--gold-weight", "1.1"
    )
    gold = ("prototypes", made.path / "linker", "-o", output, "--gold", made.path / "gold.spacy")
    for option, setting in (
        ("--no-names", "names"),
        ("--max-entities=3", "max_entities"),
        ("--references", "use_ref"),
    ):
        assert f"nothing reads {setting}" in refuse(*gold, option)
    assert "[K619]" in refuse(*gold, "--gold", made.path / "gold.spacy")
    assert "[K201]" in refuse("prototypes", made.path / "linker", "-o", output, "--gold", missing)
    assert "[K001]" in refuse(
        "prototypes", trained, "-o", output, "--ontology", store, "--mentions", missing
    )
    assert "'ivf_pq'" in run(
        "prototypes", trained, "-o", output, "--ontology", store, "--index", "cake", code=2
    )
    assert "[K610]" in refuse(
        "prototypes", trained, "-o", output, "--ontology", store, "--linker", "cake"
    )
    misspelt = refuse(
        "prototypes",
        trained,
        "-o",
        output,
        "--ontology",
        store,
        "--components.krissel_linker.treshold",
        "0.5",
    )
    assert "treshold" in misspelt
    assert not output.exists()


def test_invalid_evaluate_arguments_are_refused(refuse, made, missing, tmp_path):
    linker, gold, store = made.path / "linker", made.path / "gold.spacy", made.path / "store"
    output = ("-o", tmp_path / "metrics")
    assert "[K611]" in refuse("evaluate", missing, gold, "--ontology", store, *output)
    assert "[K001]" in refuse("evaluate", linker, missing, "--ontology", store, *output)
    assert "[K001]" in refuse("evaluate", linker, gold, "--ontology", missing, *output)
    assert "[K603]" in refuse(
        "evaluate", made.path / "training" / "model-last", gold, "--ontology", store, *output
    )
    assert "[K701]" in refuse(
        "evaluate", linker, gold, "--ontology", store, *output, "--label", "Cake"
    )
    wrong = ("evaluate", linker, gold, "--ontology", store, *output, "--compare")
    assert "[K704]" in refuse(*wrong, f"a={made.path / 'links.jsonl'}")
    assert not (tmp_path / "metrics").exists()


def test_a_comparison_without_a_path_is_refused(refuse, made):
    arguments = (made.path / "linker", made.path / "gold.spacy", "--ontology", made.path / "store")
    assert "name=path" in refuse("evaluate", *arguments, "--compare", "cake")


def test_invalid_link_arguments_are_refused(refuse, made, missing, tmp_path):
    output = ("-o", tmp_path / "links.jsonl")
    assert "[K611]" in refuse("link", missing, made.path / "gold.spacy", *output)
    assert "[K201]" in refuse("link", made.path / "linker", missing.with_suffix(".spacy"), *output)
    assert "[K006]" in refuse(
        "link", made.path / "linker", made.path / "gold.spacy", "-o", tmp_path / "links.txt"
    )
    assert "[K603]" in refuse(
        "link", made.path / "training" / "model-last", made.path / "gold.spacy", *output
    )
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_kb_raises_a_coded_error(refuse, made, tmp_path):
    import shutil

    shutil.copytree(made.path / "linker", tmp_path / "linker")
    vectors = max(
        (tmp_path / "linker" / "krissel_linker" / "kb").rglob("*"),
        key=lambda path: path.stat().st_size,
    )
    vectors.write_bytes(vectors.read_bytes()[:-8])
    assert "[K004]" in refuse(
        "link", tmp_path / "linker", made.path / "gold.spacy", "-o", tmp_path / "links.jsonl"
    )


def test_show_prints_an_entity(made, run, refuse):
    said = run("show", made.path / "linker", "T01")
    assert "name          multiple sclerosis\naliases       MS; disseminated sclerosis" in said
    assert "types         T047" in said and "ontology      ontology.jsonl" in said
    assert "mention" in next(line for line in said.splitlines() if line.startswith("prototypes"))
    assert "[K525]" in refuse("show", made.path / "linker", "T99")


def test_what_a_person_changed_is_kept_whatever_saves_it_again(made, run, refuse, tmp_path):
    ontology, linker = made.path / "store", tmp_path / "linker"
    run("build", ontology, "-o", linker)
    nlp = spacy.load(linker)
    nlp.to_disk(linker)
    run("build", ontology, "-o", linker)
    nlp = spacy.load(linker)
    nlp.get_pipe("krissel_linker").cfg["min_confidence"] = 0.3
    nlp.to_disk(linker)
    assert "[K027]" in refuse("build", ontology, "-o", linker)
    run("confidence", linker, "-o", linker)
    assert "[K027]" in refuse("build", ontology, "-o", linker)
    run("build", ontology, "-o", linker, "--force")
    run("build", ontology, "-o", linker)


def test_show_finds_an_entity_by_name(made, run, refuse):
    by_id = run("show", made.path / "linker", "T01")
    for name in ("multiple sclerosis", "Multiple Sclerosis", "disseminated sclerosis"):
        assert run("show", made.path / "linker", name) == by_id
    said = refuse("show", made.path / "linker", "multiple scleroses")
    assert "[K534]" in said and "multiple sclerosis (T01)" in said
    # By its digits and letters, no id is similar to a name.
    assert "[K525]" in refuse("show", made.path / "linker", "multiple:01")


def test_evaluate_takes_files_and_vocabularies_as_ontology(
    made, run, toy_files, monkeypatch, tmp_path
):
    by_store = made.printed["evaluate"]
    arguments = (
        "evaluate",
        made.path / "linker",
        made.path / "gold.spacy",
        "-o",
        tmp_path,
        "--name",
        "toy",
    )
    said = run(*arguments, "--ontology", toy_files / "ontology.jsonl")
    # But for the speed.
    speed = re.compile(r".*mentions per second\n|Report.*")
    assert speed.sub("", said) == speed.sub("", by_store)
    folder = tmp_path / "cache" / "medic"
    folder.mkdir(parents=True)
    # Put there by hand.
    columns = (
        "DiseaseName", "DiseaseID", "AltDiseaseIDs", "Definition", "ParentIDs", "TreeNumbers",
        "ParentTreeNumbers",
        "Synonyms", "SlimMappings",
    )  # fmt: skip
    row = ("multiple sclerosis", "T01", *[""] * 5, "MS", "")
    content = "\n".join(["# Fields:", "# " + "\t".join(columns), "#", "\t".join(row), ""])
    (folder / "CTD_diseases.tsv.gz").write_bytes(gzip.compress(content.encode()))
    monkeypatch.setenv("KRISSEL_CACHE", str(tmp_path / "cache"))
    assert "strict" in run(*arguments, "--ontology", "MEDIC")


def test_unsuitable_gold_is_refused_with_the_command_to_use(made, refuse, toy_files, tmp_path):
    arguments = ("--ontology", made.path / "store", "-o", tmp_path / "metrics")
    said = refuse("evaluate", made.path / "linker", toy_files / "texts.jsonl", *arguments)
    assert (
        "[K249]" in said
        and "texts.jsonl" in said
        and "krissel link" in said
        and "documents" not in said
    )
    # A bracket is no list of JSON yet.
    (tmp_path / "gsc.txt").write_text("[14::27]\tHP_0000924 | brachydactyly\n")
    said = refuse("evaluate", made.path / "linker", tmp_path / "gsc.txt", *arguments)
    assert "[K249]" in said and "--format" in said and "Label Studio" not in said
    (tmp_path / "mentions.json").write_text('{"context_document_id": "A", "start_index": 0}\n')
    said = refuse("evaluate", made.path / "linker", tmp_path / "mentions.json", *arguments)
    assert "[K250]" in said and "krissel convert" in said and "--documents FOLDER" in said


def test_link_reads_pubtator_and_lists_its_output_formats(made, run, refuse, toy_files, tmp_path):
    output = ("-o", tmp_path / "links.jsonl")
    said = refuse("link", made.path / "linker", toy_files / "gold.pubtator", *output)
    # It is read: the toy linker has nothing that finds mentions.
    assert "[K676]" in said
    for ending in ("csv", "xlsx", "json"):
        said = refuse(
            "link",
            made.path / "linker",
            toy_files / "gold.pubtator",
            "-o",
            tmp_path / f"links.{ending}",
        )
        assert "[K006]" in said and ".jsonl, .spacy, .tsv" in said
    # No word of Python about what was left out.
    said = refuse("link", made.path / "linker", toy_files / "gold.pubtator")
    assert "'output' is not set" in said and "--output links.tsv" in said and "None" not in said


def test_evaluate_scores_links_from_text(made, run, refuse, tmp_path):
    gold = made.path / "gold.spacy"
    nlp = spacy.load(made.path / "linker")
    names = OntologyStore(made.path / "store").names(shared=False)
    ruler = nlp.add_pipe("entity_ruler", first=True, config={"phrase_matcher_attr": "LOWER"})
    ruler.add_patterns([{"label": "Disease", "pattern": name} for _, name, _ in names])
    nlp.to_disk(tmp_path / "pipeline")
    # Without --ontology: that of the knowledge base.
    arguments = ("evaluate", tmp_path / "pipeline", gold, "--end-to-end", "-o", tmp_path)
    said = run(*arguments)
    data = json.loads((tmp_path / "evaluation.json").read_text())
    assert "ids per document" in said and ".errors.jsonl" in said
    assert data["ids"]["micro"]["f1"] > 0 and set(data["baselines"]) == {"dictionary"}
    assert "[K113]" in refuse(*arguments, "--below", "X9")
    assert "end_to_end" in refuse(*arguments, "--predicted")
    assert "end_to_end" in refuse("evaluate", made.path / "linker", gold, "--below", "X9")

"""A workflow of each experiment, its commands as they stand, on the toy data with a tiny encoder
and few steps."""

import gzip
import json
import re
from pathlib import Path

import pytest
import spacy
import srsly
from command_line import run_commands
from lab.campaign.archive import unpack
from lab.data.affected_mentions import affected_mentions
from project_files import ROOT
from spacy.tokens import DocBin

from spacy_krissel.mining.shards import MentionShards
from spacy_krissel.ontology.entity import Entity
from spacy_krissel.ontology.store import OntologyStore, write_store

pytestmark = pytest.mark.slow
STORES = ("medic", "medic-types", "chemicals", "both-names", "cellosaurus", "psytar-names")
STORES += ("disambiguated/cellosaurus", "disambiguated/medic")
MENTIONS = ("medic-mentions", "chemicals-mentions", "both-mentions")
CORPORA = ("ncbi", "bc5cdr", "chemicals", "bioid")
FEW = "--training.max_epochs 0 --training.max_steps 2 --training.eval_frequency 2"
NAMES = f"{FEW} --corpora.train.held_out 0.3 --training.batcher.pairs 4"
TEXTS = (
    f"{FEW} --corpora.train.dev_share 0.3 --components.krissel_span_extractor.model.tokens.window "
    "32"
)
LINKER = "components.krissel_linker"
BASELINE_TITLES = ["exact", "exact + abbreviations", "tfidf", "tfidf + abbreviations"]


def of_rows(options):
    return options.replace("--", "--train.overrides.")


GOLD = of_rows(
    f"{FEW} --corpora.train.dev_share 0.4 --training.batcher.size 4 "
    f"--{LINKER}.objective.refresh_every 2"
)


@pytest.fixture
def run(toy_store, toy_shards, toy_gold, toy_names, tiny_bert, tmp_path, monkeypatch):
    """Runs lines of a command in a copy of its project's place. extra: what is appended to each
    line that trains."""

    def link(path, target):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(target)

    for name in STORES:
        link(tmp_path / "corpus" / name, toy_store.path)
    for name in MENTIONS:
        link(tmp_path / "corpus" / name, toy_shards)
    for name in CORPORA:
        link(tmp_path / "corpus" / f"{name}-dev.spacy", toy_gold[0])
        link(tmp_path / "corpus" / f"{name}-train.spacy", toy_gold[1])
    nlp = spacy.blank("en")
    docs = []
    for number, (entity, names) in enumerate(toy_names.items()):
        for name in names[:3]:
            docs.append(nlp.make_doc(f"the patient had {name} in acute fever number {number}"))
            docs[-1].cats = {entity: 1.0}
    (tmp_path / "corpus" / "psytar").mkdir()
    DocBin(docs=docs).to_disk(tmp_path / "corpus" / "psytar" / "train.spacy")
    (tmp_path / "configs").symlink_to(ROOT / "configs")

    def run(paper, name, *extras, encoder=tiny_bert, **variables):
        source, folder = ROOT / "experiments" / paper, tmp_path / "experiments" / paper
        folder.mkdir(parents=True, exist_ok=True)
        if (source / "configs").exists() and not (folder / "configs").exists():
            (folder / "configs").symlink_to(source / "configs")
        monkeypatch.chdir(folder)
        run_commands(source, name, extras=extras, encoder=str(encoder), **variables)
        return folder

    return run


def rows_of(path):
    return [row["name"] for row in json.loads(Path(path).read_text())["rows"]]


@pytest.mark.nightly
def test_krissberts_lazy_learning_runs(run):
    few = of_rows(f"{NAMES} --training.optimizer.learn_rate.warmup_steps 0")
    folder = run("krissbert", "ablate-lazy", few)
    found = json.loads((folder / "metrics" / "transformer" / "ablation.json").read_text())
    assert rows_of(folder / "metrics" / "transformer" / "ablation.json") == ["full", "lazy"]
    assert found["few_shot"].keys() == {"ncbi", "bc5cdr", "chemicals"}, (
        "the curve belongs to the row"
    )


def test_sapberts_name_evaluation_runs(run):
    run("sapbert", "align", NAMES, "")
    folder = run("sapbert", "evaluate-names", *[""] * 8)
    assert (folder / "metrics" / "names-bc5cdr.json").exists()


@pytest.mark.nightly
def test_sapberts_biosyn_ablation_runs(run):
    run("sapbert", "align", NAMES, "")
    few = of_rows(f"{FEW} --training.optimizer.learn_rate 0.01 --corpora.train.dev_share 0.4")
    sizes = f"{few} --rows.biosyn.seeds [0] --train.overrides.training.batcher.size 4"
    folder = run("sapbert", "ablate-biosyn", sizes, sizes)
    rows = rows_of(folder / "metrics" / "biosyn-aligned" / "ablation.json")
    assert rows == ["biosyn", "untrained-lexical", "untrained"]
    cfg = (
        spacy.load(folder / "metrics/biosyn-aligned/biosyn/seed-0/linker/pipeline")
        .get_pipe("krissel_linker")
        .cfg
    )
    assert cfg["lexical_weight"] > 0, "the learned weight is lost"


@pytest.mark.nightly
def test_pels_loss_ablation_runs(run):
    folder = run(
        "pel",
        "ablate-losses",
        f"{GOLD} --row ce-fgsm --train.overrides.{LINKER}.objective.n_negatives 4",
    )
    assert rows_of(folder / "metrics" / "losses" / "ablation.json") == ["proxy", "ce", "ce-fgsm"]


@pytest.mark.nightly
def test_pels_ranker_ablation_runs(run):
    gold = f"{GOLD} --train.overrides.{LINKER}.objective.n_negatives 4 --row retriever-fgsm"
    few = (
        "--training.max_steps 2 --training.eval_frequency 2 --corpora.train.dev_share 0.4 "
        "--training.batcher.size 4"
    )
    folder = run(
        "pel",
        "ablate-ranker",
        (
            f"{gold} {few.replace('--', '--reranker.overrides.')} --rows.ranked.seeds [0] "
            "--rows.ranked-fgsm.seeds [0]"
        ),
    )
    found = rows_of(folder / "metrics" / "ranker" / "ablation.json")
    assert found == ["ranked", "ranked-fgsm", "retriever-fgsm"]


@pytest.mark.nightly
def test_belhds_cell_line_ablation_runs(run):
    sizes = (
        f"--{LINKER}.objective.n_candidates 4 --{LINKER}.model.encoder.window 32 "
        f"--{LINKER}.model.width 16"
    )
    folder = run("belhd", "ablate-cell-lines", f"{GOLD} --row disambiguation {of_rows(sizes)}")
    rows = rows_of(folder / "metrics" / "cell-lines" / "ablation.json")
    assert rows == ["full", "disambiguation", *BASELINE_TITLES, "memorisation"]


@pytest.mark.nightly
def test_belhds_twin_comparison_runs(run):
    """Refreshed at each epoch, of a number of steps that nobody typed."""
    few = (
        "--training.max_epochs 1 --training.max_steps 0 --corpora.train.dev_share 0.4 "
        "--training.batcher.size 4"
    )
    windows = f"--{LINKER}.model.mention.window 32 --{LINKER}.model.reference.window 32"
    epochs = f"--{LINKER}.objective.refresh_every epoch"
    short = (
        f"--rows.names.train.{LINKER}.model.window 32 {epochs.replace('--', '--rows.names.train.')}"
    )
    seeds = "--rows.entities.seeds [0] --rows.names.seeds [0]"
    folder = run(
        "belhd", "compare-twins", f"{of_rows(f'{few} {windows} {epochs}')} {short} {seeds}"
    )
    assert rows_of(folder / "metrics" / "twins" / "ablation.json") == [
        "entities",
        "names",
        "names-untrained",
        "untrained",
    ]
    linkers = [
        spacy.load(folder / "metrics" / "twins" / row / "seed-0" / "linker" / "pipeline").get_pipe(
            "krissel_linker"
        )
        for row in ("entities", "names")
    ]
    assert [linker.reference_parts() is None for linker in linkers] == [False, True]
    assert {linker.objective.refresh_every for linker in linkers} == {"epoch"}


# Two taxa, genes, cell lines, diseases and chemicals each that share a name, and a mention of it.
GENE_COLUMNS = (
    "#tax_id GeneID Symbol dbXrefs Synonyms description Other_designations "
    "Symbol_from_nomenclature_authority Full_name_from_nomenclature_authority"
)
GENES = (
    "Homo_sapiens Mus_musculus Danio_rerio Drosophila_melanogaster Saccharomyces_cerevisiae".split()
)
TABLE_1 = {
    "ontologies/medic_06Jul2012.txt": "D1||first gout|gout\nD2||second gout|gout\n",
    "ontologies/mesh_descriptor_terms.tsv.gz": "DescriptorUI\tTermName\tRecordPreferredTermYN\n"
    "D3\tlead\tY\nD4\tlead\tY\n",
    "ontologies/mesh_tree_numbers.tsv.gz": (
        "DescriptorUI\tDescriptorName\ttree_location\nD3\tx\tD1\nD4\tx\tD2\n"
    ),
    "ontologies/Cellosaurus.tsv.gz": "HEK\tCVCL_0001\tHomo sapiens\nHEK\tCVCL_0002\tHomo sapiens\n",
    "ontologies/taxslim_2022-10-06.obo": "".join(
        f'[Term]\nid: NCBITaxon:{id_}\nname: {name}\nsynonym: "mouse" EXACT []\n\n'
        for id_, name in (("10090", "Mus musculus"), ("10088", "Mus"))
    ),
    **{
        f"ontologies/gene_info/{name}.gene_info.gz": (
            f"{GENE_COLUMNS}\n9606 {number} A2M - - - - - -\n"
        ).replace(" ", "\t")
        for number, name in enumerate(
            [*GENES, "Rattus_norvegicus.derived", "other_species.derived"], 1
        )
    },
}
TABLE_1_GOLD = {
    "ncbi_disease/NCBItrainset_corpus.txt": ("gout", "SpecificDisease", "D1"),
    "ncbi_disease/NCBIdevelopset_corpus.txt": ("GOUT", "SpecificDisease", "D2"),
    "bc5cdr/CDR_TrainingSet.PubTator.txt": ("gout", "Disease", "D1"),
    "bc5cdr/CDR_DevelopmentSet.PubTator.txt": ("lead", "Chemical", "D3"),
    "bioid/BioID_Train_revision.PubTator": ("HEK", "CellLine", "CVCL_0001"),
    "genes/GNormPlus_Train.PubTator": ("A2M", "Gene", "1"),
    "genes/NLMgene_Train.PubTator.gz": ("A2M", "Gene", "2,3"),
    "genes/BioRED_TrainDev.PubTator.gz": ("mouse", "Species", "10090"),
    "species/Linnaeus_Train.PubTator": ("mouse", "Species", "10090"),
    "species/SPECIES_Train.PubTator": ("Mus", "Species", "10088"),
}


def write_sources(folder, texts, monkeypatch):
    for path, text in texts.items():
        file_ = folder / path
        file_.parent.mkdir(parents=True, exist_ok=True)
        file_.write_bytes((gzip.compress if path.endswith(".gz") else bytes)(text.encode("utf8")))
    monkeypatch.setattr("project_files.DATA", str(folder))
    monkeypatch.setenv("KRISSEL_DATA", str(folder))


@pytest.mark.filterwarnings("ignore:.*KW(130|209)")
def test_belhds_table_1_counts_affected_mentions(run, tmp_path, monkeypatch):
    """From the publishers' files on; and a mention is affected where its text is the name that is
    shared."""
    gold = {}
    for number, (path, (text, label, id_)) in enumerate(TABLE_1_GOLD.items(), 1):
        mention = f"{number}\t3\t{3 + len(text)}\t{text}\t{label}\t{id_}"
        gold[f"corpora/{path}"] = f"{number}|t|In {text}.\n{number}|a|\n{mention}\n\n"
    write_sources(tmp_path / "source", {**TABLE_1, **gold}, monkeypatch)
    for name, n_lines in (("table1-stores", 7), ("table1-gold", 13), ("affected", 6)):
        run("belhd", name, *[""] * n_lines)
    folder = tmp_path / "corpus" / "table1"
    found = {
        store: affected_mentions(folder / f"{name}.spacy", OntologyStore(folder / store))
        for name, store in (
            ("ncbi-disease", "medic"),
            ("s800", "taxslim"),
            ("nlm-gene", "genes-nlm-gene"),
        )
    }
    assert found == {"medic": (2, 2, 0, 2), "taxslim": (1, 0, 0, 0), "genes-nlm-gene": (1, 1, 0, 1)}


@pytest.fixture
def genes(run, tmp_path, monkeypatch):
    """Tables of genes that share a name, and 40 documents of each corpus of genes, with a mention
    of each type."""
    tables = {name: text for name, text in TABLE_1.items() if "gene_info" in name}
    for taxon, name in zip((9606, 10090, 7955, 7227, 559292, 10116, 3702), tables, strict=True):
        tables[name] = tables[name].replace("9606", str(taxon))
    mentions = [("A2M", "Gene", "1"), ("mice", "Species", "10090"), ("gout", "Disease", "D1")]
    mentions += [
        ("lead", "Chemical", "D3"),
        ("HEK", "CellLine", "CVCL_0001"),
        ("rs1", "Variant", "rs1"),
    ]
    text = "Patients and " + " and ".join(mention for mention, *_ in mentions) + "."
    places = [(text.index(mention), mention, label, id_) for mention, label, id_ in mentions]
    gold = "\n".join(
        f"{number}|t|{text}\n{number}|a|\n"
        + "".join(
            f"{number}\t{at}\t{at + len(mention)}\t{mention}\t{label}\t{id_}\n"
            for at, mention, label, id_ in places
        )
        for number in range(1, 41)
    )
    corpora = {f"corpora/{path}": gold for path in TABLE_1_GOLD if path.startswith("genes/")}
    write_sources(tmp_path / "source", {**tables, **corpora}, monkeypatch)
    run("genes", "ontology", "")
    return run


@pytest.mark.nightly
@pytest.mark.filterwarnings("ignore:.*KW703")
def test_genes_of_many_species_are_linked(genes, tmp_path):
    for name, n_lines in (("gold", 6), ("build", 3), ("evaluate", 21), ("link-lazy", 6)):
        folder = genes("genes", name, *[""] * n_lines)
    for corpus in ("gnormplus", "nlm-gene", "biored"):
        found = json.loads((folder / "metrics" / f"{corpus}.json").read_text())
        assert found["strict"] == 1 and found["n"] > 0
        without = json.loads((folder / "metrics" / f"{corpus}-without-species.json").read_text())
        assert without["strict"] < 1
    linker = spacy.load(folder / "training" / "lazy-biored").get_pipe("krissel_linker")
    assert linker.kb.has_gold and linker.cfg.species_weight and linker.cfg.coherence_weight
    (tmp_path / "spacy_krissel").symlink_to(ROOT / "spacy_krissel")
    genes("genes", "supervise", f"{of_rows(FEW)} --row names --row rules")
    assert rows_of(folder / "metrics" / "supervised" / "ablation.json") == ["names", "rules"]


@pytest.mark.nightly
def test_biored_is_linked_to_five_vocabularies(genes, tmp_path):
    stores = {
        "medic": ("D1", "gout", "Disease"),
        "chemicals": ("D3", "lead", "Chemicals and Drugs"),
        "taxslim": ("NCBITaxon:10090", "Mus musculus", "ncbi_taxonomy"),
        "cellosaurus": ("CVCL_0001", "HEK", "CellLine"),
    }
    for name, (id_, preferred, type_) in stores.items():
        path = tmp_path / "corpus" / name
        path.unlink(missing_ok=True)
        write_store(iter([Entity(id_, preferred, types=(type_,))]), path)
    genes("biored", "vocabularies", *[""] * 5)
    genes("biored", "train-ner", "--training.max_steps 40 --training.eval_frequency 20")
    genes("biored", "build", "")
    folder = genes("biored", "evaluate", *[""] * 11)
    gold = json.loads((folder / "metrics" / "gold.json").read_text())
    assert gold["strict"] == 1 and gold["n"] % 5 == 0
    assert (folder / "metrics" / "predicted.json").exists()


@pytest.mark.nightly
def test_oslats_training_runs(run):
    folder = run("oslat", "train", NAMES, TEXTS, TEXTS, "")
    assert (folder / "training" / "psytar-0" / "full" / "pipeline" / "meta.json").exists()


def test_oslats_notes_are_converted_and_split(run, toy_store, tmp_path):
    notes = tmp_path / "data" / "semeval-2015-task-14"
    notes.mkdir(parents=True)
    for number in range(8):
        lines = [f"Pain number {each} of {number}." for each in range(3)]
        (notes / f"{number}.text").write_text("\n".join(lines))
        places = (
            (sum(len(line) + 1 for line in lines[:each]), id_)
            for each, id_ in enumerate(("T01", "T02", "T07"))
        )
        (notes / f"{number}.pipe").write_text(
            "".join(f"{number}.text|{at}-{at + 4}|{id_}|no|*NULL*\n" for at, id_ in places)
        )
    (tmp_path / "corpus" / "umls-store").symlink_to(toy_store.path)
    run("oslat", "hnlp-texts", *[""] * 4)
    assert sorted(OntologyStore(tmp_path / "corpus" / "hnlp-names").ids) == ["T01", "T02", "T07"]
    report = json.loads((tmp_path / "corpus" / "hnlp" / "report.json").read_text())
    assert (report["texts"], report["entities"]) == (24, 3)


def test_the_checkpoint_evaluation_runs(run, toy_files, toy_gold, bert_with_markers, tmp_path):
    pubtator = {
        "gold": toy_files / "gold.pubtator",
        "examples": toy_gold[1].with_suffix(".pubtator"),
    }
    folder = tmp_path / "experiments" / "checkpoint"
    download = folder / "corpus" / "download"
    download.mkdir(parents=True)
    with gzip.open(download / "medmentions.txt.gz", "wt") as file_:
        for path in pubtator.values():
            file_.write(path.read_text() + "\n")
    ids = {
        name: re.findall(r"^(\d+)\|t\|", path.read_text(), re.M) for name, path in pubtator.items()
    }
    (download / "train.txt").write_text("\n".join(ids["examples"]) + "\n")
    (download / "test.txt").write_text("\n".join(ids["gold"]) + "\n")
    run("checkpoint", "gold", *[""] * 4)
    run("checkpoint", "link", *[""] * 3, encoder=str(bert_with_markers))
    linker = spacy.load(folder / "training" / "linker").get_pipe("krissel_linker")
    # A mention in context each, and no names.
    assert linker.kb.description()["prototypes"] == 11
    assert linker.model.layers[0].attrs["settings"].markers == ("<ENT>", "</ENT>")
    assert len(linker.model.layers) == 1
    found = json.loads((folder / "metrics" / "released.json").read_text())
    assert found["n"] == 11 and found["n_seen"] == 11


@pytest.mark.nightly
def test_the_compact_encoder_workflow_runs(
    run, toy_files, toy_names, toy_store, toy_gold, tmp_path, monkeypatch
):
    """From the publishers' files to the package, and measured."""
    terms = [
        f"[Term]\nid: DOID:{id_}\nname: {names[0]}\n"
        + "".join(f'synonym: "{name}" EXACT []\n' for name in names[1:])
        for id_, names in toy_names.items()
    ]
    hp = [
        {"id": f"http://purl.obolibrary.org/obo/HP_{number}", "lbl": name, "type": "CLASS"}
        for number, name in enumerate(("asthma", "migraine"), 1)
    ]
    closed = {"id": "epi-1", "text": "Closed texts of asthma are not trained on."}
    gsc = {
        f"corpora/hpo/gsc_plus/{folder}/{name}": text
        for name in ("1", "2")
        for folder, text in (("corpus", "It was asthma.\n"), ("ann", "[7::13]\tHP_1 | asthma\n"))
    }
    sources = {
        **TABLE_1,
        "ontologies/doid_2016-09-01.obo": "\n".join(terms),
        "ontologies/hp_2023-01-27.json.gz": json.dumps({"graphs": [{"nodes": hp}]}),
        "ontologies/cl-basic_2022-12-15.obo": "[Term]\nid: CL:0000540\nname: neuron\n",
        "text/abstracts.jsonl.gz": (toy_files / "texts.jsonl").read_text(encoding="utf8"),
        "text/gene_text.jsonl.gz": json.dumps(closed) + "\n",
        **gsc,
    }
    write_sources(tmp_path / "source", sources, monkeypatch)
    corpora = srsly.read_yaml(ROOT / "experiments" / "compact" / "configs" / "corpora.yml")["sets"]
    # Those of other projects.
    for each in corpora.values():
        for path, target in ((each["gold"], toy_gold[0]), (each["ontology"], toy_store.path)):
            place = tmp_path / path.removeprefix("../../")
            if "compact" not in place.parts and not place.exists():
                place.parent.mkdir(exist_ok=True)
                place.symlink_to(target)
    sizes = " ".join(
        f"--{LINKER}.model.{name} {size}" for name, size in (("width", 16), ("hidden", 8))
    )
    few = f"--corpora.train.held_out 0.3 --training.batcher.pairs 4 {sizes}"
    for name, *extras in (
        ("text", "", ""),
        ("ontology", ""),
        ("terms", "", "", "--min-docs 1"),
        ("mine", ""),
        ("teacher", ""),
        ("distill", few, ""),
        ("train", f"{few} {FEW}"),
        ("align", f"{NAMES} {sizes}", f"{NAMES} {sizes}"),
        ("ship", ""),
        ("evaluate-gold", "", "", ""),
    ):
        folder = run("compact", name, *extras)
    assert "Closed" not in (tmp_path / "corpus" / "compact" / "texts.jsonl").read_text(
        encoding="utf8"
    )
    made = tmp_path / "spacy_krissel" / "compact"
    assert spacy.load(made).meta["name"] == "krissel_compact"
    # A byte for each of the table's weights.
    assert (made / "krissel_linker" / "model").stat().st_size < 1.3 * 16 * (32768 + 16384)
    run("compact", "evaluate-compact", of_rows(few))
    found = json.loads((folder / "metrics" / "corpora" / "ablation.json").read_text())
    assert [row["name"] for row in found["rows"]] == ["compact", "untrained", *BASELINE_TITLES]
    assert found["rows"][0]["sets"].keys() == corpora.keys()


def test_the_campaign_archive_is_packed(run, toy_names, tiny_bert, tmp_path, monkeypatch):
    """From the publishers' files on; names of two vocabularies that are one concept are found in
    texts."""
    terms = [
        f"[Term]\nid: DOID:{id_}\nname: {names[0]}\n"
        + "".join(f'synonym: "{name}" EXACT []\n' for name in names[1:])
        for id_, names in toy_names.items()
    ]
    text = "In this woman relapses and sclerosis multiplex were seen before asthma bronchiale."
    sources = {
        **TABLE_1,
        "ontologies/doid_2016-09-01.obo": "\n".join(terms),
        "ontologies/hp_2023-01-27.json.gz": json.dumps(
            {
                "graphs": [
                    {
                        "nodes": [
                            {
                                "id": "http://purl.obolibrary.org/obo/HP_1",
                                "lbl": "rickets",
                                "type": "CLASS",
                            }
                        ]
                    }
                ]
            }
        ),
        "ontologies/cl-basic_2022-12-15.obo": (
            "[Term]\nid: CL:0000540\nname: neuron\nxref: DOID:T07\n"
            'synonym: "asthma bronchiale" EXACT []\n'
        ),
        "ontologies/obo-db-ingest/hgnc.genegroup.obo.gz": (
            "[Term]\nid: hgnc.genegroup:1\nname: kinases\n"
        ),
        "ontologies/obo-db-ingest/sgd.obo.gz": "[Term]\nid: sgd:S1\nname: YAL001C\n",
        "text/abstracts.jsonl.gz": json.dumps({"id": "1", "text": text}) + "\n",
        "text/gene_text.jsonl.gz": json.dumps(
            {"id": "epi-1", "text": "Closed text of sclerosis multiplex."}
        )
        + "\n",
        "corpora/ncbi_disease/NCBIdevelopset_corpus.txt": (
            "1|t|In gout.\n1|a|\n1\t3\t7\tgout\tSpecificDisease\tD1\n\n"
        ),
        "corpora/bc5cdr/CDR_DevelopmentSet.PubTator.txt": "2|t|In gout and lead.\n2|a|\n"
        "2\t3\t7\tgout\tDisease\tD1\n2\t12\t16\tlead\tChemical\tD3\n\n",
    }
    write_sources(tmp_path / "source", sources, monkeypatch)
    for name, n_lines in (
        ("sources", 1),
        ("ontology", 2),
        ("texts", 1),
        ("mine", 1),
        ("gold", 6),
        ("pack", 1),
    ):
        run("campaign", name, *[""] * n_lines, articles="")
    manifest = unpack(tmp_path / "corpus" / "campaign" / "campaign.tar.xz", tmp_path / "data")
    mentions = MentionShards(tmp_path / "data" / "mentions")
    assert {(each.doc, each.entity) for each in mentions} == {("1", "DOID:T01"), ("1", "DOID:T07")}
    assert manifest["counts"]["gold"] == [
        "ncbi-dev.spacy",
        "bc5cdr-dev.spacy",
        "chemicals-dev.spacy",
    ]
    trained = set(OntologyStore(tmp_path / "data" / "ontology").ids)
    linked = set(OntologyStore(tmp_path / "data" / "medic").ids)
    assert "CL:0000540" not in trained, "it is asthma"
    assert not trained & linked, "MEDIC is not trained on"

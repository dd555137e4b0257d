import gzip
import re
from collections import Counter
from functools import cache
from pathlib import Path

import pytest
import spacy
from spacy.tokens import DocBin
from tiers import nightly

import spacy_krissel
from spacy_krissel import Entity
from spacy_krissel.corpora.convert import convert, read_docs
from spacy_krissel.corpora.doc_bins import GoldSplit
from spacy_krissel.corpora.readers import detect_format
from spacy_krissel.corpora.readers.pubtator import read_pubtator
from spacy_krissel.corpora.report import COUNTS, ISSUES, CorpusReport
from spacy_krissel.errors import KrisselError, KrisselWarning
from spacy_krissel.mentions.gold_ids import is_composite, split_ids
from spacy_krissel.mentions.gold_mentions import SPANS_KEY, gold_mentions
from spacy_krissel.ontology.store import write_store

ONE = "1|t|Gout and salt.\n1\t0\t4\tGout\tDisease\tOMIM:7|D2\n1\t9\t13\tsalt\tChemical\t-1\n"
TWO = (
    "2|t|Cold.\n2\t0\t4\tCold\tDisease\tMESH:D3\n\n1|t|Another text.\n"
    "1\t0\t7\tAnother\tDisease\tD9\n"
)
BIOC = (
    "<?xml version='1.0'?><collection><document><id>3</id><passage><offset>0</offset>"
    "<text>Cold</text><annotation id='1'><infon key='type'>Disease</infon><infon "
    "key='identifier'>D3</infon><location offset='0' length='4'/><text>Cold</text></annotation>"
    "</passage></document></collection>"
)


class KnownIds:
    def resolve(self, id):
        return id if id in ("7", "D2", "D3") else None


@pytest.fixture
def files(tmp_path):
    for name, content in (("one.txt", ONE), ("two.txt", TWO), ("three.xml", BIOC)):
        (tmp_path / name).write_text(content)
    return [tmp_path / "one.txt", tmp_path / "two.txt", tmp_path / "three.xml"]


def load(path):
    nlp = spacy.blank("en")
    return list(DocBin().from_disk(path).get_docs(nlp.vocab))


def ids(docs):
    return {doc.user_data["krissel_id"]: [ent.kb_id_ for ent in doc.ents] for doc in docs}


def test_files_of_several_formats_become_one_doc_bin(files, tmp_path):
    output = tmp_path / "new" / "gold.spacy"
    with pytest.warns(KrisselWarning, match=r"KW202\] 1 document.*two\.txt, line 4 \(document 1\)"):
        report = convert(files, output, force=True)
    assert ids(load(output)) == {"1": ["OMIM:7|D2", "NIL"], "2": ["MESH:D3"], "3": ["D3"]}
    assert report.to_dict()["labels"] == {"Disease": 3, "Chemical": 1}
    assert (report["documents"], report["mentions"], report["duplicate_documents"]) == (3, 4, 1)
    assert [path.name for path in output.parent.iterdir()] == ["gold.spacy"]


@pytest.mark.filterwarnings("ignore::spacy_krissel.errors.KrisselWarning")
def test_train_and_dev_parts_make_up_the_whole_corpus(files, tmp_path):
    """Both parts together are the whole."""
    parts = {}
    for split in ("train", "dev", "all"):
        convert(files, tmp_path / f"{split}.spacy", split=split, dev_share=0.5, seed=3)
        parts[split] = load(tmp_path / f"{split}.spacy")
    assert {**ids(parts["train"]), **ids(parts["dev"])} == ids(parts["all"])
    assert (
        not ids(parts["train"]).keys() & ids(parts["dev"]).keys()
        and parts["dev"]
        and parts["train"]
    )
    with pytest.raises(KrisselError, match="K006.*'split'"):
        convert(files, tmp_path / "test.spacy", split="test")


def test_a_part_can_be_split_again_with_the_same_seed(tmp_path):
    """Training holds documents out of the part that was written for it."""
    lines = [
        f"{number}|t|Asthma.\n{number}|a|\n{number}\t0\t6\tAsthma\tDisease\tD1\n"
        for number in range(100)
    ]
    (tmp_path / "gold.txt").write_text("\n".join(lines))
    report = convert(tmp_path / "gold.txt", tmp_path / "train.spacy", split="train", dev_share=0.3)
    train = load(tmp_path / "train.spacy")
    assert (
        report["documents"] == 100
        and report["documents_written"] == len(train)
        and 55 <= len(train) <= 85
    )
    held_out = [doc for doc in train if GoldSplit("dev", 0.3)(doc)]
    assert 0.15 * len(train) <= len(held_out) <= 0.45 * len(train)


def test_documents_are_selected_by_a_list_of_ids(tmp_path):
    lines = [
        f"{number}|t|Asthma.\n{number}|a|\n{number}\t0\t6\tAsthma\tDisease\tD1\n"
        for number in range(9)
    ]
    (tmp_path / "gold.txt").write_text("\n".join(lines))
    (tmp_path / "ids.txt").write_text("3\n7 \n\n12\n13\n")
    with pytest.warns(
        KrisselWarning, match=r"KW232\] 2 of.*ids\.txt, line 4 \(12\); .*line 5 \(13\)"
    ):
        report = convert(
            tmp_path / "gold.txt", tmp_path / "gold.spacy", ids=tmp_path / "ids.txt", force=True
        )
    assert set(ids(load(tmp_path / "gold.spacy"))) == {"3", "7"}
    assert (report["documents_written"], report["unlisted_documents"]) == (2, 7)
    (tmp_path / "ids.txt").write_text("\n")
    with pytest.raises(KrisselError, match=r"K204.*ids\.txt"):
        convert(
            tmp_path / "gold.txt", tmp_path / "gold.spacy", ids=tmp_path / "ids.txt", force=True
        )


def test_spacy_corpus_reads_the_converted_file(files, tmp_path):
    from spacy.training import Corpus

    output = tmp_path / "gold.spacy"
    convert(files[0], output)
    (example,) = Corpus(output)(spacy.blank("en"))
    assert [token.ent_kb_id_ for token in example.reference if token.ent_kb_id_] == [
        "OMIM:7|D2",
        "NIL",
    ]


def test_mentions_are_selected_by_label(files, tmp_path):
    report = convert(files[0], tmp_path / "gold.spacy", labels=["Disease"])
    assert ids(load(tmp_path / "gold.spacy")) == {"1": ["OMIM:7|D2"]}
    assert (report["other_labels"], report["mentions_read"]) == (1, 2)


def test_a_label_that_never_occurs_raises_a_warning(files, tmp_path):
    with pytest.warns(KrisselWarning, match=r"KW209.*'Desease'.*found: 'Chemical', 'Disease'"):
        convert(files[0], tmp_path / "gold.spacy", labels=["Desease"])


def test_prefixes_that_the_ontology_does_not_use_are_removed(files):
    with pytest.warns(KrisselWarning):
        docs = list(read_docs(files, spacy.blank("en"), ontology=KnownIds()))
    assert ids(docs) == {"1": ["7|D2", "NIL"], "2": ["D3"], "3": ["D3"]}


def test_ids_missing_from_the_ontology_are_counted(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("1|t|Gout\n1\t0\t4\tGout\tDisease\tD2|OMIM:8\n")
    with pytest.warns(KrisselWarning, match=r"KW208\] 1 mention.*a\.txt, line 2 \(OMIM:8\)"):
        (doc,) = read_docs(path, spacy.blank("en"), ontology=KnownIds())
    assert doc.ents[0].kb_id_ == "D2|OMIM:8"


def test_a_missing_prefix_is_named(tmp_path):
    """An alternative id leads elsewhere, and has none."""
    rape = Entity("NCBITaxon:3708", "rape", alt_ids=("NCBITaxon:7",))
    store = write_store([rape], tmp_path / "store")
    path = tmp_path / "a.txt"
    for id_, shown in (("3708", "3708, with its prefix NCBITaxon:3708"), ("7", "7")):
        path.write_text(f"1|t|Rape\n1\t0\t4\tRape\tSpecies\t{id_}\n")
        with pytest.warns(KrisselWarning, match=rf"\({shown}\).*--prefix"):
            list(read_docs(path, spacy.blank("en"), ontology=store))


def test_ids_missing_from_the_ontology_become_nil(tmp_path):
    path = tmp_path / "a.txt"
    mentions = (
        (0, 4, "Gout", "D2|X"),
        (5, 9, "gout", "X|Y"),
        (10, 14, "GOUT", "OMIM:7"),
        (15, 19, "gOUT", "-1"),
    )
    lines = [f"1\t{start}\t{end}\t{text}\tDisease\t{id_}\n" for start, end, text, id_ in mentions]
    path.write_text("1|t|Gout gout GOUT gOUT\n" + "".join(lines))
    with pytest.warns(KrisselWarning, match=r"KW208\] 1 mention"):
        report = convert(path, tmp_path / "gold.spacy", ontology=KnownIds(), unknown_as_nil=True)
    assert ids(load(tmp_path / "gold.spacy")) == {"1": ["D2|X", "NIL", "7", "NIL"]}
    assert (report["unknown_as_nil"], report["nil"]) == (1, 2)


def test_ids_get_the_prefix_of_the_ontology(tmp_path):
    path = tmp_path / "a.txt"
    mentions = ((0, 4, "Mice", "10090"), (5, 8, "men", "MESH:D8"), (9, 14, "ghost", "-"))
    lines = [f"1\t{start}\t{end}\t{text}\tSpecies\t{id_}\n" for start, end, text, id_ in mentions]
    path.write_text("1|t|Mice men ghost\n" + "".join(lines))
    report = convert(path, tmp_path / "gold.spacy", prefixes=["NCBITaxon:"])
    assert ids(load(tmp_path / "gold.spacy")) == {"1": ["NCBITaxon:10090", "MESH:D8", "NIL"]}
    assert report["rewritten_ids"] == 1


def test_a_prefix_is_kept_if_the_bare_id_is_another_entity(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("1|t|MS\n1\t0\t2\tMS\tGene\t7\n")
    convert(
        path,
        tmp_path / "gold.spacy",
        ontology=KnownIds(),
        prefixes=["Gene=NCBIGene"],
        unknown_as_nil=True,
    )
    assert ids(load(tmp_path / "gold.spacy")) == {"1": ["NIL"]}


def test_ids_get_the_prefix_of_their_label(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("1|t|Mice MS\n1\t0\t4\tMice\tSpecies\t10090\n1\t5\t7\tMS\tGene\t10090\n")
    convert(path, tmp_path / "gold.spacy", prefixes=["NCBIGene", "Species=NCBITaxon"])
    assert ids(load(tmp_path / "gold.spacy")) == {"1": ["NCBITaxon:10090", "NCBIGene:10090"]}


@pytest.mark.parametrize(
    "settings, setting",
    [
        ({"format": "biocxml"}, "format"),
        ({"labels": "Disease"}, "labels"),
        ({"lang": "qqq"}, "lang"),
        ({"output": "gold.jsonl"}, "output"),
        ({"inputs": []}, "inputs"),
        ({"unknown_as_nil": True}, "unknown_as_nil"),
        ({"prefixes": ["A|B"]}, "prefix"),
    ],
)
def test_invalid_settings_raise(files, tmp_path, settings, setting):
    arguments = {"inputs": files[0], "output": tmp_path / "gold.spacy", **settings}
    with pytest.raises(KrisselError, match=rf"K006\] Setting '{setting}'"):
        convert(**arguments)


@pytest.mark.parametrize(
    "content, code",
    [("", "K204"), ("id,text\n1,Gout\n", "K205"), ("<html/>", "K008"), (BIOC[:200], "K007")],
)
def test_an_invalid_file_leaves_no_output(tmp_path, content, code):
    path = tmp_path / "input"
    path.write_text(content)
    with pytest.raises(KrisselError, match=rf"\[{code}\].*input"):
        convert(path, tmp_path / "gold.spacy")
    assert [path.name for path in tmp_path.iterdir()] == ["input"]


def test_a_tiny_truncated_gzip_raises(tmp_path):
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(ONE.encode())[:-9])
    with pytest.raises(KrisselError, match=r"\[K202\].*a\.gz"):
        convert(path, tmp_path / "gold.spacy")


def test_every_count_of_a_conversion_has_a_meaning():
    folder = Path(spacy_krissel.__file__).parent / "corpora"
    names = {
        name
        for path in (*folder.glob("*.py"), *folder.glob("readers/*.py"))
        if path.stem not in ("link_table", "text_stream", "pubmed")  # of other commands
        for name in re.findall(r"\.count\(\s*\"(\w+)\"", path.read_text(encoding="utf8"))
    }
    assert len(names) > 20 and names <= {*COUNTS, *ISSUES}, names - {*COUNTS, *ISSUES}


def test_a_missing_input_raises_a_coded_error(tmp_path):
    with pytest.raises(KrisselError, match=r"\[K201\].*absent"):
        convert(tmp_path / "absent", tmp_path / "gold.spacy")


CORPORA = [
    ("ncbi_disease/NCBIdevelopset_corpus.txt", 787, {}),
    (
        "ncbi_disease/NCBItrainset_corpus.txt",
        5145,
        {"duplicate_documents": 1, "text_differences": 1},
    ),
    nightly("bc5cdr/CDR_TrainingSet.PubTator.txt", 9385, {}),
    nightly("bc5cdr/CDR_DevelopmentSet.PubTator.txt", 9591, {}),
    nightly("bioid/BioID_Train_revision.PubTator", 4137, {"text_mismatches": 1}),
    nightly("species/SPECIES_Train.PubTator", 3053, {}),
    nightly("species/Linnaeus_Train.PubTator", 2321, {}),
]


@pytest.mark.data
@pytest.mark.filterwarnings("ignore::spacy_krissel.errors.KrisselWarning")
@pytest.mark.parametrize("name, n_mentions, blemishes", CORPORA)
def test_real_corpora_have_known_data_issues(data_dir, tmp_path, name, n_mentions, blemishes):
    path = data_dir / "corpora" / name
    texts = list(read_pubtator(path))
    assert sum(len(text.mentions) for text in texts) == n_mentions
    report = convert(path, tmp_path / "gold.spacy")
    assert {kind: len(places) for kind, places in report.examples.items()} == blemishes
    # The mentions of the repeated document, and those whose text is another, are all that is
    # missing.
    seen = Counter()
    repeated = sum(
        len(text.mentions) for text in texts if seen.update([text.id]) or seen[text.id] > 1
    )
    assert (
        report["mentions"]
        == report["ents"]
        == n_mentions - repeated - blemishes.get("text_mismatches", 0)
    )


@pytest.mark.data
def test_bioc_and_pubtator_give_the_same_docs(data_dir):
    folder = data_dir / "corpora" / "bc5cdr"
    nlp = spacy.blank("en")

    def content(name):
        for doc in read_docs(folder / name, nlp):
            mentions = [
                (span.start_char, span.end_char, span.label_, span.kb_id_)
                for span in doc.spans[SPANS_KEY]
            ]
            yield doc.user_data["krissel_id"], doc.text, mentions

    pubtator = list(content("CDR_DevelopmentSet.PubTator.txt"))
    assert len(pubtator) == 500 and pubtator == list(content("CDR_DevelopmentSet.BioC.xml.gz"))


@pytest.mark.data
def test_development_sets_have_the_published_mention_counts(data_dir):
    nlp = spacy.blank("en")
    for name, labels, n_linked, n_composite in (
        ("ncbi_disease/NCBIdevelopset_corpus.txt", None, 787, 30),
        ("bc5cdr/CDR_DevelopmentSet.PubTator.txt", ["Disease"], 4228, 98),
    ):
        docs = read_docs(data_dir / "corpora" / name, nlp, labels=labels)
        golds = [ent.kb_id_ for doc in docs for ent in doc.ents]
        assert sum(bool(split_ids(gold)) for gold in golds) == n_linked
        assert sum(map(is_composite, golds)) == n_composite


@pytest.mark.data
@pytest.mark.filterwarnings("ignore::spacy_krissel.errors.KrisselWarning")
def test_medic_of_2012_has_all_ids_of_ncbi_disease(data_dir, tmp_path):
    from spacy_krissel.ontology.readers.ctd import read_medic
    from spacy_krissel.ontology.store import write_store

    store = write_store(
        read_medic(data_dir / "ontologies" / "medic_06Jul2012.txt"), tmp_path / "medic"
    )
    report = CorpusReport()
    folder = data_dir / "corpora" / "ncbi_disease"
    files = [folder / "NCBItrainset_corpus.txt", folder / "NCBIdevelopset_corpus.txt"]
    golds = [
        ent.kb_id_
        for doc in read_docs(files, spacy.blank("en"), ontology=store, report=report)
        for ent in doc.ents
    ]
    assert report["unknown_ids"] == 0
    assert all(store.resolve(concept) for gold in golds for concept in split_ids(gold))
    assert any("OMIM:" in gold for gold in golds)


@pytest.fixture(scope="module")
def build(data_dir, tmp_path_factory):
    """Builds the store of an ontology file, once."""
    from spacy_krissel.ontology.build import build_ontology

    @cache
    def build(name):
        return build_ontology(
            data_dir / "ontologies" / name, tmp_path_factory.mktemp("ontology") / "store"
        )

    return build


@pytest.mark.data
@pytest.mark.filterwarnings("ignore::spacy_krissel.errors.KrisselWarning")
@pytest.mark.parametrize(
    "ontology, name, prefixes, n_linked, n_held",
    [
        nightly("Cellosaurus.tsv.gz", "bioid/BioID_Train_revision.PubTator", [], 4136, 4136),
        # A slim taxonomy has few of the species of S800; six mentions of Linnaeus have the id 0,
        # which is none.
        nightly(
            "taxslim_2022-10-06.obo", "species/SPECIES_Train.PubTator", ["NCBITaxon"], 3053, 2102
        ),
        ("taxslim_2022-10-06.obo", "species/Linnaeus_Train.PubTator", ["NCBITaxon"], 2321, 1940),
    ],
)
def test_cell_line_and_species_ids_resolve(
    data_dir, build, ontology, name, prefixes, n_linked, n_held
):
    store = build(ontology)
    report = CorpusReport()
    docs = read_docs(
        data_dir / "corpora" / name,
        spacy.blank("en"),
        ontology=store,
        prefixes=prefixes,
        report=report,
    )
    golds = [split_ids(ent.kb_id_) for doc in docs for ent in doc.ents]
    assert sum(map(bool, golds)) == n_linked and report["unknown_ids"] == n_linked - n_held
    assert sum(any(store.resolve(concept) for concept in gold) for gold in golds) == n_held


KNEE = "Gout. Pain and swelling in knee"
KNEE_ANN = (
    "T1\tFinding 0 4\tGout\nN1\tReference T1 OMIM:7\tx\nT2\tFinding 6 10;27 31\tPain knee\n"
    "N2\tReference T2 X:1\tx\n"
)
KNEE_XML = (
    '<?xml version="1.0"?><annotations textSource="7.txt"><annotation><mention id="m"/><span '
    'start="6" end="10"/><span start="27" end="31"/><spannedText>Pain ... '
    'knee</spannedText></annotation><classMention id="m"><mentionClass '
    'id="CL:1"/></classMention></annotations>'
)


@pytest.fixture
def knee(tmp_path):
    folder = tmp_path / "knee"
    folder.mkdir()
    (folder / "7.txt").write_text(KNEE)
    (folder / "7.ann").write_text(KNEE_ANN)
    return folder


@pytest.mark.filterwarnings("ignore::spacy_krissel.errors.KrisselWarning")
def test_ids_of_discontinuous_mentions_are_rewritten(knee, tmp_path):
    output = tmp_path / "gold.spacy"
    settings = {"ontology": KnownIds(), "unknown_as_nil": True, "text_labels": True}
    report = convert(knee, output, **settings)
    (doc,) = load(output)
    assert [mention.kb_id for mention in gold_mentions(doc)] == ["7", "NIL"] and doc.cats == {
        "7": 1.0
    }
    assert (report["unknown_as_nil"], report["disjoint"], report["text_labels"]) == (1, 1, 1)
    convert(knee, output, labels=["Finding"], force=True)
    (doc,) = load(output)
    assert [mention.kb_id for mention in gold_mentions(doc)] == ["OMIM:7", "X:1"] and doc.cats == {}
    report = convert(knee, output, types=["T017"], force=True)
    assert (report["other_types"], report["disjoint"]) == (2, 0)


def test_sentences_become_docs_with_their_own_labels(knee, tmp_path):
    output = tmp_path / "gold.spacy"
    report = convert(knee, output, sentences=True, text_labels=True, force=True)
    docs = load(output)
    assert [(doc.user_data["krissel_id"], doc.text, doc.cats) for doc in docs] == [
        ("7:1", "Gout.", {"OMIM:7": 1.0}),
        ("7:2", "Pain and swelling in knee", {"X:1": 1.0}),
    ]
    assert [mention.fragments for mention in gold_mentions(docs[1])] == [((0, 1), (4, 5))]
    assert (report["documents"], report["sentences"], report["text_labels"]) == (1, 2, 2)


@pytest.mark.filterwarnings("ignore::spacy_krissel.errors.KrisselWarning")
def test_sentences_of_a_document_stay_in_the_same_part(tmp_path):
    path = tmp_path / "gold.txt"
    path.write_text(
        "\n".join(f"{i}|t|Gout. Gout.\n{i}\t0\t4\tGout\tDisease\tD1\n" for i in range(30))
    )
    parts = []
    for split in ("train", "dev"):
        convert(
            path, tmp_path / "gold.spacy", sentences=True, split=split, dev_share=0.5, force=True
        )
        parts.append(
            {doc.user_data["krissel_id"].partition(":")[0] for doc in load(tmp_path / "gold.spacy")}
        )
    assert all(parts) and not parts[0] & parts[1] and len(parts[0] | parts[1]) == 30


def test_standoff_formats_are_detected(knee):
    assert detect_format(knee) == detect_format(knee / "7.ann") == "brat"
    (knee / "7.txt.knowtator.xml").write_text(KNEE_XML)
    assert detect_format(knee / "7.txt.knowtator.xml") == "knowtator"
    with pytest.raises(KrisselError, match=r"K228.*\.knowtator\.xml and \.ann\."):
        detect_format(knee)
    (knee / "7.ann").unlink()
    assert detect_format(knee) == "knowtator"
    (knee / "7.txt.knowtator.xml").unlink()
    with pytest.raises(KrisselError, match="K228.*none"):
        detect_format(knee)


def test_texts_can_be_in_another_folder(knee, tmp_path):
    (tmp_path / "texts").mkdir()
    (knee / "7.txt").rename(tmp_path / "texts" / "7.txt")
    assert convert(knee, tmp_path / "gold.spacy", documents=tmp_path / "texts")["disjoint"] == 1
    with pytest.raises(KrisselError, match="K226"):
        convert(knee, tmp_path / "gold.spacy", force=True)

"""knowtator XML beside its texts, in folders and archives."""

import io
import os
import tarfile
import zipfile
from pathlib import Path
from xml.etree import ElementTree

import pytest
import spacy
from spacy.tokens import DocBin
from tiers import nightly

from spacy_krissel.corpora.annotation import Mention
from spacy_krissel.corpora.convert import convert
from spacy_krissel.corpora.readers import detect_format
from spacy_krissel.corpora.readers.knowtator import read_knowtator
from spacy_krissel.corpora.report import CorpusReport
from spacy_krissel.errors import KrisselError
from spacy_krissel.mentions.gold_mentions import gold_mentions

TEXT = "Pain and swelling in knee."
PAIN = ("m1", ((0, 4), (21, 25)), "Pain ... knee", "CL:1")
SWELLING = ("m2", ((9, 25),), "swelling in knee", "UBERON:2")


def annotation(mention, spans, text):
    places = "".join(f'<span start="{start}" end="{end}" />\n' for start, end in spans)
    stated = f"<spannedText>{text}</spannedText>" if text else ""
    return (
        f'<annotation>\n<mention id="{mention}" />\n'
        f'<annotator id="a">A. B.</annotator>{places}{stated}</annotation>\n'
    )


def knowtator(*annotations, text="7.txt", more=""):
    body = "".join(annotation(*each[:3]) for each in annotations)
    classes = "".join(
        f'<classMention id="{mention}"><mentionClass id="{name}">x</mentionClass></classMention>\n'
        for mention, _, _, name in annotations
        if name
    )
    return (
        f'<?xml version="1.0"?>\n<annotations textSource="{text}">\n'
        f"{body}{more}{classes}</annotations>\n"
    )


CRAFT = {
    "craft/README.md": "Read me",
    "craft/articles/txt/7.txt": TEXT,
    "craft/articles/txt/8.txt": "Cells",
    "craft/concept-annotation/CL/CL/knowtator/7.txt.knowtator.xml": knowtator(PAIN),
    "craft/concept-annotation/CL/CL/knowtator/8.txt.knowtator.xml": knowtator(
        ("m1", ((0, 5),), "Cells", "CL:0000000"), text="8.txt"
    ),
    "craft/concept-annotation/UBERON/UBERON/knowtator/7.txt.knowtator.xml": knowtator(SWELLING),
}


def write_folder(tmp_path, files):
    for name, content in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf8")
    return tmp_path


def write_archive(path, files):
    with tarfile.open(path, "w:gz") as archive:
        for name, content in files.items():
            raw = content.encode("utf8")
            member = tarfile.TarInfo(name)
            member.size = len(raw)
            archive.addfile(member, io.BytesIO(raw))
    return path


def read(path, **settings):
    report = CorpusReport()
    return list(read_knowtator(path, report=report, **settings)), report


@pytest.mark.parametrize("kind", ["folder", "archive", "texts behind annotations"])
def test_each_text_has_the_annotations_of_all_files(tmp_path, kind):
    files = CRAFT if kind != "texts behind annotations" else dict(reversed(CRAFT.items()))
    path = (
        write_folder(tmp_path, files)
        if kind == "folder"
        else write_archive(tmp_path / "craft.tar.gz", files)
    )
    (first, second), report = read(path)
    assert (first.id, first.text, second.id, second.text) == ("7", TEXT, "8", "Cells")
    assert [
        (mention.fragments, mention.text, mention.label, mention.kb_id)
        for mention in first.mentions
    ] == [
        (((0, 4), (21, 25)), "Pain ... knee", "CL", "CL:1"),
        (((9, 25),), "swelling in knee", "UBERON", "UBERON:2"),
    ]
    # Of a mention in a second file the place is that file's.
    assert first.file_of(first.mentions[1]).endswith("UBERON/knowtator/7.txt.knowtator.xml")
    assert first.mentions[0].line == 3 and report.to_dict()["counts"] == {}


@pytest.mark.parametrize(
    "annotations, text",
    [
        ("a/7.knowtator.xml", "a/7.txt"),
        ("saved/7.txt.knowtator.xml", "corpus/7.txt"),
        ("a.xml", "articles/txt/7.txt"),
    ],
)
def test_an_annotation_file_finds_its_text(tmp_path, annotations, text, monkeypatch):
    write_folder(tmp_path, {annotations: knowtator(SWELLING, text=r"C:\data\7.txt"), text: TEXT})
    path = tmp_path / annotations
    monkeypatch.chdir(path.parent)
    for given in (path, path.name):
        (found,), _ = read(given)
        assert (found.id, found.text) == ("7", TEXT)
        assert found.mentions == [
            Mention(((9, 25),), "swelling in knee", "UBERON", "UBERON:2", 3, source=str(given)),
        ]


def test_texts_are_read_from_the_given_folder(tmp_path):
    files = {"a/7.txt.knowtator.xml": knowtator(SWELLING), "b/7.txt": TEXT, "a/7.txt": "Another"}
    write_folder(tmp_path, files)
    assert read(tmp_path / "a", documents=tmp_path / "b")[0][0].text == TEXT
    assert read(write_archive(tmp_path / "a.tgz", files), documents="b")[0][0].text == TEXT


def test_bad_records_are_counted(tmp_path):
    bad = [
        ("m3", (), "swelling", "CL:1"),
        ("m4", (("nine", 25),), "swelling", "CL:1"),
        ("m5", ((9, 25),), "swelling in knee", ""),
        ("m6", ((9, 25), (0, "")), "swelling in knee Pain", "CL:1"),
    ]
    content = knowtator(PAIN, *bad, ("m7", ((0, 4), (21, 25)), "", "Finding"))
    write_folder(tmp_path, {"7.txt.knowtator.xml": content, "7.txt": TEXT})
    (text,), report = read(tmp_path)
    assert [(mention.text, mention.label, mention.kb_id) for mention in text.mentions] == [
        ("Pain ... knee", "CL", "CL:1"),
        # No text is stated, and the class is no id.
        ("Pain knee", "Finding", ""),
    ]
    assert report.to_dict()["counts"] == {"bad_records": 4}
    assert "7.txt.knowtator.xml, line" in report.examples["bad_records"][0]


def test_a_missing_text_raises(tmp_path):
    write_folder(tmp_path, {"a/7.txt.knowtator.xml": knowtator(PAIN)})
    with pytest.raises(
        KrisselError, match=r"K226\].*7\.txt\.knowtator\.xml.*'7\.txt'.*articles/txt"
    ):
        read(tmp_path)
    archive = write_archive(tmp_path / "a.tar.gz", {"a/7.txt.knowtator.xml": knowtator(PAIN)})
    with pytest.raises(KrisselError, match=r"K226\].*a\.tar\.gz!a/7\.txt\.knowtator\.xml"):
        read(archive)


def test_a_too_long_text_name_raises_a_coded_error(tmp_path):
    write_folder(tmp_path, {"a/7.txt.knowtator.xml": knowtator(PAIN, text="7" * 5000)})
    with pytest.raises(KrisselError, match="K226"):
        read(tmp_path)


def test_texts_are_never_searched_outside_the_folder(tmp_path):
    """The source that a file names is a name, and no path."""
    write_folder(
        tmp_path,
        {"a/b/7.txt.knowtator.xml": knowtator(PAIN, text="../../secret.txt"), "secret.txt": "x"},
    )
    with pytest.raises(KrisselError, match="K226.*'secret.txt'"):
        read(tmp_path / "a")


@pytest.mark.parametrize(
    "content, code",
    [
        (knowtator(PAIN)[:150], "K007.*knowtator XML.*</annotations>"),
        ("<collection/>", "K008.*<collection>.*<annotations>"),
        ("<!DOCTYPE c [<!ENTITY a 'aaaa'>]><annotations>&a;</annotations>", "K009"),
    ],
)
def test_other_xml_raises_a_coded_error(tmp_path, content, code):
    write_folder(tmp_path, {"7.txt.knowtator.xml": content, "7.txt": TEXT})
    with pytest.raises(KrisselError, match=code):
        read(tmp_path)


def test_inputs_without_annotations_raise(tmp_path):
    (tmp_path / "7.txt").write_text(TEXT)
    for path in (
        tmp_path,
        tmp_path / "missing",
        write_archive(tmp_path / "a.tar.gz", {"7.txt": TEXT}),
    ):
        with pytest.raises(KrisselError, match="K201"):
            read(path)


def test_every_truncation_of_an_archive_raises_a_coded_error(tmp_path):
    whole = write_archive(tmp_path / "b.tar.gz", CRAFT).read_bytes()
    for length in range(20, len(whole) - 1, 23):
        (tmp_path / "b.tar.gz").write_bytes(whole[:length])
        for function in (read, detect_format):
            with pytest.raises(KrisselError, match=r"K211.*b\.tar\.gz"):
                function(tmp_path / "b.tar.gz")


def test_a_text_that_is_not_utf8_raises(tmp_path):
    write_folder(tmp_path, {"7.txt.knowtator.xml": knowtator(PAIN)})
    (tmp_path / "7.txt").write_bytes(b"Pain\n\xe9")
    with pytest.raises(KrisselError, match=r"K203.*7\.txt.*line 2.*0xe9"):
        read(tmp_path)


CRAFT_FILE = Path("corpora", "craft", "craft-67-articles.tar.gz")


@pytest.mark.data
@pytest.mark.filterwarnings("ignore::spacy_krissel.errors.KrisselWarning")
@pytest.mark.parametrize(
    "ontology, counted", [("CL", (3896, 259)), nightly("UBERON", (12276, 234))]
)
def test_craft_keeps_every_annotation_and_fragment(data_dir, tmp_path, ontology, counted):
    """Every annotation and every fragment of CRAFT is in the `.spacy` file, at its characters."""
    source, whole = data_dir / CRAFT_FILE, tmp_path / "whole.spacy"
    said, texts, settings = craft_of(source, ontology, tmp_path)
    report = convert(source, whole, **settings)
    assert report["documents"] == 67 == len(texts)
    assert (
        sum(map(len, said.values()))
        == report["mentions"]
        == report["mentions_read"] - report["other_labels"]
    )
    disjoint = [
        fragments for found in said.values() for fragments, _ in found if len(fragments) > 1
    ]
    assert (report["disjoint"], report["disjoint_fragments"]) == (
        len(disjoint),
        sum(map(len, disjoint)),
    )
    assert (report["mentions"], report["disjoint"]) == counted
    docs = load(whole)
    assert {doc.user_data["krissel_id"]: doc.text for doc in docs} == texts
    written = {doc.user_data["krissel_id"]: sorted(places_of(doc)) for doc in docs}
    assert written == {id_: sorted(found) for id_, found in said.items()}
    assert all(
        doc.cats == {kb_id: 1.0 for _, kb_id in said[doc.user_data["krissel_id"]]} for doc in docs
    )
    # Nothing was lost, joined or moved, so that no counter has a difference to explain; the OBO
    # holds every id.
    blemishes = {
        "bad_records",
        "outside_text",
        "text_mismatches",
        "text_differences",
        "duplicate_mentions",
    }
    assert not {*blemishes, "joined_fragments", "unknown_ids"} & report.to_dict()["counts"].keys()


@pytest.mark.nightly
@pytest.mark.data
@pytest.mark.filterwarnings("ignore::spacy_krissel.errors.KrisselWarning")
def test_sentences_of_craft_against_its_source(data_dir, tmp_path):
    """Told by their words. The other ontologies' annotations pass through the same lines."""
    source, sentences = data_dir / CRAFT_FILE, tmp_path / "sentences.spacy"
    said, texts, settings = craft_of(source, "CL", tmp_path)
    cut = convert(source, sentences, sentences=True, **settings)
    docs = load(sentences)
    assert len(docs) == cut["sentences"] > 20_000
    stated: dict = {id_: [] for id_ in texts}
    for doc in docs:
        stated[doc.user_data["krissel_id"].partition(":")[0]].extend(
            words_of(doc.text, places_of(doc))
        )
        assert doc.cats == {mention.kb_id: 1.0 for mention in gold_mentions(doc)}
    assert {id_: sorted(found) for id_, found in stated.items()} == {
        id_: sorted(words_of(texts[id_], found)) for id_, found in said.items()
    }


def craft_of(source, ontology, folder):
    """Annotations of CRAFT with an ontology, its texts, and the settings of `convert` for it."""
    from spacy_krissel.ontology.build import build_ontology

    said, texts = read_craft(source, ontology, folder)
    store = build_ontology(folder / f"{ontology}.obo", folder / "store")
    return said, texts, {"labels": [ontology], "ontology": store, "text_labels": True}


def read_craft(path, ontology, folder):
    """The (fragments, id) of each article's annotations, straight from the XML, and its text; the
    OBO goes to `folder`."""
    said: dict = {}
    texts: dict = {}
    with tarfile.open(path) as archive:
        for member in archive:
            name = os.path.basename(member.name)
            if f"/{ontology}/" in member.name and name.endswith(".xml"):
                root = ElementTree.parse(archive.extractfile(member)).getroot()
                classes = {
                    each.get("id"): each.find("mentionClass").get("id")
                    for each in root.iter("classMention")
                }
                said[name.partition(".")[0]] = [
                    (
                        tuple(
                            (int(span.get("start")), int(span.get("end")))
                            for span in each.iter("span")
                        ),
                        classes[each.find("mention").get("id")],
                    )
                    for each in root.iter("annotation")
                ]
            elif member.name.endswith(".txt") and "/articles/" in member.name:
                texts[name.partition(".")[0]] = archive.extractfile(member).read().decode("utf8")
            elif name == f"{ontology}.obo.zip":
                zipfile.ZipFile(io.BytesIO(archive.extractfile(member).read())).extractall(folder)
    return said, texts


def load(path):
    return list(DocBin().from_disk(path).get_docs(spacy.blank("en").vocab))


def places_of(doc):
    """The (fragments, id) of a doc's mentions, in characters."""
    return [
        (
            tuple(
                (doc[start:end].start_char, doc[start:end].end_char)
                for start, end in mention.fragments
            ),
            mention.kb_id,
        )
        for mention in gold_mentions(doc)
    ]


def words_of(text, found):
    return [
        (tuple(text[start:end] for start, end in fragments), kb_id) for fragments, kb_id in found
    ]

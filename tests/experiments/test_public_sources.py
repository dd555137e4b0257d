"""The files of publishers, laid out, and the list of abstracts."""

import gzip
import hashlib
import io
import json
import tarfile
import warnings
import zipfile

import pytest
from damaged_bytes import damaged
from hypothesis import given, settings
from lab.data.abstracts import Listed, fetch_abstracts, read_list, title_hash
from lab.data.pubmed_fetch import PubMed
from lab.data.sources import check_sources, lay_out
from lab.data.vocabularies import medic_lines, mesh_tables
from project_files import ROOT
from pubmed_server import serving

from spacy_krissel.errors import KrisselError, KrisselWarning
from spacy_krissel.ontology.build import build_ontology
from spacy_krissel.ontology.readers import read_ontology

TEXT = b"1|t|A title.\n1|a|A text.\n"
LIST = ROOT / "experiments" / "sources" / "abstracts.txt.gz"


@pytest.fixture
def archive(tmp_path):
    """Writes a .zip or .tgz of files by path."""

    def write(name, files):
        path = tmp_path / name
        if path.suffix == ".zip":
            with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as zipped:
                for member, content in files.items():
                    zipped.writestr(member, content)
        else:
            with tarfile.open(path, "w:gz") as tar:
                for member, content in files.items():
                    header = tarfile.TarInfo(member)
                    header.size = len(content)
                    tar.addfile(header, io.BytesIO(content))
        return path

    return write


@pytest.mark.parametrize("name", ["a.zip", "a.tgz"])
def test_a_file_is_found_in_subfolders_of_an_archive(archive, name, tmp_path):
    files = {
        "Data/v1/dev.txt": TEXT,
        "Data/v1/mydev.txt": b"another",
        "__MACOSX/Data/v1/dev.txt": b"of the Finder",
        "__MACOSX/Data/v1/._dev.txt": b"of the Finder",
    }
    found = lay_out(archive(name, files), tmp_path / "out" / "dev.txt", member="dev.txt")
    assert (tmp_path / "out" / "dev.txt").read_bytes() == TEXT
    assert found == hashlib.md5(TEXT, usedforsecurity=False).hexdigest()


def test_a_plain_file_is_copied_or_compressed(tmp_path):
    source = tmp_path / "hp.obo"
    source.write_bytes(TEXT)
    lay_out(source, tmp_path / "copy.obo")
    lay_out(source, tmp_path / "copy.obo.gz")
    assert (
        (tmp_path / "copy.obo").read_bytes()
        == gzip.decompress((tmp_path / "copy.obo.gz").read_bytes())
        == TEXT
    )


@pytest.mark.parametrize("members", [{"a.txt": TEXT}, {"x/dev.txt": TEXT, "y/dev.txt": TEXT}])
def test_a_missing_or_ambiguous_archive_member_raises(archive, members, tmp_path):
    with pytest.raises(KrisselError, match=r"K242.*of its \d files are a 'dev.txt'"):
        lay_out(archive("a.zip", members), tmp_path / "dev.txt", member="dev.txt")
    assert not (tmp_path / "dev.txt").exists()


@pytest.mark.parametrize("name", ["a.zip", "a.tgz"])
def test_a_truncated_or_damaged_archive_raises(archive, name, tmp_path):
    path = archive(name, {"dev.txt": bytes(range(256)) * 40})
    whole = path.read_bytes()
    for data in (
        whole[: len(whole) // 2],
        whole[:60] + b"\xff\x00\xff" + whole[63:],
        b"<html>404</html>",
    ):
        path.write_bytes(data)
        with pytest.raises(KrisselError, match="K242"):
            lay_out(path, tmp_path / "dev.txt", member="dev.txt")
    assert [each.name for each in tmp_path.iterdir()] == [name]
    with pytest.raises(KrisselError, match="K242.*no such file"):
        lay_out(tmp_path / "absent.zip", tmp_path / "dev.txt")


def packed(name):
    out = io.BytesIO()
    files = {"x/dev.txt": TEXT, "y/other.txt": b"another"}
    if name.endswith(".zip"):
        with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as zipped:
            for member, content in files.items():
                zipped.writestr(member, content)
    else:
        with tarfile.open(fileobj=out, mode=f"w:{name.rpartition('.')[2]}") as tar:
            for member, content in files.items():
                header = tarfile.TarInfo(member)
                header.size = len(content)
                tar.addfile(header, io.BytesIO(content))
    return out.getvalue()


@pytest.mark.parametrize("name", ["a.zip", "a.tar.gz", "a.tar.bz2", "a.tar.xz"])
def test_any_damage_is_refused_or_harmless(name, tmp_path):
    source, output, whole = tmp_path / name, tmp_path / "dev.txt", packed(name)

    @settings(max_examples=100, deadline=None)
    @given(damaged(whole))
    def check(data):
        source.write_bytes(data)
        output.unlink(missing_ok=True)
        try:
            lay_out(source, output, member="dev.txt")
            assert output.read_bytes() == TEXT
        except KrisselError as error:
            assert error.code == "K242" and not output.exists()

    check()


def test_a_file_above_the_size_limit_raises(archive, tmp_path, monkeypatch):
    monkeypatch.setenv("KRISSEL_MAX_UNPACKED_MIB", "1")
    with pytest.raises(KrisselError, match="K055.*KRISSEL_MAX_UNPACKED_MIB"):
        lay_out(archive("a.zip", {"dev.txt": bytes(2**21)}), tmp_path / "dev.txt", member="dev.txt")
    assert [each.name for each in tmp_path.iterdir()] == ["a.zip"]


def test_another_release_raises_a_warning(tmp_path):
    (tmp_path / "a.txt").write_bytes(TEXT)
    with pytest.warns(KrisselWarning, match="KW233"):
        found = lay_out(tmp_path / "a.txt", tmp_path / "b.txt", md5="0" * 32)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        lay_out(tmp_path / "a.txt", tmp_path / "b.txt", md5=found)


def test_krissel_data_is_checked_for_missing_files(tmp_path, monkeypatch):
    (tmp_path / "a.txt").touch()
    monkeypatch.setenv("KRISSEL_DATA", str(tmp_path))
    assert check_sources(["a.txt"]) == check_sources(["."]) == tmp_path
    for folder, problem in (
        (None, "KRISSEL_DATA is not set"),
        ("", "KRISSEL_DATA is not set"),
        ("data", "KRISSEL_DATA is 'data', which is relative"),
        (str(tmp_path / "absent"), "which is no folder"),
        (str(tmp_path), "1 of 2 files are missing: x/b.txt"),
    ):
        if folder is None:
            monkeypatch.delenv("KRISSEL_DATA")
        else:
            monkeypatch.setenv("KRISSEL_DATA", folder)
        with pytest.raises(KrisselError, match=f"K239.*{problem}"):
            check_sources(["a.txt", "x/b.txt"])


DESCRIPTORS = """<?xml version="1.0"?>
<!DOCTYPE DescriptorRecordSet SYSTEM "https://www.nlm.nih.gov/databases/dtd/nlmdescriptorrecordset_20240101.dtd">
<DescriptorRecordSet LanguageCode = "eng">
<DescriptorRecord DescriptorClass = "1"><DescriptorUI>D000001</DescriptorUI>
<DescriptorName><String>Calcimycin</String></DescriptorName>
<TreeNumberList><TreeNumber>D03.633.100.221.173</TreeNumber><TreeNumber>C01.1</TreeNumber></TreeNumberList>
<ConceptList><Concept PreferredConceptYN="Y"><ConceptUI>M0000001</ConceptUI><ConceptName><String>Calcimycin</String>
</ConceptName><ScopeNote>An ionophorous antibiotic.</ScopeNote><TermList>
<Term RecordPreferredTermYN="Y"><TermUI>T000002</TermUI><String>Calcimycin</String></Term></TermList></Concept>
<Concept PreferredConceptYN="N"><ConceptUI>M0353609</ConceptUI><ConceptName><String>A-23187</String></ConceptName>
<TermList><Term RecordPreferredTermYN="N"><TermUI>T000001</TermUI><String>A-23187</String></Term>
<Term RecordPreferredTermYN="N"><TermUI>T000001</TermUI><String>A 23187</String></Term></TermList></Concept>
</ConceptList></DescriptorRecord>
<DescriptorRecord DescriptorClass = "3"><DescriptorUI>D005260</DescriptorUI>
<DescriptorName><String>Female &amp; &#233;</String></DescriptorName><ConceptList><Concept PreferredConceptYN="Y">
<ConceptUI>M1</ConceptUI><ConceptName><String>Female &amp; &#233;</String></ConceptName><TermList>
<Term RecordPreferredTermYN="Y"><TermUI>T2</TermUI><String>Female &amp; &#233;</String></Term></TermList></Concept>
</ConceptList></DescriptorRecord></DescriptorRecordSet>
"""  # noqa: E501


def test_mesh_tables_hold_the_entities_of_its_xml(tmp_path):
    source, terms, trees = (
        tmp_path / "desc2024.gz",
        tmp_path / "terms.tsv.gz",
        tmp_path / "trees.tsv.gz",
    )
    source.write_bytes(gzip.compress(DESCRIPTORS.encode()))
    assert mesh_tables(source, terms, trees) == (2, 4, 2)
    of_xml = build_ontology(source, tmp_path / "xml")
    of_tables = build_ontology(terms, tmp_path / "tables", enrich_from=[trees])
    assert [each.id for each in of_tables] == ["D000001", "D005260"]
    for first, second in zip(of_tables, of_xml, strict=True):
        for name in ("id", "name", "aliases", "tree_numbers", "types", "source"):
            assert getattr(first, name) == getattr(second, name), name
        assert first.definition == ""


CTD = """# Report created: Fri Jul 06 2012
# Fields:
# DiseaseName\tDiseaseID\tAltDiseaseIDs\tDefinition\tParentIDs\tTreeNumbers\tParentTreeNumbers\tSynonyms
#
Diseases\tMESH:C\t\t\t\tC\t\t
Porphyria, Erythropoietic\tMESH:D017092\tOMIM:263700\tText.\tMESH:C\tC06\tC\tCEP|G&apos;s disease
Skin cancer\tOMIM:145250\tMESH:D9|OMIM:1\t\t\t\t\t
"""  # noqa: E501


def test_medic_lines_agree_with_the_ctd_table(tmp_path):
    source, output = tmp_path / "CTD_diseases.tsv", tmp_path / "medic.txt"
    source.write_text(CTD)
    assert medic_lines(source, output) == 3
    assert output.read_text() == (
        "C||Diseases\nD017092|263700||Porphyria, Erythropoietic|CEP|G&apos;s disease\n"
        "145250|D9|1||Skin cancer\n"
    )
    entities = {entity.id: entity for entity in read_ontology(output)}
    assert entities["145250"].alt_ids == ("OMIM:145250", "D9", "1", "OMIM:1")
    assert entities["D017092"].aliases == ("CEP", "G's disease")


@pytest.mark.parametrize(
    "text, code", [("a\tb\n", "K238"), ("a\tC1\t\t\t\t\t\t\n", "K238"), ("# DiseaseName\n", "K204")]
)
def test_a_table_that_is_not_ctds_raises(tmp_path, text, code):
    (tmp_path / "a.tsv").write_text(text)
    with pytest.raises(KrisselError, match=code):
        medic_lines(tmp_path / "a.tsv", tmp_path / "medic.txt")
    assert not (tmp_path / "medic.txt").exists()


TABLE = """ID\tAuthor\tTitle\tAbstract\tUrl
1\tA.\t"Of rats  and Mice"\tThey ran.\thttp
2\tB.\tOf cats\t\t
3\tC.\tOf dogs\tThey sat.\t
"""


@pytest.fixture
def lists(tmp_path):
    titles = {
        f"r-{name}": title_hash(title)
        for name, title in (("rats", "of Rats and mice."), ("cats", "Of cats"))
    }
    path = tmp_path / "list.txt.gz"
    lines = [
        "# a list",
        f"r-rats\t{titles['r-rats']}",
        "12",
        f"r-cats\t{titles['r-cats']}",
        "11",
        "13",
    ]
    path.write_bytes(gzip.compress("\n".join(lines).encode()))
    (tmp_path / "table.txt").write_text(TABLE)
    return path


def test_abstracts_are_in_list_order_and_missing_ones_raise_a_warning(lists, tmp_path, monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with serving() as server:
        server.articles = {"11": ("T11.", "A11."), "12": ("T12.", "A12.")}
        pubmed = PubMed(tmp_path / "kept", server.address, pause=lambda seconds: None)
        output = tmp_path / "out" / "abstracts.jsonl.gz"
        with pytest.warns(KrisselWarning, match=r"KW234\] 2 of 5 .*first: r-cats, 13"):
            counts = fetch_abstracts(lists, output, pubmed, table=tmp_path / "table.txt")
    assert counts == {"listed": 5, "pubmed": 2, "table": 1, "missing": 2}
    found = [
        json.loads(line) for line in gzip.decompress(output.read_bytes()).decode().splitlines()
    ]
    assert [(each["id"], each["text"]) for each in found] == [
        ("r-rats", "Of rats and Mice They ran."),
        ("12", "T12. A12."),
        ("11", "T11. A11."),
    ]
    assert (tmp_path / "out" / "abstracts.jsonl.gz.missing.txt").read_text() == "r-cats\n13\n"


@pytest.mark.parametrize("line", ["12", "x12", "PMC12"])
def test_an_invalid_list_raises(tmp_path, line):
    (tmp_path / "list.txt").write_text(f"12\n{line}\n")
    with pytest.raises(KrisselError, match=r"K240.*line 2"):
        read_list(tmp_path / "list.txt")


def test_an_unsuitable_table_of_abstracts_raises(lists, tmp_path):
    (tmp_path / "table.txt").write_text("Name\tAbstract\nx\ty\n")
    with pytest.raises(KrisselError, match="K240.*Title and Abstract"):
        fetch_abstracts(
            lists, tmp_path / "out.jsonl.gz", PubMed(tmp_path), table=tmp_path / "table.txt"
        )


def test_the_list_of_the_repository_is_complete():
    listed = read_list(LIST)
    assert len(listed) == 13_752
    assert sum(bool(each.title) for each in listed) == 1_598
    assert all(int(each.id) < 15_000_000 for each in listed if not each.title)


@pytest.mark.data
def test_the_list_matches_the_development_data(data_dir):
    with gzip.open(data_dir / "text" / "abstracts.jsonl.gz", "rt", encoding="utf8") as file_:
        records = [json.loads(line) for line in file_]
    expected = [
        Listed(each["id"], "" if each["id"].isdecimal() else title_hash(each["title"]))
        for each in records
    ]
    assert read_list(LIST) == expected

"""Vocabularies by name: what publishers serve is read, kept, verified, and continued where a
download broke off."""

import gzip
import hashlib
import io
import json
import shutil
import threading
import zipfile
from datetime import date

import pooch
import pytest
from command_line import invoke
from damaged_bytes import damaged
from hypothesis import given, settings

from spacy_krissel import KrisselError
from spacy_krissel.ontology.build import build_ontology
from spacy_krissel.ontology.readers import READERS
from spacy_krissel.ontology.vocabularies import VOCABULARIES, cache
from spacy_krissel.ontology.vocabularies.cache import RECORD, fetch, locate

from .publisher import PUBLISHED, obo, zipped

OPEN = [name for name, known in VOCABULARIES.items() if not known.command]
CLOSED = [name for name in VOCABULARIES if name not in OPEN]
# Readers that are not here yet.
UNMERGED = ("icd10cm", "owl", "snomed", "rxnorm")
LATEST = date.today().year + (date.today().month >= 10)


@pytest.mark.parametrize("name", OPEN)
def test_vocabulary_is_read_as_published(name, publisher, publish, tmp_path):
    known = VOCABULARIES[name]
    content, ids = PUBLISHED[name]
    path = publish(name, content)
    if known.checksum:
        publisher.files[path + known.checksum] = (
            f"{hashlib.md5(content).hexdigest()}  {name}.zip\n".encode()
        )
    if known.format not in READERS:
        fetch(name)
        pytest.skip(f"the format {known.format} has no reader yet")
    store = build_ontology(name, tmp_path / "store")
    assert set(ids) <= {entity.id for entity in store}
    assert all(entity.id.startswith(known.ids) for entity in store)
    (found,) = store.manifest["info"]["provenance"]
    assert found["vocabulary"] == name and found["format"] == known.format
    assert found["address"] == publisher.address.rstrip("/") + path
    assert found["licence"] and found["version"] and found["downloaded"]


def test_every_vocabulary_has_its_metadata():
    assert set(OPEN) == set(PUBLISHED) and CLOSED == ["umls", "snomed", "rxnorm", "icd10-who"]
    for name, known in VOCABULARIES.items():
        assert known.title and known.licence and known.terms.startswith("https://"), name
        assert known.address.startswith("https://") and name == name.lower(), name
        assert known.format in READERS or known.format in UNMERGED, name


@pytest.mark.parametrize("name", CLOSED)
def test_licensed_vocabulary_raises_without_a_download(name, publisher, tmp_path):
    with pytest.raises(KrisselError, match=r"K116.*https?://.*krissel ontology"):
        build_ontology(name, tmp_path / "store")
    assert not publisher.requests


def test_names_of_a_gene_table_become_aliases(publisher, publish, tmp_path):
    publish("hgnc", PUBLISHED["hgnc"][0])
    gene = build_ontology("hgnc", tmp_path / "store").get("HGNC:3")
    expected = (
        "activin A receptor like type 1",
        "HHT2",
        "ALK1",
        "HHT",
        'TGF-B "superfamily" receptor',
        "ALK-1",
    )
    assert (gene.name, gene.aliases) == ("ACVRL1", (*expected, "ACVRLK1", "ORW2"))
    assert gene.types == ("protein-coding gene",)


def test_imported_terms_are_left_out_and_options_apply(publisher, publish, tmp_path):
    publish("mondo", PUBLISHED["mondo"][0])
    store = build_ontology(
        "Mondo", tmp_path / "store", types=["Disease"], below=["MONDO:0000002"], licence="mine"
    )
    assert [(entity.id, entity.types) for entity in store] == [("MONDO:0000002", ("Disease",))]
    (found,) = store.manifest["info"]["provenance"]
    assert (found["version"], found["licence"]) == ("releases/2026-11-01", "mine")


def test_vocabulary_is_downloaded_once(publisher, publish, tmp_path, caplog, monkeypatch):
    monkeypatch.setattr(pooch.get_logger(), "handlers", [caplog.handler])
    publish("hpo", PUBLISHED["hpo"][0])
    path, record = fetch("hpo")
    # Before the download.
    assert (
        "HPO's licence" in caplog.messages[0]
        and "https://hpo.jax.org/license" in caplog.messages[0]
    )
    assert (
        path == tmp_path / "cache" / "hpo" / "hp.obo" and path.read_bytes() == PUBLISHED["hpo"][0]
    )
    assert fetch("hpo") == (path, record) and len(publisher.requests) == 1
    kept = json.loads(path.with_name(RECORD).read_text())
    assert kept == record and kept["licence"].startswith("HPO's licence") and kept["etag"]
    assert kept["modified"] == publisher.modified
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    assert (
        kept["download"]
        == kept["files"]["hp.obo"]
        == {"bytes": path.stat().st_size, "sha256": digest}
    )
    # Nothing else stays.
    assert sorted(each.name for each in (tmp_path / "cache").iterdir()) == ["hpo"]


def test_local_file_takes_precedence(publisher, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mondo").write_bytes(obo("MINE"))
    assert {entity.id for entity in build_ontology("mondo", tmp_path / "store")} > {
        "MINE:0000001",
        "XYZ:0000003",
    }
    assert locate("hp.obo", "auto", False).path.name == "hp.obo"
    assert not publisher.requests


def test_newest_available_release_is_downloaded(publisher, publish):
    publish("mesh", PUBLISHED["mesh"][0], LATEST - 1)
    missing = f"/nlmpubs.nlm.nih.gov/projects/mesh/MESH_FILES/xmlmesh/desc{LATEST}.gz"
    # NLM answers with a page where a year has no files yet.
    publisher.answers[missing] = 200
    assert fetch("mesh")[0].name == f"desc{LATEST - 1}.gz"
    del publisher.answers[missing]
    publish("mesh", PUBLISHED["mesh"][0], LATEST)
    assert fetch("mesh", refresh=True)[0].name == f"desc{LATEST}.gz"


def test_interrupted_download_is_resumed(publisher, publish, tmp_path):
    content = obo("CL") * 2000
    path = publish("cl", content)
    publisher.cuts = [50_000, None]
    assert fetch("cl")[0].read_bytes() == content
    (_, first), (_, second) = publisher.requests
    assert "Range" not in first and second["Range"] == "bytes=50000-"
    assert second["If-Range"].startswith('"') and second["Accept-Encoding"] == "identity"
    # A server that is busy for a moment does not lose what is there.
    publisher.cuts, publisher.refusals = [50_000, None], [None, 503]
    publisher.requests.clear()
    fetch("cl", refresh=True)
    assert [headers.get("Range") for _, headers in publisher.requests] == [
        None,
        *["bytes=50000-"] * 2,
    ]
    # By another process, a day later; and by a server that has only the date of its file.
    publisher.etags = False
    publisher.cuts = [40_000, 0, 0, 0]
    with pytest.raises(KrisselError, match="K117"):
        fetch("cl", refresh=True)
    assert (tmp_path / "cache" / "cl" / "cl-basic.obo").read_bytes() == content
    publisher.requests.clear()
    assert fetch("cl", refresh=True)[0].read_bytes() == content
    ((asked, headers),) = publisher.requests
    assert (asked, headers["Range"], headers["If-Range"]) == (
        path,
        "bytes=40000-",
        publisher.modified,
    )


@pytest.mark.parametrize("ranges", ["yes", "no", "blindly"])
@pytest.mark.parametrize("shorter", [False, True])
def test_two_releases_are_never_mixed(ranges, shorter, publisher, publish, tmp_path):
    publisher.ranges = ranges
    publish("cl", obo("CL") * 1000)
    publisher.cuts = [90_000, 0, 0, 0]
    with pytest.raises(KrisselError, match=r"K117.*CL|K117.*cl"):
        fetch("cl")
    later = obo("CL") * 10 if shorter else obo("OTHER") * 1000
    publish("cl", later)
    assert fetch("cl")[0].read_bytes() == later
    assert not list((tmp_path / "cache").glob(".*"))


def test_download_without_validators_starts_over(publisher, publish):
    publisher.etags, publisher.modified = False, ""
    publish("cl", content := obo("CL") * 1000)
    publisher.cuts = [50_000, None]
    path, record = fetch("cl")
    assert path.read_bytes() == content and not record["modified"]
    assert "version" not in locate("cl", "auto", False).stated
    assert all("Range" not in headers for _, headers in publisher.requests)


@pytest.mark.parametrize(
    "answer, said", [(404, "HTTP 404"), (403, "HTTP 403"), (503, "503"), (200, "web page")]
)
def test_refused_download_raises_and_keeps_nothing(answer, said, publisher, publish, tmp_path):
    publisher.answers[publish("medic", PUBLISHED["medic"][0])] = answer
    with pytest.raises(KrisselError, match="K117.*CTD_diseases.tsv.gz") as raised:
        fetch("medic")
    folder = tmp_path / "cache" / "medic"
    assert said in str(raised.value) and str(folder) in str(raised.value)
    assert not folder.exists() and not list((tmp_path / "cache").iterdir())
    # What was put there by hand is taken.
    folder.mkdir()
    (folder / "CTD_diseases.tsv.gz").write_bytes(PUBLISHED["medic"][0])
    store = build_ontology("medic", tmp_path / "store")
    assert len(list(store)) == 2 and (folder / RECORD).exists()
    assert store.manifest["info"]["provenance"][0]["licence"].startswith("CTD's terms")


def test_without_a_network_the_error_names_the_folder(publisher, monkeypatch, tmp_path):
    known = VOCABULARIES["ncbitaxon"]
    nowhere = "http://127.0.0.1:9/taxdmp.zip"
    monkeypatch.setitem(
        VOCABULARIES, "ncbitaxon", cache.Vocabulary(**{**vars(known), "address": nowhere})
    )
    folder = tmp_path / "cache" / "ncbitaxon"
    with pytest.raises(KrisselError, match=f"K117.*{nowhere}.*by hand.*{folder}") as caught:
        fetch("ncbitaxon")
    assert "there is no connection to 127.0.0.1. Run the command again" in str(caught.value)
    assert "object at" not in str(caught.value) and "Pool" not in str(caught.value)
    folder.mkdir()
    (folder / "taxdmp.zip").write_bytes(PUBLISHED["ncbitaxon"][0])
    path, record = fetch("ncbitaxon")
    assert sorted(each.name for each in folder.iterdir()) == [
        RECORD,
        "merged.dmp",
        "names.dmp",
        "nodes.dmp",
    ]
    assert path.name == "names.dmp" and fetch("ncbitaxon") == (path, record)


def archived(method=zipfile.ZIP_DEFLATED, **members):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        for name, content in (members or {"names.dmp": "1\t|\troot\t|\n" * 100}).items():
            archive.writestr(name, content)
    return buffer.getvalue()


def damaged_inside(data):
    """An archive whose list of files is whole, and whose data is not."""
    start = 30 + len("names.dmp")
    return data[:start] + b"\xff" * 8 + data[start + 8 :]


def encrypted(data):
    place = data.find(b"PK\1\2") + 8
    return data[:place] + b"\1" + data[place + 1 :]


def publish_archive(content, publisher, publish):
    path = publish("ncbitaxon", content)
    publisher.files[f"{path}.md5"] = hashlib.md5(content).hexdigest().encode()


@pytest.mark.parametrize(
    "content",
    [
        zipped(other_txt="x"),
        PUBLISHED["ncbitaxon"][0][:-200],
        b"no archive",
        damaged_inside(archived()),
        damaged_inside(archived(zipfile.ZIP_LZMA)),
        archived(zipfile.ZIP_BZIP2),
        encrypted(archived()),
        archived(**{"a/names.dmp": "1", "b/names.dmp": "2"}),
    ],
)
def test_invalid_archive_is_not_kept(content, publisher, publish, tmp_path):
    publish_archive(content, publisher, publish)
    with pytest.raises(KrisselError, match="K117"):
        fetch("ncbitaxon")
    assert not list((tmp_path / "cache").iterdir())


@pytest.mark.parametrize(
    "content",
    [PUBLISHED["medic"][0][:-9], gzip.compress(b"1", mtime=0)[:-5] + b"12345", b"no gzip"],
)
def test_invalid_gzip_file_is_not_kept(content, publisher, publish, tmp_path):
    publish("medic", content)
    with pytest.raises(KrisselError, match="K117.*is damaged"):
        fetch("medic")
    assert not list((tmp_path / "cache").iterdir())


@pytest.mark.parametrize("states", ["the truth", "a lie"])
def test_archive_beyond_the_limit_is_refused(states, publisher, publish, tmp_path, monkeypatch):
    monkeypatch.setenv("KRISSEL_MAX_UNPACKED_MIB", "1")
    content = archived(**{"names.dmp": "1\t|\troot\t|\n", "nodes.dmp": "x" * 2**21})
    if states == "a lie":
        size = (2**21).to_bytes(4, "little")
        assert content.count(size) == 2
        content = content.replace(size, b"\1\0\0\0")
    publish_archive(content, publisher, publish)
    code = "K055.*KRISSEL_MAX_UNPACKED_MIB" if states == "the truth" else "K117.*CRC"
    written = []
    monkeypatch.setattr(
        cache.UNPACKED.__class__, "check", noted(cache.UNPACKED.__class__.check, written)
    )
    with pytest.raises(KrisselError, match=code):
        fetch("ncbitaxon")
    assert not list((tmp_path / "cache").iterdir())
    assert max(written) <= 2**20 + cache.CHUNK


def noted(check, sizes):
    def check_and_note(limit, found, path, place):
        sizes.append(found)
        check(limit, found, path, place)

    return check_and_note


def test_members_stay_in_the_folder_of_the_vocabulary(publisher, publish, tmp_path):
    names = {"../../names.dmp": "1\t|\troot\t|\n", "/nodes.dmp": "2", "a/b/merged.dmp": "3"}
    publish_archive(archived(**names), publisher, publish)
    _path, record = fetch("ncbitaxon")
    assert set(record["files"]) == {"names.dmp", "nodes.dmp", "merged.dmp"}
    assert sorted(each.name for each in (tmp_path / "cache").iterdir()) == ["ncbitaxon"]


@pytest.mark.parametrize("name", ["ncbitaxon", "medic"])
def test_any_damage_is_refused_or_harmless(name, publisher, tmp_path):
    """Files put there by hand: no checksum of a publisher is compared."""
    content = PUBLISHED[name][0]
    file_ = (
        tmp_path
        / "cache"
        / name
        / {"ncbitaxon": "taxdmp.zip", "medic": "CTD_diseases.tsv.gz"}[name]
    )

    def read(data):
        shutil.rmtree(file_.parent, ignore_errors=True)
        file_.parent.mkdir(parents=True)
        file_.write_bytes(data)
        path, record = fetch(name)
        unpacked = gzip.decompress(path.read_bytes()) if name == "medic" else path.read_bytes()
        return unpacked, name == "medic" or record["files"]

    whole = read(content)

    @settings(max_examples=150, deadline=None)
    @given(damaged(content))
    def check(damaged_data):
        try:
            assert read(damaged_data) == whole
        except KrisselError as error:
            assert error.code == "K117" and [each.name for each in file_.parent.iterdir()] == [
                file_.name
            ]

    check()


@pytest.mark.parametrize("checksum", [b"0" * 32 + b"  taxdmp.zip", b"none", b"", None])
def test_wrong_checksum_raises(checksum, publisher, publish, tmp_path):
    path = publish("ncbitaxon", PUBLISHED["ncbitaxon"][0])
    if checksum is not None:
        publisher.files[f"{path}.md5"] = checksum
    with pytest.raises(KrisselError, match="K117.*(checksum|404)"):
        fetch("ncbitaxon")
    assert not list((tmp_path / "cache").iterdir())


def test_damaged_cache_is_downloaded_again(publisher, publish):
    publish("go", PUBLISHED["go"][0])
    path, _ = fetch("go")
    for damage in (
        lambda: path.write_bytes(path.read_bytes()[:-10]),
        lambda: path.unlink(),
        lambda: path.with_name(RECORD).write_text("{"),
        lambda: path.with_name(RECORD).write_text('{"files": {}, "read": "x"}'),
    ):
        damage()
        assert fetch("go")[0].read_bytes() == PUBLISHED["go"][0]
    assert len(publisher.requests) == 5
    # The damaged file is not taken in the place of one that was put there by hand.
    path.write_bytes(b"damaged")
    publisher.files.clear()
    with pytest.raises(KrisselError, match="K117.*without a download.json"):
        fetch("go")
    assert path.read_bytes() == b"damaged"


def test_concurrent_builds_download_once(publisher, publish):
    publish("uberon", PUBLISHED["uberon"][0] * 5000)
    paths = []
    threads = [threading.Thread(target=lambda: paths.append(fetch("uberon")[0])) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(paths) == 4 and len(set(paths)) == 1 and len(publisher.requests) == 1


def test_download_of_another_process_is_awaited(publisher, publish, tmp_path, monkeypatch):
    publish("uberon", PUBLISHED["uberon"][0])
    lock = cache.FolderLock(tmp_path / "cache" / ".uberon.download")
    monkeypatch.setattr(cache.time, "sleep", lambda seconds: lock.release())
    assert fetch("uberon")[0].exists()


def test_build_downloads_a_vocabulary_once_and_records_it(publisher, publish, tmp_path):
    from spacy_krissel import build

    names = ("gout", "rickets", "common cold", "asthma")
    terms = "".join(f"\n[Term]\nid: HP:{n}\nname: {name}\n" for n, name in enumerate(names))
    publish("hpo", f"format-version: 1.2\n{terms}".encode())
    built = build("hpo", tmp_path / "linker")
    assert built.n_entities == 4 and len(publisher.requests) == 1
    linker = built.nlp.get_pipe("krissel_linker")
    assert linker.kb.ontology[0]["vocabulary"] == "hpo"


def test_vocabularies_combine_and_enrich_by_name(publisher, publish, tmp_path):
    publish("hpo", PUBLISHED["hpo"][0])
    publish("medic", PUBLISHED["medic"][0])
    store = build_ontology(["hpo", "medic"], tmp_path / "store", enrich_from=["medic"])
    assert {"HP:0000001", "MESH:D006073"} < {entity.id for entity in store}
    assert [each["vocabulary"] for each in store.manifest["info"]["provenance"]] == ["hpo", "medic"]


def test_invalid_date_is_ignored(publisher, publish):
    publisher.modified = "Wed, 99 Feb 2026 08:00:00 GMT"
    publish("cl", obo("CL"))
    assert "version" not in locate("cl", "auto", False).stated


def test_compressed_download_is_kept_as_sent(publisher, publish):
    publish("chebi", content := gzip.compress(obo("CHEBI")))
    assert fetch("chebi")[0].read_bytes() == content


def test_command_lists_and_downloads(publisher, publish, tmp_path):
    publish("hpo", PUBLISHED["hpo"][0])
    publish("mondo", PUBLISHED["mondo"][0])
    folder = tmp_path / "cache" / "doid"
    folder.mkdir(parents=True)
    (folder / "doid.obo").write_bytes(PUBLISHED["doid"][0])
    fetch("doid")
    said = invoke("vocabularies").output
    assert "by hand " in said and "put there" not in said
    assert (
        all(name in said for name in VOCABULARIES)
        and str(tmp_path / "cache") in said
        and not publisher.requests
    )
    today = f"{date.today().year}-"
    assert today not in said
    said = invoke("vocabularies", "--download", "HPO", "--download", "mondo").output
    assert said.count(today) == 2 and "doid" not in said
    assert len(publisher.requests) == 2
    assert invoke("ontology", "mondo", "--output", tmp_path / "store").exit_code == 0
    assert len(publisher.requests) == 2
    invoke("vocabularies", "--download", "hpo")
    assert len(publisher.requests) == 3
    for asked, code in (("mando", "K006"), ("umls", "K116")):
        refused = invoke("vocabularies", "--download", asked)
        assert refused.exit_code == 1 and code in refused.output
    assert (
        "krissel vocabularies" in invoke("ontology", "mando", "--output", tmp_path / "other").output
    )

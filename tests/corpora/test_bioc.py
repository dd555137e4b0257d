import gzip
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_krissel.corpora.annotation import Mention, covered_text
from spacy_krissel.corpora.readers.bioc import read_bioc
from spacy_krissel.corpora.report import CorpusReport
from spacy_krissel.errors import KrisselError, KrisselWarning

HEAD = "<?xml version='1.0' encoding='UTF-8'?><!DOCTYPE collection SYSTEM 'BioC.dtd'>\n"


def annotation(start, length, text, kb_id="D1", extra="", more=""):
    return (
        "<annotation id='0'><infon key='type'>Disease</infon><infon "
        f"key='MESH'>{kb_id}</infon>{extra}<location offset='{start}' "
        f"length='{length}'/>{more}<text>{text}</text></annotation>\n"
    )


def passage(offset, text, *annotations):
    head = f"<passage><infon key='type'>p</infon><offset>{offset}</offset><text>{text}</text>"
    return f"{head}{''.join(annotations)}</passage>\n"


def collection(*documents):
    body = "".join(
        f"<document><id>{i}</id>\n{passages}</document>\n"
        for i, passages in enumerate(documents, 1)
    )
    return f"{HEAD}<collection><source>x</source>\n{body}</collection>"


def read(tmp_path, content, report=None):
    path = tmp_path / "a.xml"
    path.write_bytes(content if isinstance(content, bytes) else content.encode("utf8"))
    return list(read_bioc(path, report=CorpusReport() if report is None else report))


def test_passages_are_put_at_their_offsets(tmp_path):
    passages = passage(0, "A &lt; cold.", annotation(4, 4, "cold", " D1|D2 ")) + passage(
        11, "Renal colic", annotation(11, 11, "Renal colic", "-1")
    )
    first, second = read(tmp_path, collection(passages, passage(0, "Empty")))
    assert first.id == "1" and first.text == "A < cold.  Renal colic"
    assert first.mentions == [
        Mention(((4, 8),), "cold", "Disease", "D1|D2", 4),
        Mention(((11, 22),), "Renal colic", "Disease", "-1", 6),
    ]
    assert second.text == "Empty" and second.mentions == []


def test_sentences_with_their_own_offsets_are_joined(tmp_path):
    passages = (
        "<passage><offset>0</offset><sentence><offset>0</offset><text>One.</text>"
        "</sentence><sentence><offset>5</offset><text>Two "
        f"gout.</text>{annotation(9, 4, 'gout')}</sentence></passage>"
    )
    (text,) = read(tmp_path, collection(passages))
    assert text.text == "One. Two gout."
    assert covered_text(text.text, text.mentions[0].fragments) == "gout"


@pytest.mark.parametrize("offset", [10_000_000, 3])
def test_passages_with_implausible_offsets_follow_after_one_space(tmp_path, offset):
    passages = passage(0, "Title") + passage(offset, "of gout", annotation(offset + 3, 4, "gout"))
    (text,) = read(tmp_path, collection(passages))
    assert text.text == "Title of gout"
    mention = text.mentions[0]
    assert offset == 3 or covered_text(text.text, mention.fragments) == "gout"


def test_other_records_are_counted(tmp_path):
    part = annotation(0, 5, "Title", extra="<infon key='CompositeRole'>IndividualMention</infon>")
    bad = annotation("zero", 5, "Title") + "<annotation id='3'><text>Title</text></annotation>"
    relation = "<relation id='R0'><infon key='relation'>CID</infon></relation>"
    report = CorpusReport()
    (text,) = read(tmp_path, collection(passage(0, "Title", part, bad) + relation), report)
    assert text.mentions == []
    assert report["composite_parts"] == 1 and report["relations"] == 1
    assert report["bad_records"] == 2


def test_fragments_move_with_their_passage(tmp_path):
    """Each fragment is moved with the passage that it stands in."""
    apart = annotation(1, 4, "pain knee", more="<location offset='1022' length='4'/>")
    unstated = annotation(1022, 4, "", more="<location offset='1' length='4'/>")
    passages = passage(1, "pain and swelling", apart) + passage(1019, "in knee", unstated)
    (text,) = read(tmp_path, collection(passages))
    assert text.text == " pain and swelling in knee"
    assert [(mention.fragments, mention.text) for mention in text.mentions] == [
        (((1, 5), (22, 26)), "pain knee"),
        (((22, 26), (1, 5)), "knee pain"),
    ]


@pytest.mark.parametrize(
    "infons, label, kb_id",
    [
        # NLM-Gene: members of a family, an enumeration, no gene.
        (
            {"code": "222", "NCBI Gene identifier": "12458,12772", "type": "Gene"},
            "Gene",
            "12458|12772",
        ),
        ({"NCBI Gene identifier": "15900;15977", "type": "GENERIF"}, "GENERIF", "15900|15977"),
        ({"NCBI Gene identifier": "-", "type": "Gene"}, "Gene", "-"),
        ({"type": "Domain"}, "Domain", ""),
        # GNormPlus, whose tagger writes `NCBI Gene`.
        ({"type": "Gene", "Gene": "4535(Tax:9606)"}, "Gene", "4535"),
        ({"type": "FamilyName", "FamilyName": "51592,8805"}, "FamilyName", "51592|8805"),
        ({"type": "Gene", "NCBI Gene": "51592"}, "Gene", "51592"),
        ({"type": "Species", "NCBI Taxonomy": "9606"}, "Species", "9606"),
        # NLM-Chem
        (
            {"type": "Chemical", "identifier": "MESH:D014364,MESH:D000596"},
            "Chemical",
            "MESH:D014364|MESH:D000596",
        ),
        ({"type": "Chemical", "identifier": "-"}, "Chemical", "-"),
    ],
)
def test_ids_are_read_in_the_layout_of_each_corpus(tmp_path, infons, label, kb_id):
    written = "".join(f"<infon key='{key}'>{value}</infon>" for key, value in infons.items())
    mention = (
        f"<annotation id='1'>{written}<location offset='0' "
        "length='5'/><text>Title</text></annotation>"
    )
    (text,) = read(tmp_path, collection(passage(0, "Title", mention)))
    assert [(mention.label, mention.kb_id) for mention in text.mentions] == [(label, kb_id)]


@pytest.mark.filterwarnings("error")
def test_annotations_of_a_whole_document_are_counted(tmp_path):
    infons = (
        "<infon key='type'>MeSH_Indexing_Chemical</infon><infon "
        "key='identifier'>MESH:D007210</infon>"
    )
    heading = (
        f"<annotation id='MIC2'>{infons}<infon key='entry_term'>Indoleacetic "
        "Acids</infon><text/></annotation>"
    )
    report = CorpusReport()
    (text,) = read(
        tmp_path, collection(passage(0, "Title", heading, annotation(0, 5, "Title"))), report
    )
    assert len(text.mentions) == 1 and report.to_dict()["counts"] == {"document_annotations": 1}


def test_skipped_records_raise_a_warning(tmp_path):
    path = tmp_path / "a.xml"
    path.write_text(collection(passage("here", "Title", annotation("x", 5, "Title"))))
    with pytest.warns(
        KrisselWarning, match=r"KW201\] 2 record.*a\.xml, line 4 \(the offset 'here' of a passage\)"
    ):
        (text,) = read_bioc(path)
    assert text.text == "Title"


def test_every_truncation_of_a_file_raises_a_coded_error(tmp_path):
    content = collection(passage(0, "Title", annotation(0, 5, "Title"))).encode()
    for length in range(1, len(content) - 1, 7):
        with pytest.raises(KrisselError, match=r"\[K007\].*a\.xml.*line \d"):
            read(tmp_path, content[:length])


def test_truncated_gzip_raises(tmp_path):
    content = gzip.compress(
        collection(*[passage(0, f"Title {i * 7919}") for i in range(5000)]).encode()
    )
    with pytest.raises(KrisselError, match=r"\[K202\].*a\.xml.*at line [1-9]"):
        read(tmp_path, content[: len(content) // 2])
    assert len(read(tmp_path, content)) == 5000


@pytest.mark.parametrize(
    "content, code",
    [
        (b"", "K007"),
        (b"plain text", "K007"),
        (b"<html><body/></html>", "K008.*line 1.*<html>"),
        (b"<collection><source>x</source></collection>", "K204"),
        (b"<collection>\xff</collection>", "K007"),
        (
            b"<!DOCTYPE c [<!ENTITY a 'aaaa'>]><collection>&a;</collection>",
            "K009.*declares the entity 'a'",
        ),
        (
            b"<!DOCTYPE c [<!ENTITY a SYSTEM 'file:///etc/hostname'>]><collection>&a;</collection>",
            "K009",
        ),
    ],
)
def test_unreadable_files_raise_coded_errors(tmp_path, content, code):
    with pytest.raises(KrisselError, match=code):
        read(tmp_path, content)


def test_memory_does_not_grow_with_the_file(tmp_path):
    path = tmp_path / "a.xml"
    with path.open("w") as file_:
        file_.write("<collection>")
        for i in range(20_000):
            file_.write(f"<document><id>{i}</id>{passage(0, 'word ' * 60)}</document>")
        file_.write("</collection>")
    tracemalloc.start()
    n_documents = sum(1 for _ in read_bioc(path))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert n_documents == 20_000
    assert path.stat().st_size > 7_000_000 and peak < 2_000_000


@given(
    st.lists(
        st.sampled_from(
            [
                "passage",
                "sentence",
                "annotation",
                "document",
                "offset",
                "text",
                "infon",
                "id",
                "location",
            ]
        ),
        max_size=12,
    ),
    st.text(alphabet="0123456789a ", max_size=4),
)
def test_arbitrary_nesting_gives_documents_or_a_coded_error(tmp_path_factory, names, content):
    xml = "".join(f"<{name}>{content}" for name in names) + "".join(
        f"</{name}>" for name in reversed(names)
    )
    path = tmp_path_factory.mktemp("wild") / "a.xml"
    path.write_text(f"<collection>{xml}</collection>")
    try:
        list(read_bioc(path, report=CorpusReport()))
    except KrisselError as error:
        assert error.code == "K204"

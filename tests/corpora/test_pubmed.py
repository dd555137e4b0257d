import gzip

import pytest

from spacy_krissel.corpora.report import CorpusReport
from spacy_krissel.corpora.text_stream import Text, read_texts
from spacy_krissel.errors import KrisselError
from spacy_krissel.util import xml_files

HEAD = """<?xml version="1.0" encoding="utf-8"?>
<!DOCTYPE PubmedArticleSet SYSTEM "http://dtd.nlm.nih.gov/ncbi/pubmed/out/pubmed_250101.dtd">
"""
ARTICLES = """<PubmedArticleSet>
<PubmedArticle>
  <MedlineCitation Status="MEDLINE" Owner="NLM">
    <PMID Version="1">10</PMID>
    <Article>
      <Journal><Title>A journal's title</Title></Journal>
      <ArticleTitle>Loss of <i>CFTR</i>
        in mice.</ArticleTitle>
      <Abstract>
        <AbstractText Label="METHODS" NlmCategory="METHODS">At 10<sup>3</sup> &lt; x &#xe9;.</AbstractText>
        <AbstractText Label="UNLABELLED">No label.</AbstractText>
        <AbstractText Label="RESULTS"/>
        <CopyrightInformation>Copyright</CopyrightInformation>
      </Abstract>
      <AuthorList><Author><LastName>Nobody</LastName></Author></AuthorList>
      <VernacularTitle>Verlust</VernacularTitle>
    </Article>
    <CommentsCorrectionsList>
      <CommentsCorrections RefType="Cites"><PMID Version="1">99</PMID></CommentsCorrections>
    </CommentsCorrectionsList>
    <OtherAbstract Type="Publisher" Language="ger"><AbstractText>Anders.</AbstractText></OtherAbstract>
  </MedlineCitation>
  <PubmedData><ArticleIdList><ArticleId IdType="pubmed">10</ArticleId></ArticleIdList></PubmedData>
</PubmedArticle>
<PubmedArticle><MedlineCitation><PMID Version="1">11</PMID>
  <Article><ArticleTitle>Title alone.</ArticleTitle></Article></MedlineCitation></PubmedArticle>
<PubmedArticle><MedlineCitation><PMID Version="1">12</PMID>
  <Article><ArticleTitle> </ArticleTitle></Article></MedlineCitation></PubmedArticle>
<PubmedArticle><MedlineCitation><PMID Version="1">13</PMID>
  <Article><Abstract><AbstractText>Abstract alone.</AbstractText></Abstract></Article>
  </MedlineCitation></PubmedArticle>
<PubmedArticle><MedlineCitation>
  <Article><ArticleTitle>No id.</ArticleTitle></Article></MedlineCitation></PubmedArticle>
<PubmedArticle><MedlineCitation><PMID Version="2">11</PMID>
  <Article><ArticleTitle>Another version.</ArticleTitle></Article></MedlineCitation></PubmedArticle>
"""  # noqa: E501
DELETED = "<DeleteCitation><PMID Version='1'>7</PMID><PMID Version='1'>8</PMID></DeleteCitation>\n"
END = "</PubmedArticleSet>\n"


@pytest.fixture
def write(tmp_path):
    def write(content=HEAD + ARTICLES + DELETED + END, name="pubmed26n0001.xml.gz"):
        path = tmp_path / name
        path.write_bytes(
            gzip.compress(content.encode()) if name.endswith(".gz") else content.encode()
        )
        return path

    return write


@pytest.mark.parametrize("name", ["pubmed26n0001.xml.gz", "pubmed26n0001.xml"])
@pytest.mark.parametrize("chunk", [1, 7, 1 << 16])
def test_articles_are_read_with_title_and_abstract(write, name, chunk, monkeypatch):
    monkeypatch.setattr(xml_files, "CHUNK", chunk)
    path = write(name=name)
    report, deleted = CorpusReport(), []
    assert list(read_texts(path, report=report, deleted=deleted)) == [
        Text("10", "Loss of CFTR in mice. METHODS: At 103 < x é. No label.", str(path), 5),
        Text("11", "Title alone.", str(path), 27),
        Text("13", "Abstract alone.", str(path), 31),
        Text(f"{name}:34", "No id.", str(path), 34),
        Text("11", "Another version.", str(path), 36),
    ]
    assert report["texts"] == 5 and report["blank_texts"] == 1 and report["bad_records"] == 0
    assert deleted == ["7", "8"]


def test_texts_are_streamed(write):
    """They are not held: what follows them may be damaged, and is seen when it is reached."""
    path = write(HEAD + ARTICLES + "\n" * (1 << 17) + "<oh")
    texts = read_texts(path)
    assert next(texts).id == "10"
    with pytest.raises(KrisselError, match="K007"):
        list(texts)


def test_an_update_file_may_contain_deletions_only(write):
    deleted = []
    assert (
        list(read_texts(write(HEAD + "<PubmedArticleSet>" + DELETED + END), deleted=deleted)) == []
    )
    assert deleted == ["7", "8"]
    assert list(read_texts(write(HEAD + "<PubmedArticleSet>" + DELETED + END))) == []


def test_book_articles_are_read(write):
    text = "<BookDocument><PMID>5</PMID><ArticleTitle>A chapter</ArticleTitle></BookDocument>"
    path = write(f"<PubmedArticleSet><PubmedBookArticle>{text}</PubmedBookArticle>{END}")
    assert [text[:2] for text in read_texts(path)] == [("5", "A chapter")]


BOMB = '<!DOCTYPE PubmedArticleSet [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;">]>'
OTHER_FILE = '<!DOCTYPE PubmedArticleSet [<!ENTITY a SYSTEM "file:///etc/passwd">]>'
PARAMETER = '<!DOCTYPE PubmedArticleSet [<!ENTITY % a SYSTEM "http://example.org/a"> %a;]>'


@pytest.mark.parametrize(
    "content, code",
    [
        ("", "K007.*line 1"),
        ("no XML", "K007.*line 1"),
        (HEAD + ARTICLES, "K007.*no element found"),
        (HEAD + ARTICLES.replace("</Abstract>", "", 1), "K007.*line 19.*mismatched tag"),
        (HEAD + "<PubmedArticleSet>&unknown;" + END, "K007.*line 3.*&unknown;"),
        (HEAD + "<PubmedArticleSet>" + END, "K204"),
        (
            "<?xml version='1.0'?>\n<collection/>",
            "K008.*line 2, is <collection>.*<PubmedArticleSet>",
        ),
        (BOMB + ARTICLES + END, "K009.*line 1"),
        (OTHER_FILE + ARTICLES + END, "K009"),
        (PARAMETER + ARTICLES + END, "K009"),
    ],
)
def test_invalid_files_raise(write, content, code):
    with pytest.raises(
        KrisselError, match=rf"(?s)\[{code[:4]}\].*pubmed26n0001.xml.gz.*{code[4:]}"
    ):
        list(read_texts(write(content)))


def test_every_truncation_of_a_compressed_file_raises_a_coded_error(write):
    path = write()
    whole = path.read_bytes()
    for length in range(2, len(whole) - 1, 11):
        path.write_bytes(whole[:length])
        with pytest.raises(KrisselError, match=r"\[K202\].*pubmed26n0001.xml.gz"):
            list(read_texts(path))
    path.write_bytes(whole[:40] + bytes(byte ^ 255 for byte in whole[40:60]) + whole[60:])
    with pytest.raises(KrisselError, match=r"\[K(202|007)\].*pubmed26n0001.xml.gz"):
        list(read_texts(path))


def test_no_dtd_is_fetched(write, monkeypatch):
    import socket

    def refuse(*args, **kwargs):
        raise AssertionError("the network was asked")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    assert len(list(read_texts(write()))) == 5

"""Synthetic PubMed XML and gold mentions in MedMentions' format, about the concepts of
`umls_files.py`, from a seed.

Articles have the elements of NLM's baseline files. A text has words with Zipf's frequencies, and
complete names of concepts: three in ten concepts occur, with Zipf's frequencies too.
"""

import gzip
from itertools import accumulate
from pathlib import Path
from random import Random
from typing import NamedTuple
from xml.sax.saxutils import escape

# Articles in a file of NLM's baseline.
FILE_ARTICLES = 30_000
# Number of words or names of a title and of an abstract; one of this many is a name, in gold
# documents too.
TITLE, ABSTRACT, WORDS_A_NAME, WORDS_A_GOLD_NAME = 12, 190, 25, 4
SENTENCE = 20
OCCURRING = 0.3
HEAD = """<?xml version="1.0" encoding="utf-8"?>
<!DOCTYPE PubmedArticleSet PUBLIC "-//NLM//DTD PubMedArticle, 1st January 2026//EN" "pubmed_260101.dtd">
<PubmedArticleSet>
"""  # noqa: E501
ARTICLE = """<PubmedArticle><MedlineCitation Status="MEDLINE" Owner="NLM" IndexingMethod="Automated">
<PMID Version="1">{pmid}</PMID>
<DateCompleted><Year>2020</Year><Month>06</Month><Day>11</Day></DateCompleted>
<Article PubModel="Print-Electronic"><Journal><ISSN IssnType="Electronic">0000-0000</ISSN><JournalIssue
CitedMedium="Internet"><Volume>7</Volume><Issue>2</Issue><PubDate><Year>2020</Year><Month>Jun</Month></PubDate></JournalIssue>
<Title>Journal of synthetic articles</Title><ISOAbbreviation>J Synth Art</ISOAbbreviation></Journal>
<ArticleTitle>{title}</ArticleTitle><Pagination><MedlinePgn>11-19</MedlinePgn></Pagination>
<Abstract><AbstractText Label="BACKGROUND" NlmCategory="BACKGROUND">{background}</AbstractText>
<AbstractText Label="RESULTS" NlmCategory="RESULTS">{results}</AbstractText></Abstract>
<AuthorList CompleteYN="Y">{authors}</AuthorList><Language>eng</Language><PublicationTypeList><PublicationType
UI="D016428">Journal Article</PublicationType></PublicationTypeList></Article>
<MedlineJournalInfo><Country>England</Country><MedlineTA>J Synth Art</MedlineTA>
<NlmUniqueID>0000000</NlmUniqueID></MedlineJournalInfo>
<MeshHeadingList>{headings}</MeshHeadingList></MedlineCitation>
<PubmedData><History>
<PubMedPubDate PubStatus="pubmed"><Year>2020</Year><Month>6</Month><Day>2</Day></PubMedPubDate></History>
<PublicationStatus>ppublish</PublicationStatus><ArticleIdList><ArticleId IdType="pubmed">{pmid}</ArticleId>
<ArticleId IdType="doi">10.0000/j.synth.{pmid}</ArticleId></ArticleIdList></PubmedData></PubmedArticle>
"""  # noqa: E501
AUTHOR = (
    '<Author ValidYN="Y"><LastName>Nemo</LastName><ForeName>A '
    "B</ForeName><Initials>AB</Initials><AffiliationInfo><Affiliation>Department of Synthetic "
    "Medicine, University, City, Country.</Affiliation></AffiliationInfo></Author>"
)
HEADING = (
    '<MeshHeading><DescriptorName UI="D{:06}" MajorTopicYN="N">Heading '
    "{}</DescriptorName></MeshHeading>"
)


class Mention(NamedTuple):
    start: int
    end: int
    cui: str


class Texts:
    """Random texts about the concepts of `meta`, the folder of RRF files. words: the most frequent
    first."""

    def __init__(self, meta: Path, seed: int = 0) -> None:
        self._random = Random(seed)
        names: dict[str, list[str]] = {}
        with (meta / "MRCONSO.RRF").open(encoding="utf8") as rows:
            for row in rows:
                cells = row.split("|")
                if cells[1] == "ENG":
                    names.setdefault(cells[0], []).append(cells[14])
        cuis = self._random.sample(list(names), max(1, int(OCCURRING * len(names))))
        self._concepts = [(cui, list(dict.fromkeys(names[cui]))) for cui in cuis]
        self.words = list(
            dict.fromkeys(
                word for _, found in self._concepts for name in found for word in name.split()
            )
        )
        self._word_weights, self._weights = _zipf(len(self.words)), _zipf(len(self._concepts))

    def text(self, n: int, words_a_name: int) -> tuple[str, list[Mention]]:
        """Return `n` words or names, in sentences, and the mentions among them."""
        draw = self._random
        words = draw.choices(self.words, cum_weights=self._word_weights, k=n)
        concepts = draw.choices(self._concepts, cum_weights=self._weights, k=n // words_a_name)
        at = dict(zip(draw.sample(range(n), len(concepts)), concepts, strict=True))
        parts, length, mentions = [], 0, []
        for index, word in enumerate(words):
            if index in at:
                cui, names = at[index]
                word = draw.choice(names)
                mentions.append(Mention(length, length + len(word), cui))
            part = word + (". " if index % SENTENCE == SENTENCE - 1 else " ")
            parts.append(part)
            length += len(part)
        return "".join(parts).rstrip(" .") + ".", mentions


def write_pubmed(folder: Path, texts: Texts, articles: int) -> None:
    """Write files of `FILE_ARTICLES` articles."""
    folder.mkdir(parents=True)
    headings = "".join(HEADING.format(number, number) for number in range(12))
    for start in range(0, articles, FILE_ARTICLES):
        name = f"pubmed26n{start // FILE_ARTICLES + 1:04}.xml.gz"
        with gzip.open(folder / name, "wt", compresslevel=6, encoding="utf8") as file_:
            file_.write(HEAD)
            for number in range(start, min(start + FILE_ARTICLES, articles)):
                title, background, results = (
                    escape(texts.text(n, WORDS_A_NAME)[0])
                    for n in (TITLE, ABSTRACT // 2, ABSTRACT // 2)
                )
                filled = {"title": title, "background": background, "results": results}
                file_.write(
                    ARTICLE.format(pmid=number + 1, authors=4 * AUTHOR, headings=headings, **filled)
                )
            file_.write("</PubmedArticleSet>\n")


def write_gold(corpus: Path, test: Path, texts: Texts, documents: int) -> int:
    """Write `documents` documents with gold mentions, all of them test documents; RETURNS: the
    number of mentions."""
    n_mentions = 0
    with gzip.open(corpus, "wt", encoding="utf8") as file_:
        for number in range(documents):
            title = texts.text(TITLE, TITLE + 1)[0]
            text, mentions = texts.text(ABSTRACT, WORDS_A_GOLD_NAME)
            file_.write(f"{number}|t|{title}\n{number}|a|{text}\n")
            for start, end, cui in mentions:
                offset = len(title) + 1
                file_.write(
                    f"{number}\t{offset + start}\t{offset + end}\t{text[start:end]}\tT047\t{cui}\n"
                )
            file_.write("\n")
            n_mentions += len(mentions)
    test.write_text("".join(f"{number}\n" for number in range(documents)))
    return n_mentions


def _zipf(n: int) -> list[float]:
    return list(accumulate(1 / (rank + 30) for rank in range(n)))

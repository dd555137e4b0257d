import pytest
import spacy
from hypothesis import given
from hypothesis import strategies as st
from spacy.tokens import DocBin

from spacy_krissel.corpora.annotation import AnnotatedText, Mention
from spacy_krissel.corpora.docs import to_doc
from spacy_krissel.corpora.filters import distinct_texts, keep_labels
from spacy_krissel.corpora.report import CorpusReport
from spacy_krissel.errors import KrisselWarning
from spacy_krissel.mentions.discontinuous import DocMention
from spacy_krissel.mentions.gold_mentions import gold_mentions

NLP = spacy.blank("en")


def annotated(text, *mentions):
    found = [
        Mention(((start, end),), *rest, line=i) for i, (start, end, *rest) in enumerate(mentions, 3)
    ]
    return AnnotatedText("1", text, found, "a.txt", 1)


def at(text, part, label="Disease", kb_id="D1"):
    start = text.index(part)
    return start, start + len(part), part, label, kb_id


def convert(text, *mentions):
    report = CorpusReport()
    return to_doc(annotated(text, *mentions), NLP, report=report), report


def keys(spans):
    return [(span.text, span.label_, span.kb_id_) for span in spans]


def test_docs_have_ents_spans_and_an_id():
    text = "Renal colic and gout."
    doc, report = convert(
        text, at(text, "Renal colic", kb_id="D1|D2"), at(text, "gout", "Chemical", "-1")
    )
    expected = [("Renal colic", "Disease", "D1|D2"), ("gout", "Chemical", "NIL")]
    assert keys(doc.ents) == keys(doc.spans["krissel"]) == expected
    assert doc.text == text and doc.user_data["krissel_id"] == "1"
    assert [token.ent_kb_id_ for token in doc] == ["D1|D2", "D1|D2", "", "NIL", ""]
    assert (report["composite"], report["nil"], report["split_tokens"]) == (1, 1, 0)


@pytest.mark.parametrize(
    "kb_id, expected", [("-", "NIL"), ("", ""), (" D1 ", "D1"), ("D1 + D2", "D1+D2")]
)
def test_ids_are_normalized(kb_id, expected):
    doc, _ = convert("gout", (0, 4, "gout", "Disease", kb_id))
    assert doc.ents[0].kb_id_ == expected


def test_a_mention_without_label_gets_the_label_entity():
    doc, _ = convert("gout", (0, 4, "gout", "", "D1"))
    assert keys(doc.ents) == [("gout", "ENTITY", "D1")]


def test_tokens_are_split_at_mention_boundaries():
    text = "The antihypertensives don't  help."
    doc, report = convert(text, at(text, "hypertensive"), at(text, "help"))
    assert doc.text == text
    assert [token.text for token in doc] == [
        "The",
        "anti",
        "hypertensive",
        "s",
        "do",
        "n't",
        " ",
        "help",
        ".",
    ]
    assert keys(doc.ents) == [("hypertensive", "Disease", "D1"), ("help", "Disease", "D1")]
    # What the tokenizer knew about the others stays, and no false annotation appears.
    assert doc[5].norm_ == "not"
    assert not doc.has_annotation("SENT_START") and not doc.has_annotation("DEP")
    assert (report["split_tokens"], report["misfit_mentions"]) == (1, 1)


def test_overlapping_mentions_all_stay_in_spans():
    text = "acute renal failure syndrome"
    doc, report = convert(
        text,
        at(text, "renal failure", kb_id="D2"),
        at(text, "acute renal failure", kb_id="D1"),
        at(text, "renal failure", kb_id="D3"),
        at(text, "failure syndrome", kb_id="D4"),
    )
    assert [span.kb_id_ for span in doc.spans["krissel"]] == ["D1", "D2", "D3", "D4"]
    assert keys(doc.ents) == [("acute renal failure", "Disease", "D1")]
    assert (report["mentions"], report["ents"]) == (4, 1)


def test_a_repeated_mention_is_dropped_and_counted():
    text = "gout"
    doc, report = convert(text, at(text, "gout"), at(text, "gout"))
    assert len(doc.spans["krissel"]) == 1
    assert report["duplicate_mentions"] == 1 and report["mentions_read"] == 2


def test_missing_quote_marks_keep_the_offsets():
    text = 'seizures " plus " here'
    doc, report = convert(text, (0, 17, "seizures   plus  ", "Disease", "D1"))
    with pytest.warns(KrisselWarning, match=r"KW204\] 1 mention.*a\.txt, line 3.*seizures   plus"):
        report.warn()
    assert doc.ents[0].text == 'seizures " plus "'


@pytest.mark.parametrize("stated", ["Jurkat ", "gout", ""])
def test_a_mention_whose_text_differs_is_left_out(stated):
    doc, report = convert("Jurkat T cells", (0, 8, stated, "CellLine", "C1"))
    with pytest.warns(
        KrisselWarning, match=r"KW203\] 1 mention.*a\.txt, line 3.*at 0-8 is 'Jurkat T'"
    ):
        report.warn()
    assert not doc.ents and not doc.spans["krissel"]


def test_punctuation_only_mentions_must_match_exactly():
    doc, report = convert("+ - *", (0, 1, "-", "X", "D1"), (2, 3, "-", "X", "D1"))
    assert keys(doc.ents) == [("-", "X", "D1")] and report["text_mismatches"] == 1


@pytest.mark.parametrize("start, end", [(0, 99), (4, 4), (3, 1), (-2, 2), (4, 5), (7, 9)])
def test_offsets_outside_the_text_are_counted(start, end):
    doc, report = convert("gout here", (start, end, "gout", "X", "D1"), (0, 4, "gout", "X", "D1"))
    assert report["outside_text"] + report["text_mismatches"] == 1
    assert keys(doc.ents) == [("gout", "X", "D1")]


def test_surrounding_white_space_is_trimmed_from_mentions():
    doc, report = convert("a  gout \n b", (1, 9, "  gout \n", "X", "D1"))
    assert keys(doc.ents) == [("gout", "X", "D1")]
    assert report["trimmed_mentions"] == 1 and report["text_differences"] == 0


@pytest.mark.parametrize("text", ["", " ", "\n\t "])
def test_empty_documents_are_kept(text):
    doc, report = convert(text, (0, 1, text[:1], "X", "D1"))
    assert doc.text == text and not doc.ents
    assert report["outside_text"] == 1 and report["documents"] == 1


def test_everything_survives_a_docbin():
    text = "antihypertensive acute renal failure"
    doc, _ = convert(
        text,
        at(text, "hypertensive", kb_id="X9Y"),
        at(text, "acute renal failure"),
        at(text, "renal failure", kb_id="Q8"),
    )
    data = DocBin(docs=[doc], store_user_data=True).to_bytes()
    (copy,) = DocBin().from_bytes(data).get_docs(spacy.blank("en").vocab)
    assert keys(copy.ents) == keys(doc.ents)
    assert keys(copy.spans["krissel"]) == keys(doc.spans["krissel"])
    assert copy.text == text and copy.user_data["krissel_id"] == "1"
    assert not copy.has_annotation("SENT_START")


def test_duplicate_documents_are_dropped_and_counted():
    report = CorpusReport()
    texts = [annotated("one"), annotated("two"), AnnotatedText("2", "three")]
    assert [text.text for text in distinct_texts(texts, report)] == ["one", "three"]
    assert (
        report["duplicate_documents"] == 1
        and "a.txt, line 1" in report.examples["duplicate_documents"][0]
    )


def test_the_label_filter_keeps_texts_that_lose_all_mentions():
    report = CorpusReport()
    texts = [
        annotated("gout", (0, 4, "gout", "Disease", "D1")),
        annotated("salt", (0, 4, "salt", "Chemical", "C1")),
    ]
    first, second = keep_labels(texts, {"Disease"}, report)
    assert len(first.mentions) == 1 and second.mentions == [] and second.text == "salt"
    assert report["other_labels"] == 1 and len(texts[1].mentions) == 1


@given(
    st.text(alphabet="aB1-.'’é ßİ\n\t\u00a0\u2028\u200b𝛼🧬", min_size=1, max_size=40),
    st.lists(st.tuples(st.integers(-3, 45), st.integers(-3, 45)), max_size=6),
)
def test_arbitrary_offsets_lose_no_valid_mention(text, offsets):
    mentions = [
        (start, end, text[max(0, start) : max(0, end)], "X", f"D{i}")
        for i, (start, end) in enumerate(offsets)
    ]
    doc, report = convert(text, *mentions)
    assert doc.text == text
    inside = {
        f"D{i}": text[start:end].strip()
        for i, (start, end) in enumerate(offsets)
        if 0 <= start < end <= len(text) and text[start:end].strip()
    }
    # Nothing that fits the text is lost, and every span covers what its offsets said.
    assert {span.kb_id_: span.text for span in doc.spans["krissel"]} == inside
    assert report["outside_text"] == len(offsets) - len(inside)
    assert {ent.kb_id_ for ent in doc.ents} <= set(inside) and bool(doc.ents) == bool(inside)
    assert report["mentions"] + report["outside_text"] == report["mentions_read"] == len(offsets)


KNEE = "Pain and swelling in knee."


def fragmented(text, stated, *fragments, kb_id="D1"):
    """A mention of the given parts of `text`."""
    return Mention(
        tuple(at(text, fragment)[:2] for fragment in fragments), stated, "Finding", kb_id, 3
    )


def convert_fragments(text, *mentions):
    report = CorpusReport()
    return to_doc(AnnotatedText("1", text, list(mentions), "a.txt", 1), NLP, report=report), report


def test_discontinuous_mentions_are_kept_in_their_own_span_group():
    mentions = (
        fragmented(KNEE, "Pain knee", "Pain", "knee", kb_id="-1"),
        Mention(((9, 25),), KNEE[9:25], "Finding", "D2", 4),
    )
    doc, report = convert_fragments(KNEE, *mentions)
    assert keys(doc.ents) == keys(doc.spans["krissel"]) == [("swelling in knee", "Finding", "D2")]
    assert keys(doc.spans["krissel_disjoint"]) == [
        ("Pain", "Finding", "NIL"),
        ("knee", "Finding", "NIL"),
    ]
    assert gold_mentions(doc) == [
        DocMention("D2", "Finding", ((2, 5),)),
        DocMention("NIL", "Finding", ((0, 1), (4, 5))),
    ]
    counts = report.to_dict()["counts"]
    assert counts.pop("mentions_read") == counts.pop("mentions") == 2
    assert counts == {"documents": 1, "ents": 1, "disjoint": 1, "disjoint_fragments": 2, "nil": 1}
    assert report.labels == {"Finding": 2}


def test_docs_without_discontinuous_mentions_have_no_group_for_them():
    doc, _ = convert_fragments(KNEE, Mention(((0, 4),), "Pain", "Finding", "D1"))
    assert "krissel_disjoint" not in doc.spans


def test_tokens_are_split_at_fragment_boundaries():
    text = "Gastro- and nephropathies."
    doc, report = convert_fragments(text, fragmented(text, "Gastro pathie", "Gastro", "pathie"))
    assert [token.text for token in doc] == ["Gastro", "-", "and", "nephro", "pathie", "s", "."]
    assert gold_mentions(doc) == [DocMention("D1", "Finding", ((0, 1), (4, 5)))]
    assert (report["split_tokens"], report["misfit_mentions"]) == (2, 1)


@pytest.mark.parametrize(
    "stated, differs",
    [("Pain ... knee", False), ("knee Pain", False), ("Pain…knee", False), ("pain, knee", True)],
)
def test_fragments_may_be_joined_by_any_separator(stated, differs):
    doc, report = convert_fragments(KNEE, fragmented(KNEE, stated, "knee", "Pain"))
    assert gold_mentions(doc) == [DocMention("D1", "Finding", ((0, 1), (4, 5)))]
    assert report["text_differences"] == differs


@pytest.mark.parametrize(
    "fragments, whole",
    [
        # Adjacent; parted by a line end, as BRAT does; overlapping; one within the other; one of
        # white space.
        (((0, 2), (2, 4)), "acid"),
        (((0, 4), (5, 11)), "acid\nreflux"),
        (((5, 11), (2, 7)), "id\nreflux"),
        (((0, 11), (5, 6)), "acid\nreflux"),
        (((0, 4), (4, 5)), "acid"),
    ],
)
def test_adjacent_fragments_are_joined(fragments, whole):
    text = "acid\nreflux"
    stated = " ".join(text[start:end] for start, end in fragments)
    doc, report = convert_fragments(text, Mention(fragments, stated, "", "D1"))
    assert [span.text for span in doc.spans["krissel"]] == [whole]
    assert (report["joined_fragments"], report["disjoint"]) == (
        1,
        0,
    ) and "krissel_disjoint" not in doc.spans


def test_fragments_that_cannot_be_kept_are_counted():
    outside = Mention(((0, 4), (90, 94)), "Pain knee", "", "D1", 7)
    other = fragmented(KNEE, "Pain hip", "Pain", "knee")
    twice = [
        fragmented(KNEE, "Pain knee", "Pain", "knee"),
        fragmented(KNEE, "Pain ... knee", "knee", "Pain"),
    ]
    doc, report = convert_fragments(KNEE, outside, other, *twice)
    assert gold_mentions(doc) == [DocMention("D1", "Finding", ((0, 1), (4, 5)))]
    assert (report["outside_text"], report["text_mismatches"], report["duplicate_mentions"]) == (
        1,
        1,
        1,
    )
    assert report.examples["outside_text"] == ["a.txt, line 7 ('Pain knee' at 0-4, 90-94)"]
    assert "'Pain ... knee'" in report.examples["text_mismatches"][0]


def test_reported_positions_name_the_file_of_the_mention():
    _, report = convert_fragments(KNEE, Mention(((90, 94),), "hip", "", "D1", 7, source="CL.xml"))
    assert report.examples["outside_text"] == ["CL.xml, line 7 ('hip' at 90-94)"]


@given(st.text(st.sampled_from("ab. \n-"), max_size=20), st.data())
def test_arbitrary_fragments_are_kept_or_counted(text, data):
    place = st.tuples(st.integers(0, 21), st.integers(0, 21))
    mentions = []
    for line, fragments in enumerate(
        data.draw(st.lists(st.lists(place, min_size=1, max_size=4), max_size=4))
    ):
        stated = " ".join(text[first:last] for first, last in fragments)
        mentions.append(Mention(tuple(fragments), stated, "", f"D{line}"))
    doc, report = convert_fragments(text, *mentions)
    assert doc.text == text
    lost = report["outside_text"] + report["text_mismatches"] + report["duplicate_mentions"]
    assert len(gold_mentions(doc)) == len(mentions) - lost == report["mentions"]
    for found in gold_mentions(doc):
        stated = [text[start:end] for start, end in mentions[int(found.kb_id[1:])].fragments]
        written = "".join(doc[start:end].text for start, end in found.fragments)
        assert set("".join(written.split())) == set("".join("".join(stated).split()))
    (again,) = DocBin(docs=[doc]).get_docs(NLP.vocab)
    assert gold_mentions(again) == gold_mentions(doc)


@pytest.mark.parametrize(
    "covered, stated",
    [
        ("TGF-β1", "TGF-b1"),
        ("TGF-β1", "TGF-beta1"),
        ("TGFß", "TGFb"),
        ("PPARγ", "PPARg"),
        ("IFN-λ", "IFN-lambda"),
        ("κB", "kappaB"),
        ("θ", "q"),
        ("5 µg", "5 ug"),
        ("5 µg", "5 μg"),
        ("Ménière’s", "Meniere's"),
        ("Menie\u0300re", "Menière"),
        ("Ｔ‐cell", "T-cell"),
        ("CO₂", "CO2"),
        ("ﬁbroma", "fibroma"),
        ("Løgstør", "Logstor"),
        ("Große", "Grosse"),
    ],
)
@pytest.mark.parametrize("swapped", [False, True])
def test_transliterated_accents_and_greek_letters_keep_the_offsets(covered, stated, swapped):
    covered, stated = (stated, covered) if swapped else (covered, stated)
    doc, report = convert(f"Of {covered} here", (3, 3 + len(covered), stated, "Gene", "1"))
    assert keys(doc.ents) == [(covered, "Gene", "1")] and report["text_differences"] == 1


@pytest.mark.parametrize(
    "covered, stated", [("TNF-α", "TNF-b"), ("IL-1β", "IL-1"), ("α", "β"), ("TNF-α", "TNF-α1")]
)
def test_a_different_greek_letter_is_a_text_mismatch(covered, stated):
    doc, report = convert(covered, (0, len(covered), stated, "Gene", "1"))
    assert not doc.ents and report["text_mismatches"] == 1


GREEK = {
    "α": ("alpha", "a"),
    "β": ("beta", "b"),
    "γ": ("gamma", "g"),
    "Δ": ("delta", "d"),
    "κ": ("kappa", "k"),
}
SIGNS = {
    "-": "\u2010\u2011\u2012\u2013\u2014\u2212",
    "'": "\u2018\u2019\u02bc\u2032",
    '"': "\u201c\u201d\u201e\u2033",
}


@given(
    st.lists(
        st.sampled_from([*GREEK, *SIGNS, "IL", "1", "TNF", "é", "receptor"]), min_size=1, max_size=8
    ),
    st.sampled_from([0, 1]),
    st.data(),
)
def test_arbitrary_transliterations_keep_the_offsets(parts, way, data):
    covered = "".join(
        data.draw(st.sampled_from(SIGNS[each] + each)) if each in SIGNS else each for each in parts
    )
    stated = "".join(GREEK[each][way] if each in GREEK else each for each in parts).replace(
        "é", "e"
    )
    for text, other in ((covered, stated), (stated, covered)):
        doc, report = convert(f"x {text} y", (2, 2 + len(text), other, "Gene", "1"))
        if not SIGNS.keys() >= {*parts} or covered == stated:
            assert [span.text for span in doc.spans["krissel"]] == [text]
        else:
            # Nothing but signs: these must be the same.
            assert report["text_mismatches"] == 1

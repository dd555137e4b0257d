import pytest
import spacy
from spacy.tokens import DocBin, Span

from spacy_krissel.errors import KrisselError
from spacy_krissel.evaluation.gold import GoldDoc, read_gold, without_links

PUBTATOR = (
    "7|t|Breast cancer and colds\n7|a|MS again.\n7\t0\t13\tBreast cancer\tDisease\tD5\n"
    "7\t24\t26\tMS\tOther\tD1|D2\n\n"
)


def test_gold_is_read_from_pubtator(tmp_path):
    path = tmp_path / "c.txt"
    path.write_text(PUBTATOR)
    (item,) = read_gold(path, spacy.blank("en"))
    assert item.id == "7"
    assert [(m.text, m.label_, m.kb_id_) for m in item.mentions] == [
        ("Breast cancer", "Disease", "D5"),
        ("MS", "Other", "D1|D2"),
    ]
    (item,) = read_gold(path, spacy.blank("en"), labels=["Other"])
    assert [m.kb_id_ for m in item.mentions] == ["D1|D2"]


def test_gold_is_read_from_spacy_files_and_folders(tmp_path, make_doc):
    docs = [
        make_doc("He has MS", [(2, 3, "D1")], doc_id="x"),
        make_doc("She has MS", [(2, 3, "D2")]),
    ]
    DocBin(docs=docs, store_user_data=True).to_disk(tmp_path / "dev.spacy")
    for source in (tmp_path / "dev.spacy", str(tmp_path)):
        gold = read_gold(source, spacy.blank("en"))
        assert [item.id for item in gold] == ["x", "1"]
        assert [m.kb_id_ for item in gold for m in item.mentions] == ["D1", "D2"]


def test_the_span_group_is_preferred_to_ents(make_doc):
    doc = make_doc("He has bad MS", [(3, 4, "D1")])
    doc.spans["krissel"] = [*doc.ents, Span(doc, 2, 4, label="Disease", kb_id="D2")]
    (item,) = read_gold([doc], spacy.blank("en"))
    assert [(m.start, m.end, m.kb_id_) for m in item.mentions] == [(3, 4, "D1"), (2, 4, "D2")]
    assert read_gold([doc], spacy.blank("en"), spans_key="other")[0].mentions == []


def test_missing_damaged_and_empty_sources_raise(tmp_path):
    nlp = spacy.blank("en")
    with pytest.raises(KrisselError, match="K001.*none.spacy"):
        read_gold(tmp_path / "none.spacy", nlp)
    with pytest.raises(KrisselError, match="K212.*no .spacy file"):
        read_gold(tmp_path, nlp)
    DocBin(docs=[nlp("He has MS")]).to_disk(tmp_path / "cut.spacy")
    whole = (tmp_path / "cut.spacy").read_bytes()
    for damaged in (whole[: len(whole) // 2], b"", b"no zlib at all"):
        (tmp_path / "cut.spacy").write_bytes(damaged)
        with pytest.raises(KrisselError, match="K212.*cut.spacy"):
            read_gold(tmp_path / "cut.spacy", nlp)


def test_unlinked_copies_have_mentions_without_ids_or_earlier_output(make_doc):
    doc = make_doc("He  has MS.", [(3, 4, "D1")])
    doc.spans["sc"] = [doc[0:1]]
    doc.user_data["secret"] = "D1"
    (item,) = read_gold([doc], spacy.blank("en"))
    (copy,) = without_links(item, spacy.blank("de"), "")
    assert copy.text == doc.text
    assert [(ent.text, ent.label_, ent.kb_id_) for ent in copy.ents] == [("MS", "Disease", "")]
    assert not copy.spans and not copy.user_data
    assert doc.ents[0].kb_id_ == "D1"


def test_overlapping_mentions_are_spread_over_several_copies():
    nlp = spacy.blank("en")
    doc, places = nlp("a b c d"), [(0, 3), (1, 2), (1, 2), (3, 4), (2, 4)]
    item = GoldDoc("1", doc, [Span(doc, *place, label="Disease") for place in places])
    copies = without_links(item, nlp, "")
    assert sorted((ent.start, ent.end) for copy in copies for ent in copy.ents) == sorted(places)
    (copy,) = without_links(item, nlp, "sc")
    assert [(span.start, span.end) for span in copy.spans["sc"]] == places
    assert len(without_links(GoldDoc("1", nlp("a b"), []), nlp, "")) == 1

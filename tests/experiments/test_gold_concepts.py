import spacy
import srsly
from lab.data.gold_concepts import gold_concepts
from spacy.tokens import Span

from spacy_krissel.corpora.doc_bins import write_doc_bin


def test_a_concept_is_missing_or_named_by_another_ones_mention(tmp_path):
    nlp = spacy.blank("en")
    docs = []
    for words, ids in (("MS cold gout", ("C1", "C2|C3", "NIL")), ("sclerosis MS -", ("C1", "C1", "-"))):
        doc = nlp.make_doc(words)
        doc.ents = [Span(doc, i, i + 1, label="X", kb_id=id_) for i, id_ in enumerate(ids)]
        docs.append(doc)
    write_doc_bin(docs, tmp_path / "gold.spacy")
    assert gold_concepts([tmp_path / "gold.spacy"], tmp_path / "concepts.jsonl") == 3
    found = {each["concept_id"]: each for each in srsly.read_jsonl(tmp_path / "concepts.jsonl")}
    assert {id_: [each["canonical_name"], *each["aliases"]] for id_, each in found.items()} == {
        "C1": ["MS", "sclerosis"],
        "C2": ["cold"],
        "C3": ["cold"],
    }

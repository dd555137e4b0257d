import numpy as np
import spacy
from spacy.tokens import Span
from spacy.vocab import Vocab

from spacy_krissel.kb.prototype_kb import PrototypeKB
from spacy_krissel.ontology.entity import Entity


def test_a_doc_that_is_added_twice_counts_twice():
    kb = PrototypeKB(Vocab(), 4)
    kb.set_entities([Entity("D1", "stroke"), Entity("D2", "stent")])
    kb.attach_encoder(lambda views: np.ones((len(views), 4), dtype=np.float32))
    doc = spacy.blank("en")("A STEMI was treated")
    doc.ents = [Span(doc, 1, 2, label="X", kb_id="D1")]
    assert kb.add_gold(doc, source="mine").prototypes == 2
    before = kb.n_prototypes
    assert kb.add_gold([doc, doc], source="mine").prototypes == 0
    assert kb.n_prototypes == before
    assert kb.add_gold(doc, source="another").prototypes > 0
    # Another entity at the same place is another annotation.
    doc.ents = [Span(doc, 1, 2, label="X", kb_id="D2")]
    assert kb.add_gold(doc, source="mine").prototypes > 0

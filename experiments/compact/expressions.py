"""Links of expressions of the training splits' errors, as a table: the expression, its entity, the
best candidate of a pipeline, and whether it is the entity (1).

    python experiments/compact/expressions.py STORE PIPELINE > before.tsv
"""

import sys
from pathlib import Path

import spacy
from spacy.tokens import Span

from spacy_krissel.ontology.store import OntologyStore

store, nlp = OntologyStore(sys.argv[1]), spacy.load(sys.argv[2])
linker = nlp.get_pipe("krissel_linker")
linker.cfg["min_confidence"], linker.cfg["threshold"] = 0.0, None
n_correct = 0
lines = Path(__file__).with_name("expressions.tsv").read_text().splitlines()
for line in lines:
    text, gold = line.split("\t")
    doc = nlp.make_doc(text)
    doc.ents = [Span(doc, 0, len(doc), label="Disease")]
    link = linker(doc).ents[0].kb_id_
    wanted, found = (store.get(store.resolve(id_)) for id_ in (gold, link))
    n_correct += wanted.id == found.id
    print(text, wanted.name, found.name, int(wanted.id == found.id), sep="\t")
print(f"{n_correct} of {len(lines)} correct", file=sys.stderr)

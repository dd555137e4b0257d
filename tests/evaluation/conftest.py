"""A small ontology, link records by hand, and a linker that answers from a table."""

import pytest
import spacy
from spacy.language import Language
from spacy.tokens import Span

from spacy_krissel.evaluation.records import LinkRecord
from spacy_krissel.mentions.annotations import SpanLink, register_extensions, spans_of, write_links
from spacy_krissel.ontology.entity import Entity
from spacy_krissel.ontology.store import write_store

ENTITIES = [
    Entity("D1", "Multiple Sclerosis", ("MS", "disseminated sclerosis"), types=("Disease",)),
    Entity("D2", "Mitral Stenosis", ("MS",), types=("Disease", "Heart")),
    Entity(
        "D3", "Common Cold", ("cold", "acute coryza"), types=("Disease",), alt_ids=("OMIM:300",)
    ),
    Entity("D4", "Cold Temperature", ("cold",), types=("Phenomenon",)),
    Entity("D5", "Breast Neoplasms", ("breast cancer", "breast tumour"), types=("Disease",)),
    Entity("D6", "<Odd & Sons> disease", ("odd",), types=("Disease",)),
]


@pytest.fixture(scope="session")
def store(tmp_path_factory):
    return write_store(iter(ENTITIES), tmp_path_factory.mktemp("evaluation") / "store")


@pytest.fixture
def make_record():
    def make(
        text="breast cancer", gold=("D5",), prediction="", ranked=None, doc="1", start=0, **fields
    ):
        ranked = (
            ([prediction] if prediction not in ("", "NIL") else []) if ranked is None else ranked
        )
        label = fields.pop("label", "Disease")
        return LinkRecord(
            doc,
            start,
            start + len(text),
            text,
            label,
            tuple(gold),
            list(ranked),
            prediction=prediction,
            **fields,
        )

    return make


class TableLinker:
    """Answers each mention text with the candidates in `answers`, or with an id, "NIL" or ""
    alone."""

    def __init__(self, answers, spans_key):
        register_extensions()
        self.answers = answers
        self.cfg = {"spans_key": spans_key, "n_candidates": 2}
        self.n_candidates_seen = []

    def __call__(self, doc):
        self.n_candidates_seen.append(self.cfg["n_candidates"])
        spans = spans_of(doc, self.cfg["spans_key"])
        links = []
        for span in spans:
            assert not span.kb_id_, "a linker must not be shown the gold ids"
            answer = self.answers.get(span.text, "")
            ranked = [] if answer in ("", "NIL") else answer.split("=")[-1].split()
            candidates = [
                {
                    "id": id_,
                    "name": id_,
                    "score": 1.0 - i / 10,
                    "kind": "name",
                    "evidence": f"⟦{span.text}⟧",
                }
                for i, id_ in enumerate(ranked)
            ]
            ties = ranked if "=" in answer else []
            prediction = answer if not ranked else ranked[0]
            links.append(SpanLink(prediction, candidates[: self.cfg["n_candidates"]], ties))
        write_links(doc, spans, links, spans_key=self.cfg["spans_key"])
        return doc


@Language.factory(
    "test_table_linker",
    assigns=["token.ent_kb_id", "doc.spans"],
    default_config={"answers": {}, "spans_key": ""},
)
def make_table_linker(nlp, name, answers: dict, spans_key: str):
    return TableLinker(answers, spans_key)


@pytest.fixture
def make_nlp():
    """A blank pipeline whose linker answers from a table: "D1 D2" are ranked candidates, "tied=D1
    D2" are tied."""

    def make(answers, spans_key=""):
        nlp = spacy.blank("en")
        nlp.add_pipe("test_table_linker", config={"answers": answers, "spans_key": spans_key})
        return nlp

    return make


@pytest.fixture
def make_doc():
    """A doc from words and (start, end, id) entities, or from (start, end, id, label)."""

    def make(text, mentions, doc_id="", spans_key=""):
        doc = spacy.blank("en")(text)
        spans = [
            Span(doc, m[0], m[1], label=m[3] if len(m) > 3 else "Disease", kb_id=m[2])
            for m in mentions
        ]
        if spans_key:
            doc.spans[spans_key] = spans
        else:
            doc.ents = spans
        if doc_id:
            doc.user_data["krissel_id"] = doc_id
        return doc

    return make


@pytest.fixture(scope="session")
def gold_linker(trained, toy_store, make_once):
    """The folder of a small pipeline that links to the names of the toy ontology."""
    from spacy_krissel.commands.build_prototypes import prototypes

    made = make_once(
        "gold_linker",
        lambda path: prototypes(trained, path / "linker", toy_store.path, progress=False),
    )
    return made / "linker"

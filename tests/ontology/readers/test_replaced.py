"""Obsolete ids lead to entities over any number of steps, in each format that states what replaces
them."""

import json
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spacy_krissel.errors import KrisselWarning
from spacy_krissel.ontology.readers import read_ontology

OBO = "http://purl.obolibrary.org/obo/"
OWL = "http://www.geneontology.org/formats/oboInOwl#"
# How each format refers to replacements; the last one is for consideration.
OBO_GRAPH = (f"{OBO}IAO_0100001", f"{OWL}consider")
ELEMENTS = ("obo:IAO_0100001", "terms:isReplacedBy", "oio:consider")
TURTLE = ("terms:isReplacedBy", "obo:IAO_0100001", "oio:consider")
HEAD = (
    '<?xml version="1.0"?>\n<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#"\n'
    f' xmlns:obo="{OBO}" xmlns:oio="{OWL}" xmlns:terms="http://purl.org/dc/terms/"\n'
    ' xmlns:owl="http://www.w3.org/2002/07/owl#" '
    'xmlns:rdfs="http://www.w3.org/2000/01/rdf-schema#">\n'
)
PREFIXES = (
    f"@prefix obo: <{OBO}> .\n@prefix oio: <{OWL}> .\n"
    "@prefix terms: <http://purl.org/dc/terms/> .\n"
    "@prefix skos: <http://www.w3.org/2004/02/skos/core#> .\n"
    "@prefix owl: <http://www.w3.org/2002/07/owl#> .\n"
)


def iri(id_):
    return OBO + id_.replace(":", "_")


def as_obographs(ids, draw):
    def node(id_, newer):
        stated = [
            {"pred": draw.choice(OBO_GRAPH), "val": draw.choice([each, iri(each)])}
            for each in newer
        ]
        gone = {"deprecated": True} if newer else {}
        return {
            "id": iri(id_),
            "lbl": id_,
            "type": "CLASS",
            "meta": {**gone, "basicPropertyValues": stated},
        }

    return "a.json", json.dumps({"graphs": [{"nodes": [node(*each) for each in ids]}]})


def as_owl(ids, draw):
    def stated(newer):
        element = draw.choice(ELEMENTS)
        by_address = f' rdf:resource="{iri(newer)}"/>'
        return f"<{element}{draw.choice([by_address, f'>{newer}</{element}>'])}"

    classes = (
        f'<owl:Class rdf:about="{iri(id_)}"><rdfs:label>{id_}</rdfs:label>{"".join(map(stated, newer))}'  # noqa: E501
        f"{'<owl:deprecated>true</owl:deprecated>' if newer else ''}</owl:Class>\n"
        for id_, newer in ids
    )
    return "a.owl", f"{HEAD}{''.join(classes)}</rdf:RDF>\n"


def as_skos(ids, draw):
    lines = [PREFIXES]
    for id_, newer in ids:
        lines.append(f'<{iri(id_)}> a skos:Concept ; skos:prefLabel "{id_}" .')
        for each in newer:
            lines.append(f"<{iri(id_)}> owl:deprecated true .")
            lines.append(
                draw.choice(
                    [
                        f"<{iri(id_)}> {draw.choice(TURTLE)} <{iri(each)}> .",
                        # Stated by the newer one.
                        f"<{iri(each)}> terms:replaces <{iri(id_)}> .",
                    ]
                )
            )
    return "a.ttl", "\n".join(lines) + "\n"


def as_obo(ids, draw):
    terms = (
        f"[Term]\nid: {id_}\nname: {id_}\n{'is_obsolete: true' if newer else ''}\n"
        + "".join(
            f"{draw.choice(['replaced_by', 'consider'])}: {draw.choice([each, iri(each)])}\n"
            for each in newer
        )
        for id_, newer in ids
    )
    return "a.obo", "format-version: 1.4\n\n" + "\n".join(terms)


FORMATS = [as_obographs, as_owl, as_skos, as_obo]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("replaced")


def read(folder, write, ids, seed=0):
    if write is as_skos:
        pytest.importorskip("rdflib")
    name, text = write(ids, random.Random(seed))
    (folder / name).write_text(text, encoding="utf8")
    return {entity.id: set(entity.alt_ids) for entity in read_ontology(folder / name)}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("write", FORMATS)
@settings(max_examples=40)
@given(st.lists(st.integers(0, 30), max_size=12), st.integers(0, 99))
def test_obsolete_ids_lead_to_the_entity_at_the_end(folder, write, steps, seed):
    """Each id is replaced by one before it, so that they are trees with two roots, written in any
    order."""
    ends = {0: 0, 1: 1}
    ids = [("TST:0", []), ("TST:1", [])]
    for number, step in enumerate(steps, 2):
        newer = step % number
        ends[number] = ends[newer]
        ids.append((f"TST:{number}", [f"TST:{newer}"]))
    random.Random(seed).shuffle(ids)
    expected = {
        f"TST:{root}": {f"TST:{each}" for each in ends if ends[each] == root and each > 1}
        for root in (0, 1)
    }
    assert read(folder, write, ids, seed) == expected


@pytest.mark.parametrize("write", [as_obographs, as_owl, as_skos])
def test_circular_and_unknown_replacements_warn(folder, write):
    circle = [("TST:1", []), ("TST:2", ["TST:3"]), ("TST:3", ["TST:2"]), ("TST:4", ["TST:9"])]
    # With what replaces an id alone: of the choices of this seed, whichever it is.
    with pytest.warns(
        KrisselWarning,
        match=r"KW108\] Obso.*: 3\. .*TST:2 \(.*TST:3\); TST:3 \(.*TST:2\); TST:4 \(.*TST:9\)",
    ):
        found = read(folder, write if write is not as_skos else stated_by_the_older, circle)
    assert found == {"TST:1": set()}


def obo_terms(stated):
    """stated: the tags of each obsolete term."""
    tags = "".join(
        f"\n[Term]\nid: {id_}\nname: n\nis_obsolete: true\n{lines}\n"
        for id_, lines in stated.items()
    )
    return "".join(f"\n[Term]\nid: TST:{i}\nname: n{i}\nalt_id: ALT:{i}\n" for i in range(2)) + tags


def obo_graph(stated):
    predicates = dict(zip(("replaced_by", "consider"), OBO_GRAPH, strict=True))
    nodes = [
        {
            "id": f"TST:{i}",
            "lbl": f"n{i}",
            "type": "CLASS",
            "meta": {
                "basicPropertyValues": [{"pred": f"{OWL}hasAlternativeId", "val": f"ALT:{i}"}]
            },
        }
        for i in range(2)
    ]
    for id_, lines in stated.items():
        pairs = [line.split(": ", 1) for line in lines.splitlines()]
        values = [{"pred": predicates[tag], "val": value} for tag, value in pairs]
        meta = {"deprecated": True, "basicPropertyValues": values}
        nodes.append({"id": id_, "lbl": id_, "type": "CLASS", "meta": meta})
    return json.dumps({"graphs": [{"nodes": nodes}]})


def owl_classes(stated):
    elements = {"replaced_by": "obo:IAO_0100001", "consider": "oio:consider"}
    texts = [
        f'<owl:Class rdf:about="TST:{i}"><rdfs:label>n{i}</rdfs:label>'
        f"<oio:hasAlternativeId>ALT:{i}</oio:hasAlternativeId></owl:Class>"
        for i in range(2)
    ]
    for id_, lines in stated.items():
        pairs = [line.split(": ", 1) for line in lines.splitlines()]
        said = "".join(f"<{elements[tag]}>{value}</{elements[tag]}>" for tag, value in pairs)
        texts.append(
            f'<owl:Class rdf:about="{id_}"><owl:deprecated>true</owl:deprecated>{said}</owl:Class>'
        )
    return "\n".join([HEAD, *texts, "</rdf:RDF>\n"])


WRITERS = [(obo_terms, "a.obo"), (obo_graph, "a.json"), (owl_classes, "a.owl")]
DEAD = ["GONE:1", "http://purl.obolibrary.org/obo/GONE_1", "OLD:1", "OLD:2"]


@pytest.mark.parametrize("write, name", WRITERS)
@pytest.mark.parametrize("spelt", ["{}:{}", "{}_{}", OBO + "{}_{}", "https://example.org/id/{}_{}"])
@pytest.mark.parametrize("dead", ["", *DEAD])
def test_consider_is_used_if_no_replacement_is_known(folder, write, name, spelt, dead):
    # OLD:1 is replaced by itself over a step, and OLD:2 states none of the file.
    lines = f"replaced_by: {dead}\n" * bool(dead) + "consider: "
    stated = {
        "OLD:1": "replaced_by: OLD:3",
        "OLD:2": "replaced_by: GONE:2",
        "OLD:3": "replaced_by: OLD:1",
        "OLD:4": lines + spelt.format("TST", 0),
        "OLD:5": lines + spelt.format("ALT", 1),
        "OLD:6": "replaced_by: " + spelt.format("OLD", 4),
        "OLD:7": "replaced_by: " + spelt.format("TST", 0) + "\nconsider: " + spelt.format("TST", 1),
        "OLD:8": f"{lines}TST:0\nconsider: TST:1",
        "OLD:9": f"{lines}GONE:3",
    }
    (folder / name).write_text(write(stated), encoding="utf8")
    with pytest.warns(KrisselWarning, match=r"KW108\] Obsolete ids.*: 5\."):
        found = {entity.id: set(entity.alt_ids) for entity in read_ontology(folder / name)}
    assert found == {"TST:0": {"ALT:0", "OLD:4", "OLD:6", "OLD:7"}, "TST:1": {"ALT:1", "OLD:5"}}


def test_exact_id_comes_before_other_spellings(folder):
    terms = "".join(f"\n[Term]\nid: {id_}\nname: n\n" for id_ in ("T:0", "T_0"))
    stated = "\n[Term]\nid: T:9\nname: n\nis_obsolete: true\nreplaced_by: T_0\n"
    (folder / "both.obo").write_text(terms + stated)
    assert [(entity.id, entity.alt_ids) for entity in read_ontology(folder / "both.obo")] == [
        ("T:0", ()),
        ("T_0", ("T:9",)),
    ]


def stated_by_the_older(ids, draw):
    name, text = as_skos(ids, draw)
    lines = [line for line in text.split("\n") if " terms:replaces " not in line]
    lines += [
        f"<{iri(id_)}> terms:isReplacedBy <{iri(each)}> ." for id_, newer in ids for each in newer
    ]
    return name, "\n".join(lines) + "\n"

"""The language of names: the wanted one, else another, which is counted."""

import inspect
import json
import warnings
from xml.sax.saxutils import escape

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spacy_krissel.commands.build_linker import build
from spacy_krissel.commands.make_ontology import ontology
from spacy_krissel.errors import KrisselError, KrisselWarning
from spacy_krissel.ontology.readers import read_ontology
from spacy_krissel.ontology.readers.languages import is_language

TAGS = ["", "en", "en-GB", "fr", "de-AT", "pt_BR"]
# The languages of the labels of each class.
LABELS = st.lists(st.lists(st.sampled_from(TAGS), min_size=1, max_size=4), min_size=1, max_size=4)
HEAD = (
    '<?xml version="1.0"?>\n<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#"\n'
    ' xmlns:skos="http://www.w3.org/2004/02/skos/core#" '
    'xmlns:obo="http://purl.obolibrary.org/obo/"\n'
    ' xmlns:owl="http://www.w3.org/2002/07/owl#" '
    'xmlns:rdfs="http://www.w3.org/2000/01/rdf-schema#">\n'
)


def text(number, tag, kind="label"):
    return f"{kind} {number} {tag or 'untagged'}"


def element(name, tag, content):
    language = f' xml:lang="{tag}"' if tag else ""
    return f"<{name}{language}>{escape(content)}</{name}>"


def as_owl(labels):
    classes = []
    for number, tags in enumerate(labels):
        stated = [element("rdfs:label", tag, text(number, tag)) for tag in tags]
        stated += [element("obo:IAO_0000115", tag, text(number, tag, "definition")) for tag in tags]
        classes.append(
            '<owl:Class rdf:about="http://purl.obolibrary.org/obo/'
            f'TST_{number}">{"".join(stated)}</owl:Class>\n'
        )
    return "a.owl", f"{HEAD}{''.join(classes)}</rdf:RDF>\n"


def as_skos(labels):
    concepts = []
    for number, tags in enumerate(labels):
        # rdflib takes no other tags.
        stated = [
            element("skos:prefLabel", tag.replace("_", "-"), text(number, tag)) for tag in tags
        ]
        stated += [
            element("skos:definition", tag.replace("_", "-"), text(number, tag, "definition"))
            for tag in tags
        ]
        concepts.append(
            '<skos:Concept rdf:about="http://purl.obolibrary.org/obo/'
            f'TST_{number}">{"".join(stated)}</skos:Concept>\n'
        )
    return "a.rdf", f"{HEAD}{''.join(concepts)}</rdf:RDF>\n"


def as_fhir(labels):
    concepts = [
        {
            "code": f"TST:{number}",
            "designation": [{"language": tag, "value": text(number, tag)} for tag in tags],
        }
        for number, tags in enumerate(labels)
    ]
    return "a.json", json.dumps({"resourceType": "CodeSystem", "name": "a", "concept": concepts})


def expected_tag(tags, wanted):
    """Tags of equal rank in the order of the file."""
    english = wanted == "en"
    ranks = {
        tag: 0
        if tag.startswith(wanted) or (english and not tag)
        else 1
        if not tag
        else 2
        if tag.startswith("en")
        else 3
        for tag in tags
    }
    best = [tag for tag in tags if ranks[tag] == min(ranks.values())]
    return best[0] if ranks[best[0]] < 2 else min(best), ranks[best[0]] > 0


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("languages")


@pytest.mark.parametrize("write", [as_owl, as_skos, as_fhir])
@settings(max_examples=40)
@given(LABELS, st.sampled_from(["en", "fr", "de", "pt"]))
def test_entities_without_the_wanted_language_are_kept(folder, write, labels, wanted):
    pytest.importorskip("rdflib")
    name, content = write(labels)
    (folder / name).write_text(content, encoding="utf8")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = {entity.id: entity for entity in read_ontology(folder / name, language=wanted)}
    expected = {f"TST:{number}": expected_tag(tags, wanted) for number, tags in enumerate(labels)}
    assert {id_: entity.name.split()[-1] for id_, entity in found.items()} == {
        id_: tag or "untagged" for id_, (tag, _) in expected.items()
    }
    if write is not as_fhir:
        assert all(
            entity.definition == entity.name.replace("label", "definition")
            for entity in found.values()
        )
    n_others = sum(is_other for _, is_other in expected.values())
    assert [str(each.message).split()[1] for each in caught if "KW109" in str(each.message)] == [
        str(n_others)
    ] * bool(n_others)


def test_names_in_a_third_language_are_left_out(folder):
    content = (
        f'{HEAD}<owl:Class rdf:about="http://purl.obolibrary.org/obo/TST_1"><rdfs:label '
        'xml:lang="fr">goutte</rdfs:label><rdfs:label xml:lang="nl">jicht</rdfs:label>'
        '<skos:altLabel xml:lang="fr">podagre</skos:altLabel><skos:altLabel '
        'xml:lang="en">gout</skos:altLabel><skos:altLabel>podagra</skos:altLabel>'
        "</owl:Class></rdf:RDF>\n"
    )
    (folder / "b.owl").write_text(content)
    with pytest.warns(KrisselWarning, match=r"KW109\] 1 entities.*: fr \(1\)\. The first: TST:1"):
        (found,) = read_ontology(folder / "b.owl")
    assert found.names == ("goutte", "podagre", "gout", "podagra")


def test_language_is_a_setting_of_the_commands(folder, tmp_path):
    name, content = as_owl([["en", "fr"]])
    (folder / name).write_text(content, encoding="utf8")
    (french,), _ = ontology([folder / name], tmp_path / "store", language="fr")
    assert french.name == "label 0 fr"
    table = tmp_path / "a.csv"
    table.write_text("id,name\nX:1,gout\n")
    with pytest.raises(KrisselError, match="K110.*table.*'language'"):
        ontology([table], tmp_path / "other", language="fr")
    assert {"language", "translations"} <= set(inspect.signature(build).parameters)


@pytest.mark.parametrize(
    "found, wanted", [("en", "en"), ("en-GB", "en"), ("EN_us", "en"), ("en", "en-GB")]
)
def test_regional_tags_match_their_language(found, wanted):
    assert is_language(found, wanted)


@pytest.mark.parametrize(
    "found, wanted", [("", "en"), ("enm", "en"), ("de", "en"), ("en-US", "en-GB")]
)
def test_other_languages_do_not_match(found, wanted):
    assert not is_language(found, wanted)

"""INCEpTION and Label Studio ask in their own protocols, and are answered in them."""

import base64
import json
import sys
import time

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("cassis")

import cassis
from starlette.testclient import TestClient

from spacy_krissel.corpora.readers import READERS
from spacy_krissel.corpora.report import CorpusReport
from spacy_krissel.render.formats.label_studio import CONFIG, MODEL
from spacy_krissel.serving import app as app_module
from spacy_krissel.serving.app import Limits, make_app
from spacy_krissel.serving.bounds import Bounds

# Two characters of UTF-16 each.
TEXT = "𝛽𝛽 He had a cold, and MS."
DECLARED = '<!DOCTYPE a [<!ENTITY b SYSTEM "file:///etc/passwd">]><a>&b;</a>'
LAYER, FEATURE = "de.tudarmstadt.ukp.dkpro.core.api.ner.type.NamedEntity", "identifier"


@pytest.fixture
def client(service):
    return TestClient(make_app(service, limits=Limits(chars=5_000)))


def asked(places=(), text=TEXT, scores=True):
    """Make a request as INCEpTION sends it, with the features it adds for recommenders."""
    types = cassis.TypeSystem()
    layer = types.create_type(LAYER, "uima.tcas.Annotation")
    features = {FEATURE: "String", "value": "String", "inception_internal_predicted": "Boolean"}
    if scores:
        features |= {f"{FEATURE}_score": "Double", f"{FEATURE}_score_explanation": "String"}
    for name, kind in features.items():
        types.create_feature(layer, name, f"uima.cas.{kind}")
    cas = cassis.Cas(typesystem=types)
    cas.sofa_string, cas.sofa_mime = text, "text"
    for start, end in places:
        cas.add(layer(begin=start, end=end))
    metadata = {
        "layer": LAYER,
        "feature": FEATURE,
        "projectId": 1,
        "anchoringMode": "tokens",
        "crossSentence": False,
    }
    document = {"xmi": cas.to_xmi(), "documentId": 7, "userId": "ada"}
    return {"metadata": metadata, "document": document, "typeSystem": types.to_xml()}


def suggestions(request, answer):
    types = cassis.load_typesystem(request["typeSystem"])
    cas = cassis.load_cas_from_xmi(answer.json()["document"], typesystem=types)
    return [each for each in cas.select(LAYER) if each.inception_internal_predicted]


def test_inception_gets_the_links_and_scores(client):
    request = asked()
    answer = client.post("/inception/predict", json=request)
    assert answer.status_code == 200 and set(answer.json()) == {"document"}
    found = suggestions(request, answer)
    (linked,) = client.post("/link", json={"text": TEXT}).json()["documents"]
    expected = [
        (m["start"], m["end"], c["id"]) for m in linked["mentions"] for c in m["candidates"]
    ]
    assert (
        sorted((each.begin, each.end, each.identifier) for each in found) == sorted(expected)
        and len(expected) > 2
    )
    by_id = {(each.begin, each.identifier): each for each in found}
    for mention in linked["mentions"]:
        for candidate in mention["candidates"]:
            each = by_id[mention["start"], candidate["id"]]
            assert each.identifier_score == pytest.approx(
                candidate.get("confidence", candidate["score"])
            )
            about = f"{candidate['id']}, {candidate['match']}"
            assert each.identifier_score_explanation == f"{candidate['name']} ({about})"
            assert each.get_covered_text() == mention["text"]
    # On the wire UIMA counts as Java does.
    start = TEXT.index("cold")
    assert f'begin="{start + 2}"' in answer.json()["document"]
    assert (
        client.post("/inception/train", json={"documents": [request["document"]]}).status_code
        == 204
    )


def test_existing_annotations_are_linked(client):
    start = TEXT.index("cold")
    request = asked([(start, start + 4), (start + 2, start + 4)], scores=False)
    found = suggestions(request, client.post("/inception/predict", json=request))
    # Where they are, though one is in the other, and a part of a word.
    assert {(each.begin, each.end) for each in found} == {
        (start, start + 4),
        (start + 2, start + 4),
    }
    assert {each.identifier for each in found if each.begin == start} >= {"D2", "D3"}


def test_annotations_within_one_word_are_answered(client):
    request = asked([(7, 11), (11, 13), (14, 14), (13, 14)], text="he had coldMS .")
    found = suggestions(request, client.post("/inception/predict", json=request))
    assert {(each.begin, each.end) for each in found} == {(7, 11), (11, 13)}


def test_too_many_annotations_of_one_word_are_refused_quickly(client):
    places = [(i, 4_000 - i) for i in range(1_900)]
    start = time.monotonic()
    answered = client.post("/inception/predict", json=asked(places, text="a" * 4_000))
    assert answered.status_code == 422 and "100 are allowed" in answered.json()["error"]
    assert time.monotonic() - start < 10.0


def test_predictions_are_not_taken_for_annotations(client):
    request = asked()
    first = client.post("/inception/predict", json=request)
    again = {**request, "document": {"xmi": first.json()["document"]}}
    second = client.post("/inception/predict", json=again)
    assert len(suggestions(again, second)) == 2 * len(suggestions(request, first))


@pytest.mark.parametrize(
    "change, problem",
    [
        ({"typeSystem": "<x"}, "not a readable CAS"),
        ({"document": {"xmi": ""}}, "not a readable CAS"),
        (
            {
                "document": {
                    "xmi": '<!DOCTYPE a [<!ENTITY b SYSTEM "file:///etc/passwd">]><a>&b;</a>'
                }
            },
            "declares",
        ),
        ({"metadata": {"layer": "a.B", "feature": FEATURE}}, "not a readable CAS"),
        ({"metadata": {"layer": LAYER, "feature": "other"}}, "no feature 'other'"),
        ({"metadata": {}}, "layer"),
        ({"metadata": {"layer": LAYER, "feature": "begin"}}, "no feature 'begin'"),
        (
            {"metadata": {"layer": "uima.cas.AnnotationBase", "feature": "sofa"}},
            "no feature 'sofa'",
        ),
        ({"document": {"xmi": DECLARED.encode("utf-16-le").decode("utf8")}}, "declares"),
        (
            {
                "document": {
                    "xmi": (
                        '<?xml version="1.0" '
                        f'encoding="UTF-7"?>{DECLARED.replace("<!", "+ADwAIQ-")}'
                    )
                }
            },
            "not a readable CAS",
        ),
        ({"typeSystem": "<supertypeName></supertypeName>" * 1_001}, "types"),
    ],
)
def test_invalid_documents_are_refused(client, change, problem):
    answer = client.post("/inception/predict", json={**asked(), **change})
    assert answer.status_code == 422 and problem in answer.json()["error"]


def test_missing_cassis_is_answered_with_what_to_install(client, monkeypatch):
    request = asked()
    monkeypatch.setitem(sys.modules, "cassis", None)
    answer = client.post("/inception/predict", json=request)
    assert (
        answer.status_code == 501 and "pip install spacy-krissel[serve]" in answer.json()["error"]
    )


def test_offsets_outside_the_text_give_no_server_error(client):
    request = asked([(0, 2)])
    request["document"]["xmi"] = request["document"]["xmi"].replace('begin="0"', 'begin="-5"')
    assert client.post("/inception/predict", json=request).status_code in (200, 422)


def test_limits_apply_to_tools(client, linker):
    linker.bounds = Bounds(chars=5_000, mentions=2)
    assert client.post("/inception/predict", json=asked(text="a cold " * 1_000)).status_code == 413
    answered = client.post("/inception/predict", json=asked([(3, 5), (6, 9), (10, 11)]))
    assert answered.status_code == 413 and "[K692]" in answered.json()["error"]
    task = {"data": {"text": "a cold " * 1_000}}
    assert client.post("/labelstudio/predict", json={"tasks": [task]}).status_code == 413


def test_label_studio_gets_the_links(client, tmp_path):
    assert client.get("/labelstudio/health").json()["status"] == "UP"
    version = client.post("/labelstudio/setup", json={"project": "1", "schema": CONFIG}).json()[
        "model_version"
    ]
    tasks = [{"id": 1, "data": {"text": TEXT}}, {"id": 2, "data": {"text": "nothing"}}]
    asked = {"tasks": tasks, "project": "1.2", "label_config": CONFIG, "params": {"context": None}}
    answer = client.post("/labelstudio/predict", json=asked).json()
    assert answer["model_version"] == version and [
        len(each["result"]) for each in answer["results"]
    ] == [4, 0]
    (linked,) = client.post("/link", json={"text": TEXT}).json()["documents"]
    # A person submits it as it is, and exports.
    for task, result in zip(tasks, answer["results"], strict=True):
        task["annotations"] = [result]
    path = tmp_path / "export.json"
    path.write_text(json.dumps(tasks))
    first, second = READERS["label-studio"](path, report=CorpusReport())
    found = [(*each.fragments[0], each.label, each.kb_id) for each in first.mentions]
    assert found == [
        (each["start"], each["end"], each["label"], each["kb_id"]) for each in linked["mentions"]
    ]
    assert second.mentions == []


def test_tag_names_of_a_project_are_used(client):
    config = '<View><Labels name="l" toName="t"/><Text name="t" value="$abstract"/></View>'
    asked = {"tasks": [{"data": {"abstract": TEXT}}], "label_config": config}
    (result,) = client.post("/labelstudio/predict", json=asked).json()["results"]
    assert {(each["from_name"], each["to_name"], each["type"]) for each in result["result"]} == {
        ("l", "t", "labels")
    }
    for wrong in (
        "<View>",
        "<View/>",
        "<!DOCTYPE a><View/>",
        "<View>" + "<a/>" * 26_000 + "</View>",
    ):
        answer = client.post("/labelstudio/predict", json={**asked, "label_config": wrong})
        assert answer.status_code == 422 and set(answer.json()) == {"error"}
    assert client.post("/labelstudio/predict", json={"tasks": [{"data": {}}]}).status_code == 422


def test_tools_can_authenticate_with_a_password(service):
    client = TestClient(make_app(service, key="sésame"))
    for password, status in (("sésame", 200), ("other", 401), ("", 401)):
        basic = base64.b64encode(f"any:{password}".encode()).decode()
        assert (
            client.get(
                "/labelstudio/health", headers={"authorization": f"Basic {basic}"}
            ).status_code
            == status
        )
    assert (
        client.get("/labelstudio/health", headers={"authorization": "Basic ☃".encode()}).status_code
        == 401
    )


def test_model_version_is_constant():
    assert app_module.MODEL == MODEL

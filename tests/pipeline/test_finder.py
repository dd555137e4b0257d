"""`krissel_finder`: mentions by the names of a knowledge base, and links among what has them."""

import copy
import multiprocessing
import pickle
import shutil
import subprocess
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields

import pytest
import spacy
from spacy.tokens import Doc, DocBin, Span
from spacy.training import Example
from spacy.util import compile_infix_regex
from test_verdicts import said as annotated

from spacy_krissel import (
    Entity,
    PrototypeSource,
    add_corrections,
    add_rejections,
    build,
    build_prototypes,
)
from spacy_krissel.errors import KrisselError, KrisselWarning
from spacy_krissel.mentions.annotations import spans_of
from spacy_krissel.mentions.discontinuous import holds_fragments, read_fragments
from spacy_krissel.pipeline.pipeline_io import find_linker
from spacy_krissel.pipeline.settings import FinderSettings

ENTITIES = [
    Entity("L", "cleft lip", types=("Finding",)),
    Entity("P", "cleft palate", types=("Finding",)),
    Entity("B", "breast cancer", ("mammary carcinoma",), types=("Disease",)),
    Entity("O", "ovarian cancer", types=("Disease",)),
    Entity("U", "lung cancer", types=("Disease",)),
    Entity("D1", "multiple sclerosis", ("MS",), types=("Disease",)),
    Entity("C1", "mass spectrometry", ("MS",), types=("Method",)),
    Entity("C", "common cold", ("cold",), types=("Disease",)),
    Entity("T", "cold temperature", ("cold",), types=("Phenomenon",)),
    Entity("K", "kidney stone", types=("Finding",)),
]
NAMES = [(name, each.id) for each in ENTITIES for name in (each.name, *each.aliases)]
TEXTS = [
    "Cleft lip and palate with kidney stones.",
    "Breast, ovarian and lung cancer; a cold.",
    "",
    " \n",
    "Multiple sclerosis (MS): MS was seen. Palate, cleft.",
    "Nothing.",
]
KEY = "found"


@pytest.fixture(scope="module")
def saved(make_once):
    """A linker without a finder."""

    def make(folder):
        build(ENTITIES, folder / "linker", precision=0.01, find="none")

    return make_once("found", make) / "linker"


@pytest.fixture
def nlp():
    nlp = spacy.blank("en")
    nlp.add_pipe("krissel_finder").set_names(NAMES)
    return nlp


@pytest.fixture
def linked(saved):
    return with_finder(saved)


def with_finder(path, **config):
    nlp = spacy.load(path)
    name = find_linker(nlp).name
    spans_key = config.get("spans_key", "")
    find_linker(nlp).configure(spans_key=spans_key)
    nlp.add_pipe("krissel_finder", before=name, config={"linker": name, **config})
    return nlp


def pipe_of(nlp):
    return nlp.get_pipe("krissel_finder")


def ents(doc):
    return [(ent.text, ent.label_, ids(ent)) for ent in doc.ents]


def ids(span):
    return [*span._.krissel_found["ids"]] if span._.krissel_found else []


def mentions(doc, key=KEY):
    return {
        " … ".join(doc[start:end].text for start, end in mention.fragments): mention.kb_id
        for mention in read_fragments(doc, key)
    }


def everything(docs):
    return [
        (
            [
                (*each, str(ent._.krissel_found))
                for ent, each in zip(doc.ents, ents(doc), strict=True)
            ],
            [
                (span.start, span.end, span.label_, span.id_, str(span._.krissel_found))
                for span in doc.spans.get(KEY, ())
            ],
        )
        for doc in docs
    ]


# What is written ----------------------------------------------------------------------------------


def test_entities_are_found_in_gaps(nlp):
    doc = nlp("Cleft lip and palate with kidney stones.")
    assert ents(doc) == [
        ("Cleft lip", "ENTITY", ["L"]),
        ("palate", "ENTITY", ["P"]),
        ("kidney stones", "ENTITY", ["K"]),
    ]
    assert [ent._.krissel_found for ent in doc.ents] == [
        {"text": "Cleft lip", "name": "cleft lip", "ids": ["L"], "variant": "name"},
        {
            "text": "Cleft palate",
            "name": "cleft palate",
            "ids": ["P"],
            "variant": "coordination",
            "fragments": [[0, 5], [14, 20]],
        },
        {"text": "kidney stones", "name": "kidney stone", "ids": ["K"], "variant": "form"},
    ]


def test_entities_of_others_stay(nlp):
    doc = nlp.make_doc("Severe cleft lip and palate, lung cancer and a kidney stone.")
    doc.ents = [
        Span(doc, 0, 2, label="NER", kb_id="X", span_id="rule"),
        Span(doc, 7, 8, label="NER"),
    ]
    before = [(ent.start, ent.end, ent.label_, ent.kb_id_, ent.id_) for ent in doc.ents]
    nlp(doc)
    after = [(ent.start, ent.end, ent.label_, ent.kb_id_, ent.id_) for ent in doc.ents]
    assert [each for each in after if each[2] == "NER"] == before
    # Names that overlap them are left out; a part beside one is found.
    assert [each for each in ents(doc) if each[1] == "ENTITY"] == [
        ("palate", "ENTITY", ["P"]),
        ("kidney stone", "ENTITY", ["K"]),
    ]


def test_running_twice_changes_nothing(nlp):
    for key in ("", KEY):
        pipe_of(nlp).cfg.spans_key = key
        for text in TEXTS:
            doc = nlp(text)
            once = doc.to_bytes()
            assert nlp(doc).to_bytes() == once


def test_discontinuous_mentions_are_fragments_of_a_group(nlp):
    pipe_of(nlp).cfg.spans_key = KEY
    doc = nlp("Breast, ovarian and lung cancer, cleft lip and palate")
    assert not doc.ents and holds_fragments(doc, KEY)
    assert set(mentions(doc)) == {
        "Breast … cancer",
        "ovarian … cancer",
        "lung cancer",
        "cleft lip",
        "cleft … palate",
    }
    found = {span.text: ids(span) for span in doc.spans[KEY] if span._.krissel_found}
    assert found == {
        "Breast": ["B"],
        "ovarian": ["O"],
        "lung cancer": ["U"],
        "cleft lip": ["L"],
        "palate": ["P"],
    }
    assert not holds_fragments(nlp("A kidney stone"), KEY)


@pytest.mark.parametrize("key", ["", KEY])
def test_given_mentions_are_described_as_found_ones(nlp, key):
    pipe_of(nlp).cfg.spans_key = key
    found = [*nlp.pipe(TEXTS)]
    given = [nlp.make_doc(text) for text in TEXTS]
    spans = [
        [doc[each.start : each.end] for each in spans_of(other, key)]
        for doc, other in zip(given, found, strict=True)
    ]
    pipe_of(nlp).describe(given, [own[1:] for own in spans])
    said = [str(span._.krissel_found) for own in spans for span in own[1:]]
    expected = [str(span._.krissel_found) for doc in found for span in [*spans_of(doc, key)][1:]]
    assert said == expected and len(said) > 3
    assert not any(own[0]._.krissel_found for own in spans if own)
    assert not any(doc.ents or doc.spans for doc in given)


def test_an_earlier_group_is_replaced(nlp):
    pipe_of(nlp).cfg.spans_key = KEY
    doc = nlp("A cold cleft lip and palate")
    pipe_of(nlp).cfg.stop_names = ["cold"]
    assert set(mentions(nlp(doc))) == {"cleft lip", "cleft … palate"}
    assert not doc[1:2]._.krissel_found


def test_nested_mentions(nlp):
    pipe_of(nlp).cfg.update({"spans_key": KEY, "nested": True, "added_names": {"cancer": "B"}})
    doc = nlp("lung cancer")
    assert [(span.text, ids(span)) for span in doc.spans[KEY]] == [
        ("lung cancer", ["U"]),
        ("cancer", ["B"]),
    ]


@pytest.mark.parametrize("key", ["", KEY])
@pytest.mark.parametrize("text", ["", " ", "\n\n\t", "\u2003"])
def test_docs_of_white_space_are_unchanged(nlp, key, text):
    pipe_of(nlp).cfg.spans_key = key
    before = nlp.make_doc(text).to_bytes()
    assert nlp(text).to_bytes() == before
    assert [doc.to_bytes() for doc in nlp.pipe([text, text])] == [before] * 2


def test_docs_without_mentions_say_so(nlp):
    doc = nlp("Nothing stands here.")
    assert not doc.ents and doc.has_annotation("ENT_IOB")
    pipe_of(nlp).cfg.spans_key = KEY
    assert len(nlp("Nothing stands here.").spans[KEY]) == 0


def test_tokenizers_that_do_not_split_on_hyphens(nlp):
    nlp.tokenizer.infix_finditer = compile_infix_regex([r"\.\."]).finditer
    doc = nlp("A lung-cancer-related cleft lip/palate and ms-cold/cold")
    assert ents(doc) == [
        ("lung-cancer-related", "ENTITY", ["U"]),
        ("cleft lip/palate", "ENTITY", ["L"]),
        ("ms-cold/cold", "ENTITY", ["C", "T"]),
    ]
    pipe_of(nlp).cfg.spans_key = KEY
    doc = nlp("A lung-cancer-related cleft lip/palate")
    assert set(mentions(doc)) == {"lung-cancer-related", "cleft lip/palate"}


def test_words_within_tokens_and_tokens_within_words():
    nlp = spacy.blank("en")
    nlp.add_pipe("krissel_finder").set_names([("IL2 receptor", "I"), ("lung cancer", "U")])
    words = ["xx", "IL", "2", "receptor", ",", "lung", "cancer", "\n", "lung"]
    spaces = [True, False, True, False, True, True, False, False, False]
    doc = nlp(Doc(nlp.vocab, words=words, spaces=spaces))
    assert ents(doc) == [("IL2 receptor", "ENTITY", ["I"]), ("lung cancer", "ENTITY", ["U"])]


def test_long_docs(nlp):
    nlp.max_length = 10_000_000
    text = "Cleft lip and palate with a cold. " * 4000
    doc = nlp(text)
    assert len(doc.ents) == 12_000
    assert {ids(ent)[0] for ent in doc.ents} == {"L", "P", "C"}


def test_wild_text(nlp):
    for key in ("", KEY):
        pipe_of(nlp).cfg.spans_key = key
        for text in (
            "cold\0cold",
            "a cold\u0301",
            "cold\u00ad",
            "😀cold😀 cold",
            "½ cold",
            "cold\ufeff",
        ):
            doc = nlp(text)
            spans = doc.spans[KEY] if key else doc.ents
            assert all(ids(span) in (["C", "T"], []) for span in spans)


# Names --------------------------------------------------------------------------------------------


def test_names_of_the_knowledge_base_of_the_linker(linked):
    finder = pipe_of(linked)
    assert len(finder.names()) == len(NAMES)
    assert [each[2] for each in ents(linked("kidney stones"))] == [["K"]]
    other = spacy.blank("en")
    alone = other.add_pipe("krissel_finder")
    alone.read_names(find_linker(linked).kb)
    assert ents(other("kidney stones")) == [("kidney stones", "ENTITY", ["K"])]


def test_names_that_are_set_replace_those_of_the_linker(linked):
    pipe_of(linked).set_names([("stones", "K")])
    assert ents(linked("kidney stones, a cold")) == [("stones", "ENTITY", ["K"])]
    pipe_of(linked).set_names([])
    assert ents(linked("kidney stones, a cold")) == []


def test_without_names_raises():
    nlp = spacy.blank("en")
    nlp.add_pipe("krissel_finder", name="mine", config={"linker": "other"})
    for text in ("A cold.", ""):
        with pytest.raises(KrisselError, match="K606.*'mine'.*'other'"):
            nlp(text)
    assert list(nlp.pipe([])) == []
    nlp.get_pipe("mine").set_names(NAMES)
    assert len(nlp("A cold.").ents) == 1


def test_without_a_name_in_the_knowledge_base_raises(toy_store, toy_shards):
    """Example: a knowledge base of mined mentions alone."""
    nlp = spacy.blank("en")
    nlp.add_pipe("krissel_linker")
    nlp.initialize()
    build_prototypes(nlp, PrototypeSource(toy_store, toy_shards, mentions_only=True))
    nlp.add_pipe("krissel_finder", before="krissel_linker")
    for _ in range(2):
        with pytest.raises(KrisselError, match="K606.*'krissel_linker' has none"):
            nlp("A cold.")


def test_with_an_empty_knowledge_base_raises():
    nlp = spacy.blank("en")
    nlp.add_pipe("krissel_finder")
    nlp.add_pipe("krissel_linker")
    with pytest.raises(KrisselError, match="K603|K520"):
        nlp("A cold.")


def test_a_finder_after_the_linker_warns(saved):
    nlp = spacy.load(saved)
    nlp.add_pipe("krissel_finder", config={"linker": find_linker(nlp).name})
    with pytest.warns(KrisselWarning, match="KW627"):
        nlp("A cold.")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        nlp("A cold.")


# Settings -----------------------------------------------------------------------------------------


def test_settings_take_effect_at_once(nlp):
    cfg, text = pipe_of(nlp).cfg, "cleft palates (CP) and a cold"

    def texts():
        return [ent.text for ent in nlp(text).ents]

    assert texts() == ["cleft palates", "CP", "cold"]
    cfg.variants = "spelling"
    assert texts() == ["cold"]
    cfg.variants = "words"
    cfg.stop_names.append("Cold")
    assert texts() == ["cleft palates", "CP"]
    cfg.use_abbreviations = False
    assert texts() == ["cleft palates"]
    cfg.added_names["palate"] = "P"
    cfg.stop_names.append("cleft palates")
    assert texts() == ["palates"]
    cfg.added_names.clear()
    cfg.stop_names.clear()
    cfg.label = "X"
    assert ents(nlp("a cold")) == [("cold", "X", ["C", "T"])]


EFFECTS = {
    "spans_key": KEY,
    "variants": "none",
    "nested": True,
    "use_abbreviations": False,
    "lone_acronyms": True,
    "general_names": True,
    "stop_names": ["cold"],
    "added_names": {"cleft": "P"},
    "label": "X",
}


@pytest.mark.parametrize("setting", [each.name for each in fields(FinderSettings)])
def test_each_setting_has_an_effect(setting):
    """Set on the pipe or in its config."""
    text = "Cleft palates (CP), a cleft, a disease, a common cold, a cold and MS."
    config = {"spans_key": KEY} if setting == "nested" else {}
    changed = {setting: EFFECTS[setting]}
    results = []
    for given, later in ((config, {}), (config, changed), ({**config, **changed}, {})):
        nlp = spacy.blank("en")
        nlp.add_pipe("krissel_finder", config=given).set_names([*NAMES, ("disease", "X")])
        for key, value in later.items():
            pipe_of(nlp).cfg[key] = value
        results.append(everything([nlp(text)]))
    assert results[0] != results[1] == results[2]


def test_general_words_are_left_out_unless_asked_for():
    nlp = spacy.blank("en")
    nlp.add_pipe("krissel_finder").set_names([("disease", "X"), ("disorders", "Y")])
    assert ents(nlp("a disease, a disorder")) == []
    pipe_of(nlp).cfg.general_names = True
    assert [each[2] for each in ents(nlp("a disease, a disorder"))] == [["X"], ["Y"]]


def test_nested_names_need_a_group(nlp):
    pipe_of(nlp).cfg.nested = True
    with pytest.raises(KrisselError, match="K006.*'nested'.*`spans_key`"):
        nlp("A cold.")
    pipe_of(nlp).cfg.spans_key = KEY
    assert len(nlp("A cold.").spans[KEY]) == 1


@pytest.mark.parametrize(
    "setting, value", [("variants", "all"), ("label", ""), ("stop_names", "cold"), ("nested", 1)]
)
def test_wrong_settings_raise(nlp, setting, value):
    with pytest.raises(KrisselError, match=f"K006.*'{setting}'"):
        pipe_of(nlp).cfg[setting] = value
    with pytest.raises(KrisselError, match="K607.*'varaints'.*variants"):
        pipe_of(nlp).cfg["varaints"] = "none"
    pipe_of(nlp).cfg.stop_names.append(5)
    with pytest.raises(KrisselError, match="K006.*'stop_names'"):
        nlp("A cold.")


def test_added_names_need_entities_of_the_knowledge_base(linked):
    cfg = pipe_of(linked).cfg
    cfg.added_names["chill"] = "C"
    assert [ent.kb_id_ for ent in linked("a chill").ents] == ["C"]
    cfg.added_names["frost"] = "XYZ"
    with pytest.raises(KrisselError, match="K525.*XYZ"):
        linked("a frost")
    del cfg.added_names["frost"]
    assert [ent.kb_id_ for ent in linked("a chill, frost").ents] == ["C"]


# Saving and processes -----------------------------------------------------------------------------


def test_saved_and_loaded(nlp, tmp_path):
    pipe_of(nlp).cfg.update({"spans_key": KEY, "stop_names": ["cold"], "added_names": {"flu": "C"}})
    expected = everything(nlp.pipe(TEXTS))
    nlp.to_disk(tmp_path / "one")
    again = spacy.load(tmp_path / "one")
    assert pipe_of(again).cfg == pipe_of(nlp).cfg
    assert everything(again.pipe(TEXTS)) == expected
    again.to_disk(tmp_path / "two")
    assert files(tmp_path / "one") == files(tmp_path / "two")
    # Onto the folder that is mapped.
    again.to_disk(tmp_path / "one")
    assert files(tmp_path / "one") == files(tmp_path / "two")
    assert everything(again.pipe(TEXTS)) == expected
    data = again.to_bytes()
    other = spacy.blank("en").from_config(nlp.config).from_bytes(data)
    assert everything(other.pipe(TEXTS)) == expected
    assert pipe_of(other).to_bytes() == pipe_of(nlp).to_bytes()


def files(folder):
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_saved_without_names(nlp, tmp_path):
    pipe = pipe_of(nlp)
    assert len(pipe.to_bytes(exclude=["names"])) < len(pipe.to_bytes())
    pipe.from_bytes(pipe.to_bytes(exclude=["names"]), exclude=["names"])
    assert len(nlp("A cold.").ents) == 1
    nlp.to_disk(tmp_path / "one")
    bare = spacy.blank("en")
    bare.add_pipe("krissel_finder")
    # No names of an earlier pipe are left.
    bare.to_disk(tmp_path / "one")
    with pytest.raises(KrisselError, match="K606"):
        spacy.load(tmp_path / "one")("A cold.")
    with pytest.raises(KrisselError, match="K606"):
        nlp.from_disk(tmp_path / "one")("A cold.")


def test_saved_with_a_linker(linked, tmp_path):
    expected = everything(linked.pipe(TEXTS))
    links = [[ent.kb_id_ for ent in doc.ents] for doc in linked.pipe(TEXTS)]
    linked.to_disk(tmp_path / "one")
    again = spacy.load(tmp_path / "one")
    assert everything(again.pipe(TEXTS)) == expected
    assert [[ent.kb_id_ for ent in doc.ents] for doc in again.pipe(TEXTS)] == links


@pytest.mark.parametrize("damage", ["cut", "missing", "cfg", "no manifest"])
def test_damaged_files_raise(nlp, tmp_path, damage):
    nlp.to_disk(tmp_path / "one")
    folder = tmp_path / "one" / "krissel_finder"
    path = folder / {"cfg": "cfg", "no manifest": "names/manifest.json"}.get(
        damage, "names/hashes.npy"
    )
    if damage in ("missing", "no manifest"):
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(KrisselError, match="K00[24]|K524|K605"):
        spacy.load(tmp_path / "one")


def test_copies_find_the_same(nlp, linked):
    expected = everything(nlp.pipe(TEXTS))
    copied = pickle.loads(pickle.dumps(pipe_of(nlp)))
    assert everything(copied.pipe([nlp.make_doc(text) for text in TEXTS])) == expected
    assert copied.cfg == pipe_of(nlp).cfg
    # A copy has no pipeline, and takes the names along.
    away = pickle.loads(pickle.dumps(pipe_of(linked)))
    assert len(away(linked.make_doc("a cold")).ents) == 1
    assert len(copy.deepcopy(pipe_of(linked))(linked.make_doc("a cold")).ents) == 1


SCRIPT = """
import json, multiprocessing, sys
import spacy

def main(pipeline, method):
    multiprocessing.set_start_method(method)
    nlp = spacy.load(pipeline)
    def read(docs):
        return [[[e.text, e.kb_id_, str(e._.krissel_found)] for e in doc.ents] for doc in docs]
    texts = ["Cleft lip and palate.", "", "A cold", "Kidney stones and MS"] * 3
    here = read(nlp.pipe(texts))
    there = read(nlp.pipe(texts, n_process=2, batch_size=2))
    fresh = read(spacy.load(pipeline).pipe(texts, n_process=2, batch_size=5))
    assert here == there == fresh and any(here), (here, there, fresh)

if __name__ == "__main__":
    main(*sys.argv[1:])
"""


@pytest.mark.nightly
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_processes_take_the_names_of_the_linker(linked, tmp_path, method):
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip(f"this system has no {method}")
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    linked.to_disk(tmp_path / "pipeline")
    command = [sys.executable, script, tmp_path / "pipeline", method]
    done = subprocess.run(
        [*map(str, command)], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr


def test_threads_find_the_same(nlp):
    expected = everything(nlp.pipe(TEXTS))
    fresh = spacy.blank("en")
    fresh.add_pipe("krissel_finder").set_names(NAMES)
    with ThreadPoolExecutor(8) as threads:
        docs = list(threads.map(fresh, TEXTS * 20))
    assert everything(docs) == expected * 20


def test_memory_zones(nlp, linked):
    for each in (nlp, linked):
        expected = everything(each.pipe(TEXTS))
        for _ in range(2):
            with each.memory_zone():
                assert everything(each.pipe(TEXTS)) == expected
        assert everything(each.pipe(TEXTS)) == expected


def test_names_read_in_a_memory_zone_outlive_it(saved):
    nlp = with_finder(saved)
    with nlp.memory_zone():
        first = everything(nlp.pipe(TEXTS))
    assert everything(nlp.pipe(TEXTS)) == first and first[0][0]


@pytest.mark.parametrize("key", ["", KEY])
def test_doc_bins_keep_what_was_found(nlp, key):
    pipe_of(nlp).cfg.spans_key = key
    docs = list(nlp.pipe(TEXTS))
    data = DocBin(docs=docs, store_user_data=True).to_bytes()
    back = list(DocBin().from_bytes(data).get_docs(spacy.blank("en").vocab))
    for doc, other in zip(docs, back, strict=True):
        assert [ids(span) for span in other.ents] == [ids(span) for span in doc.ents]
        assert [ids(span) for span in other.spans.get(KEY, ())] == [
            ids(span) for span in doc.spans.get(KEY, ())
        ]
        if key and doc.text.strip():
            assert read_fragments(other, KEY) == read_fragments(doc, KEY)


def test_errors_reach_the_error_handler(nlp):
    seen = []
    nlp.set_error_handler(
        lambda name, proc, docs, error: seen.append((name, len(docs), error.code))
    )
    pipe_of(nlp).cfg.nested = True
    docs = list(nlp.pipe(["A cold", "Another"]))
    assert len(docs) == 2 and not docs[0].ents
    assert seen == [("krissel_finder", 2, "K006")]


def test_it_is_not_trained(nlp):
    pipe = pipe_of(nlp)
    assert not pipe.is_trainable
    example = Example(nlp.make_doc("A cold"), nlp("A cold"))
    nlp.initialize(lambda: [example])
    assert len(nlp("A cold").ents) == 1, "names stay"
    assert pipe.update([example], losses={}) == {"krissel_finder": 0.0}
    assert pipe.score([example]) == {}


# Links --------------------------------------------------------------------------------------------


def links(doc, key=""):
    return {span.text: span.kb_id_ for span in (doc.spans[key] if key else doc.ents)}


def test_variants_are_linked_to_entities_of_the_name(linked):
    doc = linked("Cleft lip and palate, stones of the kidney, and breast or ovarian cancers.")
    assert links(doc) == {
        "Cleft lip": "L",
        "palate": "P",
        "stones of the kidney": "K",
        "breast": "B",
        "ovarian cancers": "O",
    }
    matches = {ent.text: ent._.krissel_candidates[0].get("match") for ent in doc.ents}
    assert matches == {
        "Cleft lip": "label",
        "palate": "variant",
        "stones of the kidney": "variant",
        "breast": "variant",
        "ovarian cancers": "variant",
    }


def test_discontinuous_mentions_are_linked(saved):
    nlp = with_finder(saved, spans_key=KEY)
    doc = nlp("Breast, ovarian and lung cancer; cleft lip and palate.")
    assert mentions(doc) == {
        "Breast … cancer": "B",
        "ovarian … cancer": "O",
        "lung cancer": "U",
        "cleft lip": "L",
        "cleft … palate": "P",
    }
    assert len(doc.spans[KEY]) == 8, "fragments of a mention have one link"


def test_context_decides_for_shared_names(linked):
    """Only among the entities with the name."""
    kb = find_linker(linked).kb
    for text in ("A cold was treated.", "Samples were kept in the cold.", "MS was multiple MS."):
        for ent in linked(text).ents:
            assert ent.kb_id_ in ids(ent)
            assert {each["id"] for each in ent._.krissel_candidates[: len(ids(ent))]} == {*ids(ent)}
    docs = [annotated(linked, "He caught a cold at school, sneezing.", "C", "cold")]
    docs += [annotated(linked, "Samples were frozen in the cold freezer.", "T", "cold")]
    kb.add_gold(docs) if hasattr(kb, "add_gold") else add_corrections(kb, docs)
    one = linked("She caught a cold at school, sneezing again.").ents[0]
    two = linked("All samples were frozen in the cold freezer room.").ents[0]
    assert (one.kb_id_, two.kb_id_) == ("C", "T")


@pytest.mark.parametrize(
    "text, mention", [("He had a cold.", "cold"), ("Big kidney stones.", "kidney stones")]
)
def test_corrections_win_over_what_was_found(linked, text, mention):
    kb = find_linker(linked).kb
    before = links(linked(text))
    add_corrections(kb, annotated(linked, text, "U", mention), source="test")
    assert links(linked(text)) == {**before, mention: "U"}
    assert links(linked("A cold; kidney stones.")).keys() == {"cold", "kidney stones"}
    kb.remove_verdicts(source="test")
    assert links(linked(text)) == before
    add_corrections(kb, annotated(linked, text, "NIL", mention), source="test")
    assert links(linked(text))[mention] == "NIL"
    kb.remove_verdicts(source="test")
    add_rejections(kb, annotated(linked, text, before[mention], mention), source="test")
    assert links(linked(text))[mention] != before[mention]


def test_corrections_of_a_coordinated_mention(linked):
    text, kb = "Cleft lip and palate.", find_linker(linked).kb
    add_corrections(kb, annotated(linked, text, "K", "palate"))
    assert links(linked(text)) == {"Cleft lip": "L", "palate": "K"}


def test_links_of_others_are_as_without_a_finder(saved, linked):
    """Entities that another component found are linked as before, beside found ones."""
    plain = spacy.load(saved)
    text = "He had a cold, severe kidney trouble, and multiple sclerosis."

    def doc(nlp):
        return annotated(nlp, text, "", "kidney trouble")

    find_linker(linked).configure(coherence_weight=0.0)
    find_linker(plain).configure(coherence_weight=0.0)
    (alone,) = plain(doc(plain)).ents
    both = {ent.text: ent for ent in linked(doc(linked)).ents}
    assert set(both) == {"cold", "kidney trouble", "multiple sclerosis"}
    assert both["kidney trouble"].kb_id_ == alone.kb_id_
    # Sums of floats depend on how many mentions are encoded together.
    for one, other in zip(
        both["kidney trouble"]._.krissel_candidates, alone._.krissel_candidates, strict=True
    ):
        assert one == {
            key: pytest.approx(value, abs=1e-6) if isinstance(value, float) else value
            for key, value in other.items()
        }
    assert not both["kidney trouble"]._.krissel_found


def test_ids_that_the_knowledge_base_lacks(linked):
    """Some of them, or all."""
    pipe_of(linked).set_names([("cold", "XYZ"), ("cold", "C"), ("frost", "XYZ")])
    assert links(linked("A cold."))["cold"] == "C"
    assert linked("A frost.").ents[0]._.krissel_found["ids"] == ["XYZ"]


def test_abbreviations_match_as_such(linked):
    doc = linked("Cleft palate (CP): CP was seen.")
    assert [(ent.text, ent.kb_id_) for ent in doc.ents] == [
        ("Cleft palate", "P"),
        ("CP", "P"),
        ("CP", "P"),
    ]
    matches = [ent._.krissel_candidates[0]["match"] for ent in doc.ents]
    assert matches == ["label", "abbreviation", "abbreviation"]


@pytest.mark.parametrize("by_label", [{}, {"X": ["Finding"]}, {"ENTITY": ["Disease"]}])
def test_links_do_not_depend_on_their_batch(linked, by_label):
    """Docs with found mentions, with others, and with both."""
    find_linker(linked).configure(types_by_label=by_label)

    def docs():
        return [
            annotated(linked, "He had kidney trouble.", "", "kidney trouble"),
            linked.make_doc("A cold."),
            annotated(linked, "Kidney trouble, a breast or ovarian cancer.", "", "Kidney trouble"),
            linked.make_doc("Nothing."),
        ]

    def read(found):
        return [
            [(ent.text, ent.kb_id_, approximate(ent._.krissel_candidates)) for ent in doc.ents]
            for doc in found
        ]

    alone = read([linked(doc) for doc in docs()])
    assert read(linked.pipe(docs(), batch_size=4)) == alone
    assert read(linked.pipe(docs()[::-1], batch_size=3)) == alone[::-1]
    assert [len(each) for each in alone] == [1, 1, 3, 0]


def approximate(candidates):
    return [
        {
            key: pytest.approx(value, abs=1e-5) if isinstance(value, float) else value
            for key, value in each.items()
        }
        for each in candidates
    ]


def test_a_linker_by_vectors_alone_is_as_without_a_finder(saved, linked):
    plain, candidates = spacy.load(saved), []
    for each in (plain, linked):
        find_linker(each).configure(
            confidence={}, min_confidence=0.0, lexical_weight=0.0, spelling_weight=0.0
        )
        (ent,) = each(annotated(each, "He had kidney trouble.", "", "kidney trouble")).ents
        candidates.append(ent._.krissel_candidates)
    assert candidates[0] == candidates[1]
    assert [ent.kb_id_ for ent in linked("Stones of the kidney.").ents] == ["K"]


def test_saved_pipelines_load_elsewhere(linked, tmp_path):
    linked("A cold.")
    linked.to_disk(tmp_path / "one")
    shutil.move(tmp_path / "one", tmp_path / "two")
    assert links(spacy.load(tmp_path / "two")("A cold."))

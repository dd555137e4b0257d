"""Contract that every component of the package fulfils."""

import inspect
import json
import multiprocessing
import os
import pickle
import shutil
import signal
import subprocess
import sys
from functools import partial

import pytest
import spacy
from components import (
    ALL,
    EXTRACTORS,
    FINDERS,
    FIRST,
    LINKERS,
    kinds,
    linkers,
    with_kb,
    with_mentions,
    with_model,
)
from spacy.tokens import Doc, DocBin
from spacy.training import Example
from spacy.util import fix_random_seed
from thinc.api import Adam
from thinc.config import ConfigValidationError
from tiers import nightly

from spacy_krissel.commands.build_prototypes import build_prototypes
from spacy_krissel.errors import KrisselError, KrisselWarning
from spacy_krissel.kb.prototype_kb import PrototypeKB


def read_files(folder):
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


# Documents ----------------------------------------------------------------------------------------


def test_an_empty_batch_gives_no_docs(nlp, pipe):
    assert list(nlp.pipe([])) == []
    assert list(pipe.pipe([])) == []
    assert pipe.predict([]) == []
    pipe.set_annotations([], [])


@pytest.mark.parametrize("text", ["", "   ", "\n\n\t", "No mention stands here."])
def test_docs_without_mentions_are_unchanged(component, nlp, pipe, text):
    """They go through whole, alone and among others."""
    if "max_entities" in pipe.cfg and text.strip():
        pipe.cfg["threshold"] = 1.0
    doc = nlp.make_doc(text)
    if component.name == "krissel_finder" and text.strip():
        # It says that there are none, as a NER model does.
        doc.ents = []
    before = doc.to_bytes()
    assert nlp(text).to_bytes() == before
    alone, twice = list(nlp.pipe([text])), list(nlp.pipe([text, text]))
    assert [doc.to_bytes() for doc in alone + twice] == [before] * 3


@with_mentions
def test_mentions_are_linked_with_candidates(component, nlp):
    """Without which the rest of this file says nothing."""
    links = [link for doc in component.run(nlp) for link in doc]
    assert len(links) == 10
    assert len({kb_id for _, _, _, kb_id, _, _ in links}) > 3
    assert all(kb_id and len(candidates) >= 5 for _, _, _, kb_id, candidates, _ in links)


@pytest.mark.parametrize("component", kinds(*EXTRACTORS), indirect=True)
def test_entities_and_spans_are_found(component, nlp):
    found = [entity for doc in component.run(nlp) for _, entities in doc for entity in entities]
    assert len({id_ for id_, *_ in found}) > 2
    assert any(spans for doc in component.run(nlp) for spans, _ in doc)


@pytest.mark.parametrize("component", kinds(*FINDERS), indirect=True)
def test_names_are_found(component, nlp):
    found = [each for doc in component.run(nlp) for each in doc]
    assert len(found) == 7 and len({each[3] for each in found}) == 6
    assert {each[5] for each in found} == {"name"}


@pytest.mark.parametrize("batch_size", [1, 2, 3, 128])
def test_pipe_equals_call(component, nlp, batch_size):
    docs = component.docs(nlp)
    piped = list(nlp.pipe(docs, batch_size=batch_size))
    assert piped == docs, "the docs themselves, in their order"
    assert [component.links(doc) for doc in piped] == component.run(nlp)


def test_links_do_not_depend_on_doc_order(component, nlp):
    expected = component.run(nlp)
    backwards = list(nlp.pipe(component.docs(nlp)[::-1]))
    assert [component.links(doc) for doc in backwards[::-1]] == expected


def test_linking_twice_gives_the_same_links(component, nlp):
    docs = component.docs(nlp)
    once = [component.links(nlp(doc)) for doc in docs]
    assert [component.links(nlp(doc)) for doc in docs] == once


def test_errors_reach_the_error_handler(component, nlp, pipe, monkeypatch):
    seen = []
    nlp.set_error_handler(lambda name, proc, docs, error: seen.append((name, type(error))))
    monkeypatch.setattr(pipe, "predict", partial(_fail, ZeroDivisionError))
    list(nlp.pipe(component.docs(nlp)[:1]))
    nlp(component.docs(nlp)[0])
    assert seen == [(component.name, ZeroDivisionError)] * 2


def _fail(error, docs):
    raise error


def test_docs_survive_doc_bin(component, nlp):
    """Links, candidates and ties go to a .spacy file and come back in a vocabulary that never saw
    them."""
    docs = list(nlp.pipe(component.docs(nlp)))
    data = DocBin(docs=docs, store_user_data=True).to_bytes()
    back = list(DocBin().from_bytes(data).get_docs(spacy.blank("en").vocab))
    assert [component.links(doc) for doc in back] == [component.links(doc) for doc in docs]


def test_links_survive_memory_zones(component, nlp):
    expected = component.run(nlp)
    for _ in range(2):
        with nlp.memory_zone():
            assert component.run(nlp) == expected
    assert component.run(nlp) == expected


@with_kb
def test_a_kb_loaded_in_a_memory_zone_outlives_it(component, nlp, pipe):
    """The ids of the knowledge base are not forgotten with the zone in which they came."""
    expected = component.run(nlp)
    fresh = spacy.blank("en").from_config(nlp.config)
    with fresh.memory_zone():
        fresh.get_pipe(component.name).from_disk(component.save() / component.name)
        assert component.run(fresh) == expected
    assert [id_ for id_ in pipe.kb.entity_ids if id_ not in fresh.vocab.strings] == []
    assert component.run(fresh) == expected


# Processes ----------------------------------------------------------------------------------------

SCRIPT = """
import json, multiprocessing, sys
import spacy
from spacy.tokens import DocBin

{read}

def main(method, *pipelines):
    multiprocessing.set_start_method(method)
    for pipeline in pipelines:
        nlp = spacy.load(pipeline)
        docs = lambda: DocBin().from_disk(pipeline + ".spacy").get_docs(nlp.vocab)
        # The parent first, so that its pools of threads exist when workers are forked.
        here = read(nlp.pipe(docs()))
        there = read(nlp.pipe(docs(), n_process=2, batch_size=2))
        print(json.dumps([here, there]))

if __name__ == "__main__":
    main(*sys.argv[1:])
"""


def read(docs):
    """Return the annotations of all components in JSON types."""
    found = []
    for doc in docs:
        ents = [ent for ent in doc.ents if ent.kb_id_]
        links = [
            [e.kb_id_, [c["id"] for c in e._.krissel_candidates], list(e._.krissel_ties)]
            for e in ents
        ]
        spans = [[s.start, s.end, s.kb_id_, s.id_] for group in doc.spans.values() for s in group]
        listed = doc._.krissel_entities if doc.has_extension("krissel_entities") else []
        named = [[e.text, dict(e._.krissel_found)] for e in doc.ents if e._.krissel_found]
        found.append([links, spans, [each["id"] for each in listed], named])
    return found


def run_with_children(command, env, timeout=300):
    """The output of `command`; where it hangs, its workers are ended with it."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = subprocess.Popen(command, **pipes, text=True, env=env, start_new_session=True)
    try:
        output, errors = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        pytest.fail(f"no answer in {timeout} s")
    assert process.returncode == 0, errors
    return output


@pytest.mark.slow
@pytest.mark.parametrize(
    "method, titles",
    # A spawned process imports torch again: one component of a kind, and a transformer.
    [
        ("fork", ALL),
        nightly("spawn", [*FIRST, LINKERS[1], *FINDERS]),
        nightly("forkserver", LINKERS[:1]),
    ],
)
def test_worker_processes_give_the_same_links(component_of, method, titles, tmp_path):
    """All components in one program, which takes longer to start than they take."""
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip(f"this system has no {method}")
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.replace("{read}", inspect.getsource(read)))
    folders, expected = [], []
    for title in titles:
        component = component_of(title)
        nlp = component.load()
        folders.append(shutil.copytree(component.save(), tmp_path / title))
        DocBin(docs=component.docs(nlp)).to_disk(tmp_path / f"{title}.spacy")
        expected.append(read(nlp.pipe(component.docs(nlp))))
    # Two threads, without which there would be no pool that a fork could lose.
    env = {**os.environ, "OMP_NUM_THREADS": "2"}
    output = run_with_children([sys.executable, str(script), method, *map(str, folders)], env)
    found = dict(zip(titles, map(json.loads, output.splitlines()), strict=True))
    for (title, (here, there)), known in zip(found.items(), expected, strict=True):
        assert there == here == known, title


@linkers
def test_a_pickled_linker_keeps_its_kb_and_settings(component, nlp, pipe):
    """Pickled for spawned workers, it keeps its knowledge base and settings."""
    pipe.cfg["n_candidates"] = 2
    copy = pickle.loads(pickle.dumps(pipe))
    assert copy.cfg == pipe.cfg and copy.fingerprint() == pipe.fingerprint()
    docs = component.docs(nlp)
    assert [component.links(copy(doc)) for doc in docs] == component.run(nlp)
    doc = docs[0]
    expected = [candidate.entity_ for candidate in pipe.kb.get_candidates(doc.ents[0])]
    assert [candidate.entity_ for candidate in copy.kb.get_candidates(doc.ents[0])] == expected


# Saving and loading -------------------------------------------------------------------------------


def test_saved_bytes_are_stable_after_loading(component, nlp, tmp_path):
    expected = component.run(nlp)
    nlp.to_disk(tmp_path / "one")
    again = spacy.load(tmp_path / "one")
    assert component.run(again) == expected
    again.to_disk(tmp_path / "two")
    one, two = read_files(tmp_path / "one"), read_files(tmp_path / "two")
    assert sorted(one) == sorted(two)
    assert [name for name in one if one[name] != two[name]] == []
    again.to_disk(tmp_path / "one")
    assert read_files(tmp_path / "one") == one, "saving onto the folder it was loaded from"
    assert component.run(again) == expected


def test_bytes_round_trip_keeps_links(component, nlp):
    data = nlp.to_bytes()
    other = spacy.blank("en").from_config(nlp.config).from_bytes(data)
    assert component.run(other) == component.run(nlp)
    assert other.get_pipe(component.name).to_bytes() == nlp.get_pipe(component.name).to_bytes()


@with_kb
def test_bytes_without_kb_keep_an_attached_kb(component, nlp, pipe):
    """`exclude=["kb"]` leaves the knowledge base out, and a pipe that has one for these weights
    keeps it."""
    expected = component.run(nlp)
    data = pipe.to_bytes(exclude=["kb"])
    assert len(data) < len(pipe.to_bytes())
    other = component.make()
    bare = other.get_pipe(component.name)
    bare.set_kb(other_kb(pipe, encoder=bare.fingerprint()))
    with pytest.warns(KrisselWarning, match="KW601"):
        bare.from_bytes(data)
    bare.set_kb(pipe.kb)
    assert component.run(other) == expected
    bare.from_bytes(data)
    assert component.run(other) == expected


def other_kb(pipe, encoder):
    """The knowledge base of `pipe`, as if another encoder had made it."""
    kb = PrototypeKB(pipe.vocab, pipe.kb.entity_vector_length).from_bytes(pipe.kb.to_bytes())
    kb.encoder = encoder
    return kb


@with_kb
def test_a_pipe_saved_without_kb_takes_one_later(component, nlp, pipe, tmp_path):
    pipe.to_disk(tmp_path / "pipe", exclude=["kb"])
    assert sorted(path.name for path in (tmp_path / "pipe").iterdir()) == [
        "cfg",
        "checksums.json",
        "model",
    ]
    other = component.make()
    bare = other.get_pipe(component.name).from_disk(tmp_path / "pipe")
    bare.set_kb(pipe.kb)
    assert component.run(other) == component.run(nlp)


@linkers
def test_changed_settings_survive_saving(component, nlp, pipe, tmp_path):
    pipe.cfg["threshold"] = 0.99999
    pipe.cfg["n_candidates"] = 2
    nlp.to_disk(tmp_path / "changed")
    again = spacy.load(tmp_path / "changed")
    assert again.get_pipe(component.name).cfg == pipe.cfg
    again.to_disk(tmp_path / "again")
    assert spacy.load(tmp_path / "again").get_pipe(component.name).cfg == pipe.cfg
    assert component.run(again) == component.run(nlp)


EXTRAS = {"lexical_weight": 0.5, "gold_prior": 0.1}


@linkers
def test_extra_scores_survive_batches_saving_and_pickling(component, tmp_path):
    """Lexical similarity and gold prior: equal one by one, in batches, after a save, in another
    process."""
    nlp = component.load(**EXTRAS)
    expected = component.run(nlp)
    assert expected != component.run(component.load())
    for batch_size in (2, 128):
        docs = nlp.pipe(component.docs(nlp), batch_size=batch_size)
        assert [component.links(doc) for doc in docs] == expected
    nlp.to_disk(tmp_path / "extras")
    again = spacy.load(tmp_path / "extras")
    assert {name: again.get_pipe(component.name).cfg[name] for name in EXTRAS} == EXTRAS
    assert component.run(again) == expected
    copy = pickle.loads(pickle.dumps(again.get_pipe(component.name)))
    assert [component.links(copy(doc)) for doc in component.docs(again)] == expected


@linkers
def test_config_overrides_saved_settings(component, nlp, pipe, tmp_path):
    pipe.cfg["threshold"] = 0.99999
    pipe.cfg["n_candidates"] = 2
    nlp.to_disk(tmp_path / "changed")
    again = spacy.load(
        tmp_path / "changed", config={f"components.{component.name}.threshold": 0.25}
    )
    cfg = again.get_pipe(component.name).cfg
    assert (cfg["threshold"], cfg["n_candidates"]) == (0.25, 2)
    again.to_disk(tmp_path / "again")
    cfg = spacy.load(tmp_path / "again").get_pipe(component.name).cfg
    assert (cfg["threshold"], cfg["n_candidates"]) == (0.25, 2)


@with_kb
def test_a_component_can_be_sourced_into_another_pipeline(component, nlp, tmp_path):
    other = spacy.blank("en")
    other.vocab.strings.add("a string that the source has not")
    other.add_pipe("sentencizer")
    other.add_pipe(component.name, source=nlp)
    assert component.run(other) == component.run(nlp)
    other.to_disk(tmp_path / "other")
    assert component.run(spacy.load(tmp_path / "other")) == component.run(nlp)


@pytest.mark.parametrize("name", ["model", "cfg"])
def test_damaged_files_raise_coded_errors(component, name, tmp_path):
    if name == "model" and component.name == "krissel_finder":
        pytest.skip("it has no model")
    path = tmp_path / "pipeline"
    shutil.copytree(component.save(), path)
    file_ = path / component.name / name
    data = file_.read_bytes()
    for damaged in (data[: len(data) // 2], b"", b"something else"):
        file_.write_bytes(damaged)
        with pytest.raises(KrisselError, match=r"K605|K406"):
            spacy.load(path)
    file_.unlink()
    with pytest.raises(KrisselError, match="K605") as error:
        spacy.load(path)
    assert str(path / component.name) in str(error.value) and name in str(error.value)


@with_kb
def test_a_damaged_kb_raises_a_coded_error(component, tmp_path):
    path = tmp_path / "pipeline"
    shutil.copytree(component.save(), path)
    largest = max((path / component.name / "kb").iterdir(), key=lambda file_: file_.stat().st_size)
    largest.write_bytes(largest.read_bytes()[:-8])
    with pytest.raises(KrisselError, match="K004") as error:
        spacy.load(path)
    assert largest.name in str(error.value)


def test_damaged_bytes_raise_coded_errors(component, pipe):
    data = pipe.to_bytes()
    fresh = component.make().get_pipe(component.name)
    for damaged in (data[: len(data) // 2], b"", b"something else"):
        with pytest.raises(KrisselError, match="K605"):
            fresh.from_bytes(damaged)


@with_kb
def test_a_kb_of_another_encoder_raises(component, pipe, tmp_path):
    path = tmp_path / "pipeline"
    shutil.copytree(component.save(), path)
    kb = other_kb(pipe, encoder="another")
    kb.to_disk(path / component.name / "kb")
    with pytest.raises(KrisselError, match="K522"):
        spacy.load(path)
    with pytest.raises(KrisselError, match="K522"):
        pipe.set_kb(kb)
    with pytest.raises(KrisselError, match="K522"):
        pipe.from_bytes(swap_kb(pipe, kb))


def swap_kb(pipe, kb):
    import srsly

    message = srsly.msgpack_loads(pipe.to_bytes())
    message["kb"] = kb.to_bytes()
    return srsly.msgpack_dumps(message)


@with_kb
def test_a_kb_of_another_width_raises(component, nlp, pipe, tmp_path):
    path = tmp_path / "pipeline"
    shutil.copytree(component.save(), path)
    kb = PrototypeKB(nlp.vocab, 7)
    kb.set_entities(component.source.entities())
    kb.to_disk(path / component.name / "kb")
    with pytest.raises(KrisselError, match="K523"):
        spacy.load(path)
    with pytest.raises(KrisselError, match="K528"):
        pipe.set_kb(kb)


# Training -----------------------------------------------------------------------------------------


@with_kb
def test_a_frozen_component_is_not_updated(component, nlp, pipe):
    before, kb = pipe.model.to_bytes(), pipe.kb
    losses = {}
    nlp.update(
        component.examples(nlp),
        sgd=Adam(0.1, use_averages=False),
        losses=losses,
        exclude=[component.name],
    )
    assert pipe.model.to_bytes() == before and pipe.kb is kb and losses == {}


@with_kb
def test_update_without_optimizer_accumulates_the_gradient(component, nlp, pipe):
    """The gradient is kept for the update that the caller makes; the weights do not move before."""
    before = pipe.model.to_bytes()
    losses = pipe.update(component.examples(nlp))
    assert losses[component.name] > 0 and pipe.model.to_bytes() == before
    with pytest.warns(KrisselWarning, match="KW601"):
        pipe.finish_update(Adam(0.01, use_averages=False))
    assert pipe.model.to_bytes() != before


@with_model
def test_training_overfits_a_few_examples(component):
    fix_random_seed(0)
    nlp = component.make()
    optimizer = Adam(component.learn_rate, use_averages=False)
    others = [name for name in nlp.pipe_names if name != component.name]
    losses = [
        nlp.update(component.examples(nlp), sgd=optimizer, exclude=others)[component.name]
        for _ in range(component.steps)
    ]
    assert losses[-1] < 0.7 * losses[0]
    half = component.steps // 2
    assert sum(losses[half:]) < sum(losses[:half])


def test_updating_on_no_examples_gives_zero_loss(component, nlp, pipe):
    assert pipe.update([]) == {component.name: 0.0}


@with_kb
def test_training_clears_the_kb(component, nlp, pipe, tmp_path):
    """New weights do not search old vectors: the knowledge base goes, and what is saved can be
    loaded."""
    with pytest.warns(KrisselWarning, match="KW601"):
        nlp.update(component.examples(nlp), sgd=Adam(0.01, use_averages=False))
    assert pipe.kb.is_empty()
    nlp.to_disk(tmp_path / "trained")
    again = spacy.load(tmp_path / "trained")
    build_prototypes(again, component.source, name=component.name)
    build_prototypes(nlp, component.source, name=component.name)
    assert component.run(again) == component.run(nlp)


@linkers
def test_evaluation_during_training_uses_current_weights(component, make_examples):
    """Development accuracy is measured on prototypes of the present weights, with no knowledge base
    about."""
    nlp = component.make()
    examples = make_examples(nlp)
    pipe = nlp.get_pipe(component.name)
    before = [
        candidate["score"]
        for link in pipe.predict([examples[0].predicted])[0]
        for candidate in link.candidates
    ]
    assert nlp.evaluate(examples)["krissel_acc"] is not None
    nlp.update(examples, sgd=Adam(component.learn_rate, use_averages=False))
    after = [
        candidate["score"]
        for link in pipe.predict([examples[0].predicted])[0]
        for candidate in link.candidates
    ]
    assert after != before


# Config -------------------------------------------------------------------------------------------


def test_components_need_no_settings(component):
    nlp = spacy.blank("en")
    nlp.add_pipe(component.name)
    assert component.name in nlp.pipe_names


@linkers
def test_analyze_pipes_reports_missing_requirements(component, nlp):
    nlp.add_pipe("entity_ruler", first=True)
    analysis = nlp.analyze_pipes()
    assert analysis["problems"][component.name] == []
    assert analysis["summary"][component.name]["requires"] == ["doc.ents"]
    assert "token.ent_kb_id" in analysis["summary"][component.name]["assigns"]
    nlp.remove_pipe("entity_ruler")
    assert nlp.analyze_pipes()["problems"][component.name] == ["doc.ents"]


@linkers
def test_misspelt_settings_raise(component):
    with pytest.raises(ConfigValidationError, match="n_candidats"):
        spacy.blank("en").add_pipe(component.name, config={"n_candidats": 3})
    with pytest.raises(ConfigValidationError, match="treshold"):
        component.load(treshold=0.5)


@linkers
def test_misspelt_settings_of_a_loaded_pipe_raise(pipe):
    cfg = pipe.cfg
    for change in (
        partial(cfg.__setitem__, "treshold", 0.5),
        partial(cfg.update, treshold=0.5),
        partial(cfg.setdefault, "treshold", 0.5),
        partial(cfg.__ior__, {"treshold": 0.5}),
    ):
        with pytest.raises(KrisselError, match="K607") as error:
            change()
        assert "'treshold'" in str(error.value) and "threshold" in str(error.value)
    assert "treshold" not in pipe.cfg


@linkers
def test_invalid_settings_raise(component, pipe):
    for change in (
        partial(spacy.blank("en").add_pipe, component.name, config={"n_candidates": -1}),
        partial(component.load, n_candidates=-1),
        partial(pipe.cfg.__setitem__, "n_candidates", -1),
        partial(pipe.cfg.__ior__, {"n_candidates": -1}),
    ):
        with pytest.raises(KrisselError, match="K006") as error:
            change()
        assert "'n_candidates' is -1" in str(error.value)
    # What a dict does otherwise stays as it is.
    before = dict(pipe.cfg)
    pipe.cfg |= {"n_candidates": 7}
    assert pipe.cfg == {**before, "n_candidates": 7} and type(pipe.cfg) is not dict
    assert pipe.cfg.setdefault("n_candidates", 3) == 7


@with_model
def test_without_a_scorer_there_are_no_scores(component):
    nlp = component.load(scorer=None)
    pipe = nlp.get_pipe(component.name)
    examples = [Example(doc, doc.copy()) for doc in component.docs(nlp)]
    assert pipe.score(examples) == {}
    assert nlp.evaluate(examples)["speed"] > 0


@with_mentions
def test_the_default_scorer_reports_accuracy_and_span_f(component, nlp, make_examples):
    scores = nlp.evaluate(make_examples(nlp))
    assert 0 < scores["krissel_acc"] <= 1 and 0 < scores["krissel_span_f"] <= 1


@linkers
def test_an_uninitialized_linker_raises(component, nlp, make_examples):
    nlp = spacy.blank("en").from_config(nlp.config)
    pipe = nlp.get_pipe(component.name)
    doc = component.docs(nlp)[0]
    with pytest.raises(KrisselError, match="K603"):
        nlp(doc)
    with pytest.raises(KrisselError, match="K604"):
        nlp.update(make_examples(nlp))
    with pytest.raises(KrisselError, match="K604"):
        pipe.encode(pipe.views(doc, doc.ents))
    assert isinstance(nlp("Nothing to link is nothing to complain about."), Doc)


@linkers
def test_linking_with_an_empty_kb_raises(component):
    nlp = component.make()
    pipe = nlp.get_pipe(component.name)
    pipe._dev = None
    doc = component.docs(nlp)[0]
    with pytest.raises(KrisselError, match="K603"):
        nlp(doc)
    with pytest.raises(KrisselError, match="K520"):
        pipe.kb.get_candidates(doc.ents[0])
    pipe.set_kb(pipe.new_kb())
    with pytest.raises(KrisselError, match="K603"):
        nlp(doc)

"""`krissel build`: from an ontology to a pipeline, with and without text and a pipeline that finds
mentions."""

import gc
import inspect
import json

import numpy as np
import pytest
import spacy
from spacy.tokens import Span
from tiers import nightly

import spacy_krissel
from spacy_krissel import Entity, KrisselError, KrisselWarning, build, build_ontology
from spacy_krissel.commands import build_linker
from spacy_krissel.commands.show_entity import show
from spacy_krissel.evaluation.confidence import TRUST, ConfidenceFit, show_fit_confidence
from spacy_krissel.index import devices
from spacy_krissel.kb.prototype_kb import PrototypeKB
from spacy_krissel.pipeline.linker.confidence import BY_CHANCE, LISTED
from spacy_krissel.pipeline.pipeline_io import find_linker
from spacy_krissel.views import View

TEXT = "She had rickets, MS and a common cold."


@pytest.fixture
def finder(tmp_path):
    nlp = spacy.blank("en")
    patterns = [{"label": "Disease", "pattern": name} for name in ("rickets", "MS", "common cold")]
    nlp.add_pipe("entity_ruler").add_patterns(patterns)
    nlp.to_disk(tmp_path / "finder")
    return tmp_path / "finder"


@pytest.fixture
def plain(toy_files, make_once):
    """A linker of the toy ontology as `build` makes it, for tests that only read it."""
    ontology = toy_files / "ontology.jsonl"
    return make_once("plain", lambda folder: build(ontology, folder / "linker")) / "linker"


def test_one_command_builds_a_pipeline(run, toy_files, finder, tmp_path):
    ontology = toy_files / "ontology.jsonl"
    said = run(
        "build", ontology, "--output", tmp_path / "built", "--ner", finder, "--precision", "0.5"
    )
    assert "12 entities" in said and "spacy.load(" in said and "finds mentions" not in said
    nlp = spacy.load(tmp_path / "built")
    assert nlp.pipe_names == ["entity_ruler", "krissel_linker"]
    links = {ent.text: ent.kb_id_ for ent in nlp(TEXT).ents}
    assert links["rickets"] == "T12" and links["common cold"] == "T04"
    candidate = nlp(TEXT).ents[0]._.krissel_candidates[0]
    # A listed name, where a quarter of mentions is expected to have no entity.
    known = 0.75 * LISTED / (0.75 * LISTED + 0.25 * BY_CHANCE)
    assert candidate["confidence"] == pytest.approx(TRUST * known)
    assert nlp.get_pipe("krissel_linker").kb["T04"].aliases
    # Nothing is left of the work.
    assert sorted(path.name for path in tmp_path.iterdir()) == ["built", "finder"]


@pytest.mark.slow
def test_text_is_mined_and_trained_on(toy_files, tmp_path, monkeypatch, capsys):
    texts = toy_files / "texts.jsonl"
    monkeypatch.setattr(build_linker, "MIN_MENTIONS", 10)
    trained = []
    original = build_linker.train
    monkeypatch.setattr(
        build_linker,
        "train",
        lambda *args, **settings: trained.append(settings) or original(*args, **settings),
    )
    built = build(toy_files / "ontology.jsonl", tmp_path / "built", text=[texts], steps=2)
    assert built.n_mentions > 0 and built.n_entities == 12
    # Who asked for no progress has the training's log as well.
    assert capsys.readouterr().out == ""
    assert [each["overrides"]["training.max_steps"] for each in trained] == [2]
    kinds = (
        spacy.load(tmp_path / "built")
        .get_pipe("krissel_linker")
        .kb.description()["prototype_kinds"]
    )
    assert kinds["mention"] == built.n_mentions
    # Mined mentions as prototypes of the encoder as it is.
    built = build(toy_files / "ontology.jsonl", tmp_path / "again", text=[str(texts)], steps=0)
    assert built.n_mentions > 0 and len(trained) == 1
    monkeypatch.setattr(build_linker, "MIN_MENTIONS", 10_000)
    with pytest.warns(KrisselWarning, match="KW680"):
        built = build(toy_files / "ontology.jsonl", tmp_path / "few", text=[texts], steps=2)
    assert built.n_mentions > 0 and len(trained) == 1


@pytest.mark.slow
def test_a_build_reports_each_step(toy_files, tmp_path, monkeypatch, terminal):
    ontology, texts = toy_files / "ontology.jsonl", toy_files / "texts.jsonl"
    monkeypatch.setattr(build_linker, "MIN_MENTIONS", 10)
    with monkeypatch.context() as patched:
        patched.setattr(build_linker, "fit_confidence", lambda *args, **settings: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            build(ontology, tmp_path / "built", text=[texts], steps=2, progress=True)
    said = terminal.readouterr()
    steps = [
        "Reading the ontology",
        "Mining mentions",
        "Training the encoder",
        "Encoding names and mentions",
    ]
    places = [said.out.index(f"{number}/5 {step}") for number, step in enumerate(steps, 1)]
    assert places == sorted(places) and "5/5 Fitting" in said.out
    for bar in ("Reading", "Mining", "Training", "Prototypes"):
        assert f"{bar}: 100%" in said.err
    build(ontology, tmp_path / "built", text=[texts], steps=2, progress=True)
    said = terminal.readouterr()
    assert all(
        f"{number}/5 {step} (already done)" in said.out for number, step in enumerate(steps, 1)
    )
    assert "Confidence: 100%" in said.err and "Training" not in said.err
    build(ontology, tmp_path / "names", progress=True)
    said = terminal.readouterr().out
    assert "2/4 Making the encoder" in said and "4/4 Fitting" in said


@pytest.mark.slow
def test_a_build_starts_from_the_shipped_encoder_and_stays_small(
    toy_files, plain, tmp_path, monkeypatch
):
    monkeypatch.setattr(build_linker, "MIN_MENTIONS", 10)
    views = [View("He had ", "common cold", " in winter"), View("", "rickets", "")]
    as_shipped = find_linker(spacy.load(build_linker.COMPACT)).encode(views)
    np.testing.assert_array_equal(find_linker(spacy.load(plain)).encode(views), as_shipped)
    # Trained by two steps, of which the first has a rate of 0.
    text = build(
        toy_files / "ontology.jsonl", tmp_path / "text", text=[toy_files / "texts.jsonl"], steps=2
    )
    trained = find_linker(text.nlp).encode(views)
    assert not np.array_equal(trained, as_shipped)
    np.testing.assert_allclose(trained, as_shipped, atol=0.2)
    sizes = [
        (path / "krissel_linker" / "model").stat().st_size for path in (plain, tmp_path / "text")
    ]
    assert (
        max(sizes) < 16e6
        and build_linker.COMPACT.joinpath("krissel_linker", "model").stat().st_size < 16e6
    )


@pytest.mark.slow
def test_an_interrupted_build_resumes_and_refuses_other_work(toy_files, tmp_path, monkeypatch):
    ontology, made = toy_files / "ontology.jsonl", []
    original = build_linker.build_ontology
    monkeypatch.setattr(
        build_linker,
        "build_ontology",
        lambda *args, **settings: made.append(1) or original(*args, **settings),
    )

    def killed(*args, **settings):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(build_linker, "fit_confidence", killed)
        with pytest.raises(KeyboardInterrupt):
            build(ontology, tmp_path / "built")
    assert not (tmp_path / "built").exists()
    with pytest.raises(KrisselError, match="K680.*seed"):
        build(ontology, tmp_path / "built", seed=1)
    # What an earlier release left is not mixed with what this one makes.
    for name, other in (("COMPACT", tmp_path / "another"), ("__version__", "9.9.9")):
        with monkeypatch.context() as patched:
            patched.setattr(build_linker, name, other)
            with pytest.raises(
                KrisselError, match="K680.*(encoder changed|spacy-krissel was .* and is '9.9.9')"
            ):
                build(ontology, tmp_path / "built")
    build(ontology, tmp_path / "built")
    assert len(made) == 1 and (tmp_path / "built" / "meta.json").exists()


@pytest.mark.slow
def test_a_changed_ontology_folder_is_detected(run, tmp_path, monkeypatch):
    folder = tmp_path / "RxNorm" / "rrf"
    folder.mkdir(parents=True)
    row = "{0}|ENG||||||1||{0}||RXNORM|{1}|{0}|{2}||N||\n"
    rows = [
        row.format(*each)
        for each in (
            (1, "IN", "colchicine"),
            (1, "SY", "colchicin"),
            (2, "IN", "aspirin"),
            (2, "SY", "ASA"),
        )
    ]
    (folder / "RXNCONSO.RRF").write_text("".join(rows[:2]))
    with monkeypatch.context() as patched:
        patched.setattr(build_linker, "fit_confidence", lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            build(folder.parent, tmp_path / "built")
        # A file that is not read.
        (folder / "RXNDOC.RRF").write_text("anything")
        with pytest.raises(ZeroDivisionError):
            build(folder.parent, tmp_path / "built")
    (folder / "RXNCONSO.RRF").write_text("".join(rows))
    with pytest.raises(KrisselError, match="K680.*ontology"):
        build(folder.parent, tmp_path / "built")
    assert "2 entities" in run("build", folder.parent, "--output", tmp_path / "built", "--restart")
    kb = spacy.load(tmp_path / "built").get_pipe("krissel_linker").kb
    assert kb["RXNORM:2"].name == "aspirin"


def test_entities_can_be_passed_without_a_file(tmp_path):
    entities = [
        Entity("X1", "Odd disease", ("oddity",)),
        Entity("X2", "Even disease", ("evenness", "even fever")),
    ]
    built = build(entities, tmp_path / "built")
    assert built.n_entities == 2
    doc = built.nlp.make_doc("oddity")
    doc.ents = [doc.char_span(0, 6, label="D")]
    assert built.nlp.get_pipe("krissel_linker")(doc).ents[0].kb_id_ == "X1"


def test_mentions_are_linked_to_the_types_of_their_label(run, refuse, tmp_path):
    path = tmp_path / "all.jsonl"
    records = [("G1", "MS", "Gene"), ("D1", "MS", "Disease"), ("D2", "Gout", "Disease")]
    lines = [
        json.dumps({"concept_id": id_, "canonical_name": name, "types": [type_]})
        for id_, name, type_ in records
    ]
    path.write_text("\n".join(lines))
    said = refuse("build", path, "-o", tmp_path / "x", "--types-by-label", "GENE=Genes")
    assert "[K006]" in said and "'Disease', 'Gene'" in said and not (tmp_path / "x").exists()
    assert "[K006]" in refuse("build", path, "-o", tmp_path / "x", "--types-by-label", "Gene")
    run(
        "build",
        path,
        "-o",
        tmp_path / "x",
        *("--types-by-label", "a.GENE=Gene", "--types-by-label", "DIS=Disease"),
    )
    nlp = spacy.load(tmp_path / "x")
    doc = nlp.make_doc("MS or MS")
    doc.ents = [Span(doc, 0, 1, label="a.GENE"), Span(doc, 2, 3, label="DIS")]
    assert [ent.kb_id_ for ent in nlp.get_pipe("krissel_linker")(doc).ents] == ["G1", "D1"]


@pytest.mark.slow
def test_invalid_build_arguments_are_refused_early(toy_files, plain, refuse, tmp_path):
    ontology = toy_files / "ontology.jsonl"
    assert "[K006]" in refuse("build", ontology, "-o", tmp_path / "x", "--steps", "3")
    assert "[K611]" in refuse(
        "build", ontology, "-o", tmp_path / "x", "--ner", tmp_path / "nothing"
    )
    (tmp_path / "y").mkdir()
    (tmp_path / "y" / "mine.txt").write_text("mine")
    assert "[K005]" in refuse("build", ontology, "-o", tmp_path / "y")
    assert "[K006]" in refuse("build", ontology, "-o", tmp_path / "x", "--ner", plain)
    assert not (tmp_path / "x").exists()


@pytest.mark.slow
def test_a_transformer_can_be_used_untrained(toy_files, tiny_bert, tmp_path):
    asked = {"text": [toy_files / "texts.jsonl"], "encoder": str(tiny_bert), "steps": 0}
    built = build(toy_files / "ontology.jsonl", tmp_path / "built", **asked)
    assert built.nlp.config["components"]["krissel_linker"]["model"]["name"] == str(tiny_bert)


@pytest.mark.slow
def test_saved_vectors_are_freed_before_they_are_loaded_again(tmp_path, monkeypatch):
    """Both would take the memory of a large ontology twice."""

    def filled():
        # Not `isinstance`, which asks weak references to objects that are gone.
        return sum(type(each) is PrototypeKB and len(each) == 3 for each in gc.get_objects())

    gc.collect()
    before, meanwhile = filled(), []
    fit = build_linker.fit_confidence
    monkeypatch.setattr(
        build_linker,
        "fit_confidence",
        lambda *args, **kwargs: meanwhile.append(filled()) or fit(*args, **kwargs),
    )
    # It may run by chance.
    gc.disable()
    try:
        build([Entity(str(i), f"disease {i}") for i in range(3)], tmp_path / "linker")
    finally:
        gc.enable()
    assert meanwhile == [before + 1]


@pytest.mark.slow
def test_the_index_device_is_used_and_kept(toy_files, finder, tmp_path, monkeypatch):
    monkeypatch.setattr(devices, "cuda_lost", lambda: True)
    output = tmp_path / "built"
    build(toy_files / "ontology.jsonl", output, ner=str(finder), index_device="cuda:0")
    kb = spacy.load(output).get_pipe("krissel_linker").kb
    assert kb.index_device == kb.build_index().device == "cuda:0"


def test_build_in_python_takes_a_gpu_id(toy_files, tmp_path):
    with pytest.raises(KrisselError, match="K675.*GPU 99"):
        build(toy_files / "ontology.jsonl", tmp_path / "built", gpu_id=99)
    assert not any(tmp_path.iterdir())


def test_build_and_ontology_take_table_columns_as_options(run, refuse, tmp_path):
    table = tmp_path / "lab.csv"
    table.write_text(
        "Nummer;Wort;Auch\nL:1;glucose;sugar; dextrose\nL:2;sodium;Na\n".replace(
            "sugar; dextrose", '"sugar; dextrose"'
        )
    )
    said = refuse("build", table, "-o", tmp_path / "built")
    assert "K118" in said and "'Nummer', 'Wort', 'Auch'" in said and "--id-column" in said
    columns = (
        "--id-column",
        "nummer",
        "--name-column",
        "Wort",
        "--synonym-column",
        "AUCH",
        "--separator",
        ";",
    )
    assert "2 entities, 5 names" in run("build", table, "-o", tmp_path / "built", *columns)
    assert "2 entities, 5 names" in run("ontology", table, "-o", tmp_path / "store", *columns)


@pytest.mark.parametrize(
    "ontology",
    [
        [("L:1", "x")],
        [{"id": "L:1"}],
        {"L:1": "x"},
        [Entity("L:1", "x"), "hpo"],
        ["hpo", Entity("L:1", "x")],
        [],
        3,
        None,
    ],
)
def test_ontologies_that_are_neither_entities_nor_paths_are_refused(tmp_path, ontology):
    with pytest.raises(KrisselError, match="K006.*'ontology'.*Entity"):
        build(ontology, tmp_path / "built")
    assert not [*tmp_path.iterdir()]


def test_settings_for_passed_entities_are_applied_or_refused(tmp_path):
    above, below, other = (
        Entity("L:1", "lung"),
        Entity("L:2", "lobe", parents=["L:1"]),
        Entity("L:3", "liver"),
    )
    built = build([above, below, other], tmp_path / "built", below=["L:1"], not_below=["L:2"])
    assert built.n_entities == 1
    for settings, code in (
        ({"below": ["L:9"]}, "K113"),
        ({"separator": ";"}, "K110.*store.*'separator'"),
        ({"language": "fr"}, "K110.*'language'"),
    ):
        with pytest.raises(KrisselError, match=code):
            build([above, below], tmp_path / "refused", **settings)
        assert not (tmp_path / "refused").exists()


def test_unknown_settings_of_public_functions_are_refused(toy_files, tmp_path):
    """Each with the least that is needed to get to its settings."""
    store = build_ontology(toy_files / "ontology.jsonl", tmp_path / "store").path
    gold, nlp = toy_files / "gold.pubtator", build([Entity("T04", "cold")], tmp_path / "built").nlp
    calls = {
        "build": (store, tmp_path / "out"),
        "build_ontology": (store, tmp_path / "out"),
        "build_prototypes": (nlp, store),
        "convert": (gold, tmp_path / "out.spacy"),
        "evaluate": (nlp, gold, store),
    }
    public = {name: getattr(spacy_krissel, name) for name in spacy_krissel.__all__}
    takes_any = {
        name
        for name, each in public.items()
        if inspect.isfunction(each) and inspect.unwrap(each).__code__.co_flags & 8
    }
    # The readers of formats have options of their own.
    assert takes_any == {"build_ontology"}
    for name, given in calls.items():
        error = KrisselError if name in takes_any else TypeError
        with pytest.raises(error, match="no_such_setting"):
            public[name](*given, no_such_setting=3)
    assert not [*tmp_path.glob("out*")]


@pytest.mark.parametrize("n, stated", [(99, False), (100, True)])
def test_percentages_are_shown_only_for_100_names_or_more(n, stated):
    data = {
        "n": n,
        "n_with_other_names": n,
        "right_without_the_name": 0.5,
        "precision_known": 0.9,
        "linked_other": 0.1,
        "nil_share_by_label": {},
    }
    nlp = spacy.blank("en")
    said = build_linker.show_build(build_linker.Built(nlp, "out", n, n, 0, data))
    fit = ConfidenceFit(None, 0.5, data)
    for text in (said, show_fit_confidence(fit, "out")):
        assert ("Too few names to tell" in text) is not stated
        assert ("%" in text) is stated


def test_a_linker_is_built_with_a_finder(run, plain):
    """A text is all that it needs, from the command line too."""
    assert spacy.load(plain).pipe_names == ["krissel_finder", "krissel_linker"]
    said = run("link", plain, "Multiple scleroses were seen.")
    assert "Multiple scleroses" in said and "T01" in said and "variant" in said
    said = run("show", plain, "multiple scleroses", "--variants")
    assert said.splitlines()[-1] == "multiple scleroses: form of multiple sclerosis (T01)"
    said = run("show", plain, "MS", "--variants")
    assert "MS: not found as MS: it is an acronym" in said and "`lone_acronyms`" in said
    assert "no name of up to 16 words" in run("show", plain, "gout", "--variants")


@pytest.mark.parametrize(
    "find, names, variants",
    [
        nightly("auto", ["pain", "sore knee"], "words"),
        ("auto", ["IL2", "interleukin 2"], "spelling"),
        ("words", ["IL2", "interleukin 2"], "words"),
        ("auto", ["CD4-positive T cell", "CD8-positive T cell", "T2 cell"], "words"),
        nightly("spelling", ["pain", "sore knee"], "spelling"),
    ],
)
def test_names_with_digits_are_found_by_spelling_only(find, names, variants, tmp_path):
    entities = [Entity(f"X:{number}", name) for number, name in enumerate(names)]
    nlp = build(entities, tmp_path / "built", find=find).nlp
    assert nlp.get_pipe("krissel_finder").cfg["variants"] == variants


@pytest.mark.parametrize("find", ["words", "spelling"])
def test_what_is_not_found_without_plurals_is_explained(find, tmp_path):
    build([Entity("X:1", "sore knee")], tmp_path / "built", find=find)
    first, *others = show(tmp_path / "built", "sore knees", variants=True).splitlines()
    if find == "words":
        assert (first, others) == ("sore knees: form of sore knee (X:1)", [])
    else:
        assert first.startswith("sore knees: not found as sore knee: its words, their forms")
        assert others == [
            "`variants` is 'spelling': plurals and other orders of words are not found"
        ]


def test_a_finder_is_added_to_a_ner_on_request(toy_files, finder, refuse, tmp_path):
    ontology = toy_files / "ontology.jsonl"
    alone = build(ontology, tmp_path / "alone", ner=str(finder)).nlp
    assert alone.pipe_names == ["entity_ruler", "krissel_linker"]
    both = build(ontology, tmp_path / "both", ner=str(finder), find="words").nlp
    assert both.pipe_names == ["entity_ruler", "krissel_finder", "krissel_linker"]
    none = build(ontology, tmp_path / "none", find="none").nlp
    assert none.pipe_names == ["krissel_linker"]
    assert "[K620]" in refuse("show", tmp_path / "none", "pain", "--variants")

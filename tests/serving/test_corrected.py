"""A linker with corrections: as the pipeline links, and a correction counts, no longer and no
less."""

import json
import sys
import tarfile
from io import BytesIO
from zipfile import ZipFile

import pytest
import spacy
from hypothesis import given, settings
from hypothesis import strategies as st
from spacy.tokens import DocBin

from spacy_krissel.errors import KrisselError, KrisselWarning
from spacy_krissel.mentions.gold_mentions import ID_KEY
from spacy_krissel.render.formats import WRITERS
from spacy_krissel.serving import corrected, vector_cache
from spacy_krissel.serving.corrected import CorrectedLinker, Document, Mention
from spacy_krissel.serving.corrections import CorrectionLog

TEXT = "He had a cold, and MS."
COLD = {"text": TEXT, "start": 9, "end": 13}


@pytest.fixture(scope="module")
def shared_linker(saved):
    return CorrectedLinker(spacy.load(saved))


def correct(linker, **values):
    """Add a correction as the service does."""
    made = linker.checked(CorrectionLog().new(**values))
    linker.add(made)
    return made


def answer(linker):
    """All that is said of the text, scores included."""
    return linker.link([Document(TEXT)])


def test_answer_equals_the_pipelines_links(linker, saved):
    doc = spacy.load(saved)(TEXT)
    (found,) = answer(linker)
    assert [(each["start"], each["end"], each["kb_id"]) for each in found["mentions"]] == [
        (ent.start_char, ent.end_char, ent.kb_id_) for ent in doc.ents
    ]
    assert [each["candidates"] for each in found["mentions"]] == [
        ent._.krissel_candidates for ent in doc.ents
    ]
    assert "text" not in found


def test_given_mentions_are_linked(linker):
    (found,) = linker.link([Document(TEXT, "a", (Mention(9, 13, "Y"), Mention(3, 6)))])
    # In the order of the text.
    assert found["id"] == "a"
    assert [(each["text"], each["label"]) for each in found["mentions"]] == [
        ("had", "MENTION"),
        ("cold", "Y"),
    ]
    assert linker.link([Document(TEXT, mentions=())])[0]["mentions"] == []


@pytest.mark.parametrize(
    "mentions, problem",
    [
        ([Mention(-1, 2)], "outside"),
        ([Mention(2, 2)], "outside"),
        ([Mention(0, 99)], "outside"),
        ([Mention(2, 3)], "white space only"),
        (
            [Mention(0, 9)] * 2 + [Mention(0, end) for end in range(1, 9)],
            "9 mentions of the same words; .* 4 are",
        ),
    ],
)
def test_invalid_mentions_raise(linker, mentions, problem, monkeypatch):
    monkeypatch.setattr(corrected, "MAX_COPIED", 4 * len(TEXT))
    with pytest.raises(KrisselError, match=rf"K682.*Document 1 \('b'\).*{problem}"):
        linker.link([Document(TEXT), Document(TEXT, "b", tuple(mentions))])
    assert answer(linker)


def place(mention):
    return mention["start"], mention["end"], mention["text"]


@pytest.mark.parametrize("key", ["", "mentions"])
def test_mentions_inside_tokens_keep_their_offsets(nlp, key):
    nlp.get_pipe("krissel_linker").cfg["spans_key"] = key
    linker = CorrectedLinker(nlp)
    text = "An anticold remedy, cold-like. "
    asked = [(7, 11), (3, 7), (19, 24), (20, 24), (29, 31)]
    (found,) = linker.link([Document(text, mentions=tuple(Mention(*each) for each in asked))])
    assert [*map(place, found["mentions"])] == [
        (*each, text[slice(*each)]) for each in sorted(asked)
    ]
    # Each is linked by its own words.
    by_place = {place(each)[:2]: each["kb_id"] for each in found["mentions"]}
    assert by_place[7, 11] == by_place[20, 24] == by_place[19, 24] == "D2"


@pytest.mark.parametrize("key", ["", "mentions"])
def test_overlapping_mentions_are_linked_as_if_alone(nlp, key):
    nlp.get_pipe("krissel_linker").cfg["spans_key"] = key
    linker = CorrectedLinker(nlp)
    text = "A common cold, no multiple sclerosis."
    asked = [
        Mention(2, 13),
        Mention(9, 13),
        Mention(2, 8),
        Mention(9, 13, "Y"),
        Mention(18, 36),
        Mention(9, 13),
    ]
    (together,) = linker.link([Document(text, mentions=tuple(asked))])
    alone = [
        linker.link([Document(text, mentions=(each,))])[0]["mentions"] for each in sorted(asked)
    ]
    assert [(*place(each), each["label"], each["kb_id"]) for each in together["mentions"]] == [
        (*place(each), each["label"], each["kb_id"]) for (each,) in alone
    ]
    assert [each["kb_id"] for each in together["mentions"]][1:5] == ["D2"] * 4


@given(st.text("ab -\n😀", max_size=12), st.data())
def test_any_mentions_are_answered_at_their_offsets(shared_linker, text, data):
    offsets = st.integers(0, len(text))
    asked = data.draw(st.lists(st.tuples(offsets, offsets), max_size=6))
    asked = [Mention(*each) for each in asked if text[slice(*each)].strip()]
    (found,) = shared_linker.link([Document(text, mentions=tuple(asked))])
    assert [(each["start"], each["end"]) for each in found["mentions"]] == [
        each[:2] for each in sorted(asked)
    ]


def test_text_without_a_mention_finder_raises(nlp):
    nlp.remove_pipe("entity_ruler")
    linker = CorrectedLinker(nlp)
    with pytest.raises(KrisselError, match=r"K682.*no component"):
        answer(linker)
    assert (
        linker.link([Document(TEXT, mentions=(Mention(9, 13),))])[0]["mentions"][0]["kb_id"] == "D2"
    )


def test_correction_counts_and_is_undone_exactly(linker):
    before = answer(linker)
    assert before[0]["mentions"][0]["kb_id"] == "D2"
    made = correct(linker, **COLD, right=("D3",), linked="D2", author="Ada")
    corrected = answer(linker)
    assert corrected[0]["mentions"][0]["kb_id"] == "D3"
    assert "⟦cold⟧" in corrected[0]["mentions"][0]["candidates"][0]["evidence"]
    # Another one in between, and both are taken back in another order.
    other = correct(linker, text="MS was used.", start=0, end=2, right=("C1",))
    for _ in range(2):
        linker.remove(made.id)
        linker.add(other)
    linker.remove(other.id)
    assert answer(linker) == before
    assert linker.in_force == []


def test_undone_corrections_leave_no_trace(linker, saved):
    first = correct(linker, **COLD, right=("D3",))
    correct(linker, text="MS was used.", start=0, end=2, right=("C1",))
    linker.remove(first.id)
    fresh = CorrectedLinker(spacy.load(saved))
    correct(fresh, text="MS was used.", start=0, end=2, right=("C1",))
    assert answer(linker) == answer(fresh)


def test_only_new_corrections_are_encoded(linker, monkeypatch):
    encoded = []
    encode = linker.linker.encode
    monkeypatch.setattr(
        linker.linker, "encode", lambda views: encoded.extend(views) or encode(views)
    )
    first = correct(linker, **COLD, right=("D3",))
    assert [view.mention for view in encoded] == ["cold"]
    correct(linker, text="MS was used.", start=0, end=2, right=("C1",))
    assert [view.mention for view in encoded] == ["cold", "MS"]
    linker.remove(first.id)
    assert len(encoded) == 2
    # What is not in force is forgotten.
    correct(linker, **COLD, right=("D3",))
    assert [view.mention for view in encoded] == ["cold", "MS", "cold"]


def test_corrections_survive_a_restart(nlp, saved, tmp_path):
    log = CorrectionLog(tmp_path / "corrections.jsonl")
    linker = CorrectedLinker(nlp)
    log.add(correct(linker, **COLD, right=("D3",)))
    log.add(correct(linker, **COLD, right=()))
    corrected = answer(linker)
    log.close()
    kept, again = CorrectionLog(log.path), CorrectedLinker(spacy.load(saved))
    again.follow(kept.in_force)
    ids = [each.id for each in kept.in_force]
    assert answer(again) == corrected and again.in_force == ids == linker.in_force
    kept.close()


SAID = [
    (TEXT, 9, 13, ("D3",)),
    (TEXT, 9, 13, ("D0",)),
    (TEXT, 9, 13, ()),
    (TEXT, 9, 13, ("D9",)),
    (TEXT, 9, 13, (), ("D2",)),
    (TEXT, 9, 13, (), ("D3",)),
    ("A cold hand.", 2, 6, (), ("D2", "D3")),
    ("A cold night.", 2, 6, ("D3",)),
    ("A cold hand.", 2, 6, ("D3",)),
    ("A cold hand.", 2, 6, ("D2", "D3")),
    ("MS was used.", 0, 2, ("C1",)),
    ("MS was used.", 3, 6, ("D1",)),
    ("A chilblain, once.", 2, 11, ("D3",)),
    ("chilblain", 0, 9, ("D3", "D3")),
    ("Kälte? cold", 0, 5, ("D2",)),
]
LINKED = [
    Document(TEXT),
    Document(
        "A cold hand, chilblains, kalte, MS, was.",
        "",
        (Mention(2, 6), Mention(13, 23), Mention(25, 30), Mention(36, 39)),
    ),
]


def values(text, start, end, right, rejected=()):
    return {"text": text, "start": start, "end": end, "right": right, "rejected": rejected}


DONE = st.lists(
    st.tuples(st.sampled_from(["add", "add", "remove", "follow"]), st.integers(0, 50)), max_size=12
)


@pytest.fixture(scope="module")
def other_linker(saved):
    return CorrectedLinker(spacy.load(saved))


@pytest.mark.filterwarnings("ignore:.*KW682")
@settings(deadline=None, max_examples=25)
@given(done=DONE)
def test_corrections_in_force_do_not_depend_on_their_history(shared_linker, other_linker, done):
    log = CorrectionLog()
    linker = shared_linker
    linker.follow([])
    in_force = []
    for do, number in done:
        if do == "add":
            in_force.append(log.new(**values(*SAID[number % len(SAID)])))
            linker.add(in_force[-1])
        elif do == "follow":
            in_force = in_force[number % 4 :]
            linker.follow(in_force[:2], is_last=False)
            linker.follow(in_force[2:], is_first=False)
        elif in_force:
            linker.remove(in_force.pop(number % len(in_force)).id)
    other_linker.follow(in_force)
    assert linker.in_force == [each.id for each in in_force]
    linked = linker.link(LINKED)
    assert nearly(linked) == nearly(other_linker.link(LINKED))
    # By the same vectors, all is exactly as it was.
    more = [log.new(**values(*each)) for each in SAID]
    for each in more:
        linker.add(each)
    for each in more[::-1]:
        linker.remove(each.id)
    assert linker.link(LINKED) == linked and linker.in_force == [each.id for each in in_force]


def nearly(values):
    """Without what an encoder rounds otherwise among other views."""
    if isinstance(values, float):
        return round(values, 4)
    if isinstance(values, dict):
        return {key: nearly(value) for key, value in values.items()}
    return [nearly(value) for value in values] if isinstance(values, list) else values


def test_start_reuses_cached_vectors_of_the_same_encoder(saved, tmp_path, monkeypatch):
    monkeypatch.setattr(vector_cache, "MIN_NEW", 2)
    path, log = tmp_path / "vectors.npz", CorrectionLog()
    log.add(log.new(**COLD, right=("D3",)))

    def started(encoder=None):
        """Return the answer and the number of encoded views."""
        linker, encoded = CorrectedLinker(spacy.load(saved), vectors=path), []
        encode = linker.linker.encode
        monkeypatch.setattr(
            linker.linker, "encode", lambda views: encoded.extend(views) or encode(views)
        )
        if encoder is not None:
            monkeypatch.setattr(linker.linker, "fingerprint", lambda: encoder)
            monkeypatch.setattr(linker.linker, "set_kb", lambda kb: None)
        linker.follow(log.in_force)
        n = len(encoded)
        return answer(linker), n

    # Too few for a file.
    assert started()[1] == 1 and not path.exists()
    log.add(log.new(text="MS was used.", start=0, end=2, right=("C1",)))
    first, n = started()
    assert n == 2 and started() == (first, 0)
    # Those of another encoder do not count.
    assert [started(encoder)[1] for encoder in ("another", "another", None, None)] == [2, 0, 2, 0]
    whole = path.read_bytes()
    for content in (
        b"",
        b"PK\x03\x04",
        whole[:-50],
        whole.replace(b"vectors", b"vektors"),
        whole.replace(b"<f4", b"<i4"),
    ):
        path.write_bytes(content)
        with pytest.warns(KrisselWarning, match="KW684"):
            assert started() == (first, 2)
        # It is written again.
        assert started() == (first, 0)


@pytest.mark.skipif(sys.platform == "win32", reason="folders can be written to there")
def test_unwritable_vector_cache_only_warns(saved, tmp_path, monkeypatch):
    monkeypatch.setattr(vector_cache, "MIN_NEW", 1)
    (tmp_path / "vectors.npz").mkdir()
    linker, log = (
        CorrectedLinker(spacy.load(saved), vectors=tmp_path / "vectors.npz"),
        CorrectionLog(),
    )
    log.add(log.new(**COLD, right=("D3",)))
    with pytest.warns(KrisselWarning, match="KW684"):
        linker.follow(log.in_force)
    assert answer(linker)[0]["mentions"][0]["kb_id"] == "D3"


def test_a_mistaken_correction_can_be_corrected(linker):
    before = answer(linker)
    made = []
    for right, linked in ((("D3",), "D3"), (("D0",), "D0"), ((), "NIL"), (("D2",), "D2")):
        made.append(correct(linker, **COLD, right=right))
        assert answer(linker)[0]["mentions"][0]["kb_id"] == linked
    # What was said before counts again.
    for each, linked in zip(made[::-1], ("NIL", "D0", "D3", "D2"), strict=True):
        linker.remove(each.id)
        assert answer(linker)[0]["mentions"][0]["kb_id"] == linked
    assert answer(linker) == before


def test_rejected_entity_is_not_linked_and_the_rejection_is_undone(linker):
    before = answer(linker)
    made = [
        correct(linker, **COLD, rejected=(before[0]["mentions"][0]["kb_id"],)),
        # An alternative way to write it, and another entity of the same mention.
        correct(linker, **COLD, rejected=("D3",)),
    ]
    found = answer(linker)[0]["mentions"][0]
    assert found["kb_id"] not in ("D2", "D3")
    assert not {"D2", "D3"} & {each["id"] for each in found["candidates"]}
    for each in made:
        linker.remove(each.id)
    assert answer(linker) == before


def test_correction_of_one_document_does_not_decide_in_others(linker):
    texts = (Document(TEXT, "a"), Document(f"Once more. {TEXT}", "b"))

    def decided():
        first = (each["mentions"][0]["candidates"][0] for each in linker.link(texts))
        return [each["id"] if each["kind"] == "verdict" else "" for each in first]

    made = correct(linker, **COLD, right=("D3",), doc="a", same_document=True)
    assert decided() == ["D3", ""]
    correct(linker, **COLD, right=("D0",), doc="a")
    assert decided() == ["D0", "D0"]
    linker.remove(made.id)
    assert decided() == ["D0", "D0"]


def test_correction_to_a_removed_entity_warns_on_start(nlp):
    log = CorrectionLog()
    log.add(log.new(**COLD, right=("D9",)))
    log.add(log.new(text="MS was used.", start=0, end=2, right=("C1",)))
    linker = CorrectedLinker(nlp)
    with pytest.warns(KrisselWarning, match="KW682.* 1 of 2"):
        linker.follow(log.in_force)
    assert answer(linker)[0]["mentions"][0]["kb_id"] == "D2"
    linker.remove(log.in_force[0].id)
    assert len(linker.in_force) == 1


@pytest.mark.parametrize(
    "values",
    [
        {"end": 9},
        {"start": -1},
        {"end": 99},
        {"start": 8, "end": 9},
        {"right": ("D3", "D99")},
        {"rejected": ("D99",)},
    ],
)
def test_invalid_correction_raises_and_is_not_kept(linker, values):
    with pytest.raises(KrisselError, match="K682"):
        correct(linker, **{**COLD, "right": ("D3",), **values})
    assert linker.in_force == []


def test_entities_are_found_by_name_and_id(linker):
    assert next(each["id"] for each in linker.search("cold injuries")) == "D3"
    # By its id, and before others.
    assert linker.search("D1")[0] == {
        "id": "D1",
        "name": "multiple sclerosis",
        "types": ["Disease"],
        "alias": "",
    }
    assert linker.search("☃") == linker.search(" ") == []
    assert linker.entity("D2")["parents"] == [{"id": "D0", "name": "disease"}]
    with pytest.raises(KrisselError, match="K525"):
        linker.entity("D99")


def test_search_shows_the_matching_name(linker):
    def found(text):
        return {each["id"]: each["alias"] for each in linker.search(text)}

    assert found("MS")["D1"] == found("MS")["C1"] == "MS"
    assert found("sclerosys")["D1"] == "multiple sclerosis"
    assert found("the cold")["D2"] == "cold"
    # By its id, and no name.
    assert linker.search("D2", 1) == [
        {"id": "D2", "name": "common cold", "types": ["Disease"], "alias": ""}
    ]
    # A mention of a correction is a name as well.
    correct(linker, text="A sniffle.", start=2, end=9, right=("D2",))
    assert found("sniffle")["D2"] == "sniffle"


@pytest.mark.parametrize("format", [ending.removeprefix(".") for ending in WRITERS])
@pytest.mark.parametrize("key", ["", "mentions"])
def test_export_equals_what_link_writes(nlp, format, key):
    if format == "xmi.zip":
        pytest.importorskip("cassis")
    if key:
        nlp.remove_pipe("entity_ruler")
        finder = nlp.add_pipe("span_ruler", first=True, config={"spans_key": key})
        finder.add_patterns([{"label": "X", "pattern": each} for each in ("MS", "cold")])
        nlp.get_pipe("krissel_linker").cfg["spans_key"] = key
    given = [Document(TEXT, "7"), Document("No mention."), Document("😀 cold\ncold", "9")]
    # In one batch, since sums are rounded otherwise in another.
    docs = [*nlp.pipe(document.text for document in given)]
    for doc, document in zip(docs, given, strict=True):
        doc.user_data[ID_KEY] = document.id
    expected = BytesIO()
    WRITERS[f".{format}"](docs, key, expected)
    content, n = CorrectedLinker(nlp).export(given, format)
    assert n == 4
    assert comparable(format, content) == comparable(format, expected.getvalue())


def comparable(format, content):
    """Without the times that archives hold, and what docs have of other components."""
    if format == "xmi.zip":
        with ZipFile(BytesIO(content)) as archive:
            return {name: archive.read(name) for name in archive.namelist()}
    if format == "brat.tar.gz":
        with tarfile.open(fileobj=BytesIO(content)) as archive:
            return {
                each.name: archive.extractfile(each).read() for each in archive if each.isfile()
            }
    if format == "spacy":
        docs = DocBin().from_bytes(content).get_docs(spacy.blank("en").vocab)
        return [(doc.to_json(), {key: doc.user_data[key] for key in doc.user_data}) for doc in docs]
    return content


def test_export_has_corrections_given_mentions_and_min_confidence(linker):
    def exported(min_confidence=None):
        documents = [Document(TEXT, "7", (Mention(9, 13, "Y"), Mention(19, 21)))]
        content, _ = linker.export(documents, "jsonl", min_confidence)
        return [(each["label"], each["kb_id"]) for each in json.loads(content)["mentions"]]

    before = exported()
    assert before == [("Y", "D2"), ("MENTION", "C1")]
    assert exported(1.0) == [("Y", "NIL"), ("MENTION", "NIL")] and exported(0.0) == before
    correct(linker, **COLD, right=("D3",))
    assert exported() == [("Y", "D3"), ("MENTION", "C1")]
    # Links that the pipeline left out come back; the correction stays.
    linker.linker.configure(min_confidence=1.0)
    assert exported() == [("Y", "D3"), ("MENTION", "NIL")] == exported(1.0)
    assert exported(0.0) == [("Y", "D3"), ("MENTION", "C1")]


@pytest.mark.parametrize(
    "document, settings, problem",
    [
        (Document(TEXT), {"format": "docx"}, "format 'docx' is none of jsonl, spacy, tsv"),
        (Document(TEXT), {"format": ".tsv"}, "is none of"),
        (
            Document(TEXT, "b", (Mention(9, 13), Mention(7, 13))),
            {"format": "tsv"},
            "'b' has overlapping mentions",
        ),
        (Document(TEXT, "b", (Mention(9, 99),)), {"format": "tsv"}, "outside its text"),
    ],
)
def test_an_export_that_cannot_be_written_is_refused(shared_linker, document, settings, problem):
    with pytest.raises(KrisselError, match=f"K682.*{problem}"):
        shared_linker.export([document], **settings)


def test_min_confidence_without_a_fitted_confidence_raises(linker):
    linker.linker.cfg["confidence"] = {}
    with pytest.raises(KrisselError, match="K682.*`min_confidence` needs"):
        linker.export([Document(TEXT)], "tsv", 0.5)

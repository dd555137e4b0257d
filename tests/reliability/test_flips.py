"""One bit of a saved file flipped, or its manifest rewritten: refused by a coded error, or the same
answer."""

import inspect
import json
import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import cycle, islice
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import spacy
from spacy.util import load_config, load_model_from_config
from tiers import nightly

from spacy_krissel.corpora.doc_bins import write_doc_bin
from spacy_krissel.errors import KrisselError
from spacy_krissel.index.faiss_index import make_faiss_index
from spacy_krissel.kb.prototype_kb import PrototypeKB
from spacy_krissel.util.manifest import MANIFEST

from .harness import Ended, bits_to_flip, digest, flip, in_child
from .steps import contents_of, docs_of, shards_of, store_of

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="needs processes that can be forked"),
    pytest.mark.filterwarnings("ignore"),
]
HEADER = ("saved", "file", "bits", "refused", "same", "other", "uncoded", "crashed")
# What spaCy writes and reads by itself, without a hash.
OF_SPACY = ("config.cfg", "meta.json", "tokenizer", "vocab/")
# Not hashed: a bit may pass that says nothing, in a note of a manifest or at the end of a
# compressed stream, but no other answer.
UNHASHED = (MANIFEST, "gold.spacy")
DEEP = "«deep»"
ODD = (None, "", [], {}, -1, 1e308, "x", True, [None], {"x": None}, "../x", 2**70)


class Saved(NamedTuple):
    """path: of what is damaged. read: RETURNS what it answers. load: of a pipeline, which `read` is
    given instead."""

    path: Path
    read: Callable[[Any], Any]
    load: Any = None


@pytest.fixture(scope="module")
def saved(
    save_linker, save_reranker, save_extractor, make_docs, toy_store, toy_shards, tmp_path_factory
):
    """Gives what was saved, by name."""
    work = tmp_path_factory.mktemp("saved")

    def links(nlp):
        docs = [nlp(doc) for doc in make_docs(nlp)]
        return [
            [(ent.start, ent.end, ent.kb_id_, [(c["id"], round(c["score"], 4)) for c in ent._.krissel_candidates])  # noqa: E501
             for ent in doc.ents]
            for doc in docs
        ]  # fmt: skip

    def entities(nlp):
        docs = [nlp(doc.text) for doc in make_docs(nlp)]
        return [
            [(each["id"], round(each["score"], 4)) for each in doc._.krissel_entities]
            for doc in docs
        ]

    def hnsw():
        pytest.importorskip("faiss")
        path = work / "hnsw"
        if not path.exists():
            nlp = spacy.load(save_linker("transformer"))
            nlp.get_pipe("krissel_linker").kb.use_index(make_faiss_index("hnsw", m=4, ef_search=4))
            nlp.to_disk(path)
        return Saved(path, links, spacy.load)

    def doc_bin():
        path = work / "gold.spacy"
        if not path.exists():
            nlp = spacy.load(save_linker("small"))
            write_doc_bin([nlp(doc) for doc in make_docs(nlp)], path)
        return Saved(path, docs_of)

    def get(name):
        return {
            "small, exact": lambda: Saved(save_linker("small"), links, spacy.load),
            "transformer, HNSW": hnsw,
            "re-ranker": lambda: Saved(save_reranker("list"), links, spacy.load),
            "extractor": lambda: Saved(save_extractor("words"), entities, spacy.load),
            "store": lambda: Saved(toy_store.path, store_of),
            "shards": lambda: Saved(toy_shards, shards_of),
            "docs": doc_bin,
        }[name]()

    return get


@pytest.mark.parametrize(
    "name",
    [
        "small, exact",
        nightly("transformer, HNSW"),
        nightly("re-ranker"),
        nightly("extractor"),
        "store",
        "shards",
        "docs",
    ],
)
def test_flipped_bit_is_refused_or_harmless(saved, name, size, table, tmp_path):
    path, read, load = saved(name)
    copy = tmp_path / path.name
    (shutil.copytree if path.is_dir() else shutil.copy2)(path, copy)
    read_all = (lambda: digest(read(load(copy)))) if load else (lambda: digest(read(copy)))
    whole = in_child(read_all)
    assert whole.how == "returned", whole
    read_components = _component_reader(copy, read) if load else read_all
    assert in_child(read_components) == whole
    problems: list[str] = []
    files = (
        sorted(file_ for file_ in copy.rglob("*") if file_.is_file()) if copy.is_dir() else [copy]
    )
    for number, file_ in enumerate(files):
        title = file_.relative_to(copy).as_posix() if copy.is_dir() else copy.name
        of_spacy = title.startswith(OF_SPACY)
        seen: Counter = Counter()
        for byte, bit in bits_to_flip(file_.stat().st_size, size.offsets, number):
            flip(file_, byte, bit)
            ended = in_child(read_all if of_spacy else read_components, seconds=60)
            flip(file_, byte, bit)
            verdict = _verdict(ended, whole.value)
            seen[verdict] += 1
            noted = verdict == "same" and Path(title).name in UNHASHED
            if verdict == "refused" or noted or (of_spacy and verdict != "crashed"):
                continue
            problems.append(
                f"{title}, byte {byte}, bit {bit}: {verdict} {str(ended.value)[:150]} {ended.where}"
            )
        table(
            (
                name,
                title + (" (spaCy's)" if of_spacy else ""),
                sum(seen.values()),
                *(seen[key] for key in HEADER[3:]),
            )
        )
    if problems:
        pytest.fail(
            f"{len(problems)} damages were not refused\n" + "\n".join(problems), pytrace=False
        )


def _component_reader(path: Path, read: Callable[[Any], Any]) -> Callable[[], str]:
    """Read spaCy's own files once, since they take most of the time."""
    nlp = load_model_from_config(load_config(path / "config.cfg"))
    nlp.from_disk(path, exclude=nlp.component_names)
    return lambda: digest(read(nlp.from_disk(path, exclude=["vocab", "tokenizer"])))


def _verdict(ended: Ended, expected: str) -> str:
    if ended.how == "coded":
        return "refused"
    if ended.how == "returned":
        return "same" if ended.value == expected else "other"
    return ended.how if ended.how == "uncoded" else "crashed"


@pytest.mark.parametrize(
    "name, times",
    [("small, exact", 1), nightly("small, exact", 5), nightly("transformer, HNSW", 5)],
)
def test_damaged_knowledge_base_without_verification_ends_no_process(
    saved, name, times, size, tmp_path
):
    if "verify" not in inspect.signature(PrototypeKB.from_disk).parameters:
        pytest.skip("a knowledge base is always verified")
    shutil.copytree(saved(name).path / "krissel_linker" / "kb", tmp_path / "kb")

    def search():
        kb = PrototypeKB(spacy.blank("en").vocab, 0).from_disk(tmp_path / "kb", verify=False)
        kb.search(kb.vectors[:3], 3)
        return kb.prototypes_at([0])

    crashed = []
    for number, file_ in enumerate(
        sorted(each for each in (tmp_path / "kb").rglob("*") if each.is_file())
    ):
        for byte, bit in bits_to_flip(file_.stat().st_size, size.offsets * times, number):
            flip(file_, byte, bit)
            if (ended := in_child(search, seconds=60)).how not in ("returned", "coded"):
                crashed.append(f"{file_.name}, byte {byte}, bit {bit}: {ended}")
            flip(file_, byte, bit)
    if crashed:
        pytest.fail("\n".join(crashed), pytrace=False)


# Manifests ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def described(saved):
    """A folder with a manifest, and how it is read."""

    def kb(path):
        kb = PrototypeKB(spacy.blank("en").vocab, 0).from_disk(path)
        kb.search(kb.vectors[:3], 2)
        kb.description()
        return contents_of(kb)

    def get(kind):
        return {
            "kb": lambda: Saved(saved("small, exact").path / "krissel_linker" / "kb", kb),
            "kb with HNSW": lambda: Saved(
                saved("transformer, HNSW").path / "krissel_linker" / "kb", kb
            ),
            "store": lambda: saved("store"),
            "shards": lambda: saved("shards"),
        }[kind]()

    return get


@pytest.mark.parametrize("kind", [nightly("kb with HNSW"), "store", "shards"])
def test_odd_manifest_raises_only_coded_errors(described, kind, size, tmp_path):
    """Each key left out or replaced by values of other types: by some of these in turn, as many as
    bits of a file, so that a run by command has all."""
    path, read, _ = described(kind)
    shutil.copytree(path, tmp_path / "copy")
    manifest = json.loads((path / MANIFEST).read_text(encoding="utf8"))

    def try_all() -> list[tuple[str, str]]:
        found = []
        for title, content in _variants(manifest, size.offsets):
            (tmp_path / "copy" / MANIFEST).write_text(content, encoding="utf8")
            try:
                read(tmp_path / "copy")
            except KrisselError:
                continue
            except Exception as error:
                found.append((title, f"{type(error).__name__}: {error}"[:120]))
        return found

    ended = in_child(try_all, seconds=300)
    assert ended.how == "returned", f"the process did not live: {ended}"
    if ended.value:
        pytest.fail(
            "\n".join(f"{title}: {problem}" for title, problem in ended.value), pytrace=False
        )


@pytest.mark.parametrize("kind", ["kb", "store", "shards"])
@pytest.mark.parametrize("left_out", ["one", "all"])
def test_manifest_without_all_files_raises(described, kind, left_out, tmp_path):
    path, read, _ = described(kind)
    shutil.copytree(path, tmp_path / "copy")
    manifest = json.loads((path / MANIFEST).read_text(encoding="utf8"))
    names = list(manifest["files"])
    manifest["files"] = (
        {} if left_out == "all" else {name: manifest["files"][name] for name in names[:-1]}
    )
    (tmp_path / "copy" / MANIFEST).write_text(json.dumps(manifest), encoding="utf8")
    with pytest.raises(KrisselError):
        read(tmp_path / "copy")


def _variants(manifest: dict[str, Any], n_values: int) -> Iterator[tuple[str, str]]:
    """Titles and texts of manifests with one key left out or odd, at any depth; and of what is no
    manifest."""
    values = cycle(("left out", *ODD))
    for keys in _paths(manifest):
        some = list(islice(values, min(n_values, 1 + len(ODD))))
        # Once for each depth is enough: it fails, or not, before anything is known of the key.
        for odd in (*some, *([DEEP] if keys[-1] == "kind" else ())):
            changed = json.loads(json.dumps(manifest))
            at = changed
            for key in keys[:-1]:
                at = at[key]
            if odd == "left out":
                del at[keys[-1]]
            else:
                at[keys[-1]] = odd
            text = json.dumps(changed).replace(json.dumps(DEEP), "[" * 50_000 + "]" * 50_000)
            yield f"{'.'.join(map(str, keys))} {odd!r}", text
    for text in (
        "",
        "[]",
        "null",
        "1",
        "[" * 50_000,
        '{"kind": ' * 50_000,
        "\x00",
        '"' + "x" * 100,
    ):
        yield f"instead of it {text[:12]!r}", text


def _paths(value: Any, before: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    items = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for key, each in items:
        yield (*before, key)
        yield from _paths(each, (*before, key))

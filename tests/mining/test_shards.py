import json
import pickle
from itertools import groupby

import numpy as np
import pyarrow as pa
import pytest

from spacy_krissel.errors import KrisselError
from spacy_krissel.mining import shards as shards_module
from spacy_krissel.mining import work
from spacy_krissel.mining.mine import mine
from spacy_krissel.mining.shards import MentionShards, shard_schema, write_shard
from spacy_krissel.util.manifest import OWN_HASH, manifest_hash, write_manifest
from spacy_krissel.views import View


@pytest.fixture
def shards(ontology, many_texts, tmp_path, monkeypatch):
    # Small shards and batches, so that entities lie across both.
    monkeypatch.setattr(work, "SHARD_MENTIONS", 50)
    monkeypatch.setattr(shards_module, "BATCH_MENTIONS", 7)
    mine(ontology, many_texts, tmp_path / "shards", cap=None)
    return MentionShards(tmp_path / "shards")


def test_positions_iteration_and_groups_agree(shards):
    mentions = list(shards)
    assert len(shards.manifest["shards"]) > 10
    assert [shards[i] for i in range(len(shards))] == mentions
    assert shards[-1] == mentions[-1] and shards[3:40:9] == mentions[3:40:9]
    by_entity = shards.by_entity()
    assert sum(map(len, by_entity.values())) == len(shards)
    groups = {entity: list(group) for entity, group in groupby(mentions, key=lambda m: m.entity)}
    assert list(groups) == list(by_entity) == ["D1", "D2", "D3", "D7"]
    for entity, positions in by_entity.items():
        assert {mention.entity for mention in groups[entity]} == {entity}
        assert [shards[i] for i in positions] == groups[entity]
    with pytest.raises(IndexError):
        shards[len(shards)]


def test_groups_and_fields_match_the_mentions(shards):
    mentions = list(shards)
    ids, starts = shards.groups()
    assert (
        [mentions[start].entity for start in starts[:-1]]
        == ids.to_pylist()
        == ["D1", "D2", "D3", "D7"]
    )
    assert starts[-1] == len(shards)
    # In any order, and several times.
    places = np.array([len(shards) - 1, 0, 3, 3, *range(len(shards))])
    docs, starts = shards.fields(places, "doc", "start")
    assert list(zip(docs, starts, strict=True)) == [
        (mentions[i].doc, mentions[i].start) for i in places
    ]
    assert shards.fields(np.zeros(0, dtype=np.int64), "doc", "start") == [[], []]


def test_few_shards_stay_open(shards, monkeypatch):
    """Pages read from an open file count as memory of the process."""
    monkeypatch.setattr(shards_module, "OPEN_SHARDS", 2)
    mentions = list(shards)
    assert [shards[i] for i in range(len(shards))] == mentions
    assert len(shards._open) == 2


def test_shard_is_verified_only_once(shards, monkeypatch):
    monkeypatch.setattr(shards_module, "OPEN_SHARDS", 1)
    first = list(shards)
    monkeypatch.setattr(shards_module, "verify_file", None)
    assert list(shards) == first


def test_a_mention_has_its_view(shards):
    mention = shards[0]
    assert mention.view == View(mention.left, mention.mention, mention.right)
    assert mention.mention.lower() == mention.name.lower() in ("lung cancer", "cancer of lung")


def test_pickled_shards_read_the_same(shards):
    shards[0]
    assert list(pickle.loads(pickle.dumps(shards))) == list(shards)


def test_truncated_shard_is_named(shards):
    file_ = shards.path / "shard-00001.arrow"
    file_.write_bytes(file_.read_bytes()[:-20])
    with pytest.raises(KrisselError, match="K004.*shard-00001.arrow"):
        MentionShards(shards.path)


def rewrite(path, file_, table):
    """Replace a shard and sign for it, as no damage by accident would."""
    write_shard(path / file_, table)
    manifest = json.loads((path / "manifest.json").read_text())
    kind, version = manifest.pop("kind"), manifest.pop("format_version")
    manifest.pop("files")
    write_manifest(path, kind, version, manifest)


def test_shard_of_other_columns_or_length_is_named(shards):
    rewrite(shards.path, "shard-00000.arrow", pa.table({"entity": ["D1"]}))
    with pytest.raises(KrisselError, match="K004.*columns"):
        list(MentionShards(shards.path))
    rewrite(shards.path, "shard-00000.arrow", shard_schema().empty_table())
    with pytest.raises(KrisselError, match="K004.*0 mentions instead of 50"):
        MentionShards(shards.path)[0]


def sign(path, change):
    """Change the manifest as no damage by accident would."""
    manifest = json.loads((path / "manifest.json").read_text())
    change(manifest)
    manifest[OWN_HASH] = manifest_hash(manifest)
    (path / "manifest.json").write_text(json.dumps(manifest))


def test_file_that_is_not_arrow_raises(shards):
    (shards.path / "shard-00000.arrow").write_bytes(b"ARROW2" * 100)
    sign(shards.path, lambda manifest: manifest["files"]["shard-00000.arrow"].update(bytes=600))
    with pytest.raises(KrisselError, match="K004.*shard-00000.arrow.*SHA-256"):
        MentionShards(shards.path)[0]
    with pytest.raises(KrisselError, match="K004.*shard-00000.arrow"):
        MentionShards(shards.path, verify=False)[0]


def test_flipped_bit_of_a_shard_raises(shards):
    """It is hashed when it is read, and not before."""
    whole = (shards.path / "shard-00001.arrow").read_bytes()
    for byte in range(3, len(whole), len(whole) // 50):
        damaged = bytearray(whole)
        damaged[byte] ^= 1 << byte % 8
        (shards.path / "shard-00001.arrow").write_bytes(damaged)
        opened = MentionShards(shards.path)
        assert opened[0] == shards[0]
        for read in (
            lambda opened=opened: opened[50],
            opened.by_entity,
            lambda opened=opened: list(opened),
        ):
            with pytest.raises(KrisselError, match="K004.*shard-00001.arrow.*SHA-256"):
                read()


@pytest.mark.parametrize(
    "value", [None, 5, "x", [], {}, [1], [{}], [{"file": "shard-00000.arrow"}], -1, float("nan")]
)
@pytest.mark.parametrize("key", ["shards", "files"])
def test_invalid_manifest_raises(shards, key, value):
    sign(shards.path, lambda manifest: manifest.update({key: value}))
    if (key, value) == ("shards", []):
        assert len(MentionShards(shards.path)) == 0
        return
    with pytest.raises(KrisselError, match="K002"):
        MentionShards(shards.path)


@pytest.mark.parametrize("name", ["../secret.arrow", "other.arrow", "", 5, None])
def test_unlisted_shard_raises(shards, name):
    (shards.path / "other.arrow").write_bytes((shards.path / "shard-00000.arrow").read_bytes())
    sign(shards.path, lambda manifest: manifest["shards"][0].update(file=name))
    with pytest.raises(KrisselError, match="K002"):
        MentionShards(shards.path)


def test_out_of_memory_is_not_reported_as_damage(shards, monkeypatch):
    def full(*args):
        raise pa.ArrowMemoryError("malloc of size 5000 failed")

    def no_map(*args):
        raise OSError(12, "Memory mapping file failed: Cannot allocate memory")

    for name, fails in (("ipc.open_file", full), ("memory_map", no_map)):
        with monkeypatch.context() as patch, pytest.raises(MemoryError):
            patch.setattr(f"pyarrow.{name}", fails)
            MentionShards(shards.path)[0]


def test_other_directories_raise(ontology, tmp_path):
    with pytest.raises(KrisselError, match="K001.*krissel mine"):
        MentionShards(tmp_path / "nowhere")
    with pytest.raises(KrisselError, match="K002.*ontology store"):
        MentionShards(ontology.path)

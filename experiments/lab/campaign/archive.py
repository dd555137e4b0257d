"""The data of a run in one archive: ontologies, mined mentions, gold mentions, a transformer;
packed and unpacked."""

import json
import shutil
import tarfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import numpy as np
from safetensors.numpy import load_file, save_file

from spacy_krissel.mining.shards import (
    FORMAT_VERSION,
    KIND,
    SHARD_MENTIONS,
    MentionShards,
    MinedMention,
    shard_schema,
    write_shard,
)
from spacy_krissel.ontology.entity import Entity
from spacy_krissel.ontology.store import OntologyStore, write_store
from spacy_krissel.util.atomic import atomic_file, temporary_folder
from spacy_krissel.util.disk import coded_damage
from spacy_krissel.util.hashing import sha256_file, stable_hash
from spacy_krissel.util.inputs import coded_reading
from spacy_krissel.util.manifest import new_directory
from spacy_krissel.util.settings import Count, NotNegative, PositiveInt

from ..errors import Errors, KrisselError
from .weights import grow, shrink

MANIFEST, ENCODER, MENTIONS, WEIGHTS = "manifest.json", "encoder", "mentions", "weights.safetensors"
# What `from_pretrained` reads of a transformer, but its weights.
ENCODER_FILES = (
    "config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "vocab.txt",
)
LIBRARIES = ("spacy-krissel", "spacy", "thinc", "torch", "transformers", "numpy", "pyarrow")
MEBIBYTE = 2**20
PRESET: Final = 9


def pack(
    ontology: Path,
    mentions: Path,
    output: Path,
    *,
    encoder: str | Path,
    stores: Sequence[Path] = (),
    gold: Sequence[Path] = (),
    cap: PositiveInt = 8,
    context_chars: PositiveInt = 128,
    max_mib: NotNegative = 40.0,
    seed: Count = 0,
) -> dict[str, Any]:
    """Pack the data of a run, all that a machine without a network needs, as one archive.

    The same input gives the same bytes.

    ontology: ontology store that is trained on
    mentions: mention shards, mined with it
    output: .tar.xz archive to write
    encoder: transformer, kept in 8 bits per weight: its folder, or the name of a package with a
        folder model/
    stores: ontology store that is linked to and not trained on
    gold: gold mentions (.spacy)
    cap: maximum number of mentions per entity, the first ones of its sample
    context_chars: maximum number of characters of context on each side of a mention
    max_mib: maximum size of the archive in MiB
    seed: random seed of the order of an entity's mentions

    RETURNS: its manifest.
    Raises KrisselError K291 (too large), and what reading a store, shards or a transformer raises.
    """
    encoder = find_encoder(encoder)
    with temporary_folder(output.with_name(f"{output.name}.contents")) as folder:
        counts: dict[str, Any] = {"gold": [path.name for path in gold]}
        licences = {}
        for path in (ontology, *stores):
            store = OntologyStore(path)
            counts[path.name] = {"entities": len(store), "names": store.manifest["names"]}
            licences[path.name] = store.manifest["info"]
            lines = (json.dumps(_record(entity), ensure_ascii=False) + "\n" for entity in store)
            with (folder / f"{path.name}.jsonl").open("w", encoding="utf8") as file_:
                file_.writelines(lines)
        columns = _columns(MentionShards(mentions), cap, context_chars)
        counts[MENTIONS] = {
            "mentions": len(columns["doc"]),
            "entities": len(set(columns["entity"])),
        }
        (folder / MENTIONS).mkdir()
        for name, values in columns.items():
            _write_json(folder / MENTIONS / f"{name}.json", values)
        for path in gold:
            shutil.copyfile(path, folder / path.name)
        counts[ENCODER] = _pack_encoder(encoder, folder / ENCODER)
        files = sorted(
            path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()
        )
        manifest = {
            "ontology": ontology.name,
            "stores": [path.name for path in stores],
            "settings": {"cap": cap, "context_chars": context_chars, "seed": seed},
            "counts": counts,
            "licences": licences,
            "versions": versions(),
            "files": {name: _described(folder / name) for name in files},
        }
        _write_json(folder / MANIFEST, manifest, indent=2)
        with atomic_file(output) as temporary:
            with tarfile.open(temporary, "w:xz", preset=PRESET) as archive:
                for name in (MANIFEST, *files):
                    archive.add(folder / name, name, filter=_anonymous)
            if (size := temporary.stat().st_size) > max_mib * MEBIBYTE:
                raise KrisselError(
                    Errors.K291.format(
                        path=output, size=f"{size / MEBIBYTE:.1f}", limit=f"{max_mib:g}", cap=cap
                    )
                )
    return manifest


def show_pack(manifest: dict[str, Any], output: Path) -> str:
    names, mined = manifest["counts"][manifest["ontology"]], manifest["counts"][MENTIONS]
    counts = f"{names['entities']:,} entities, {names['names']:,} names"
    size = f"{output.stat().st_size / MEBIBYTE:.1f} MiB"
    return f"{counts}, {mined['mentions']:,} mentions\n{output}: {size}"


def unpack(archive: Path, output: Path) -> dict[str, Any]:
    """Unpack the data of a run: ontology stores, mention shards, gold mentions and a transformer,
    all or nothing.

    Mentions are written for the ontology, in `mentions`, and for each other store, of those
    entities that it has too, in `NAME-mentions`.

    archive: archive by `campaign-pack`
    output: folder to write, which is replaced

    RETURNS: the manifest.
    Raises KrisselError K292 for an archive that is damaged or another, and K026.
    """
    with temporary_folder(output) as folder:
        raw = folder / "raw"
        with (
            coded_damage(
                archive, lambda error: KrisselError(Errors.K292.format(path=archive, problem=error))
            ),
            tarfile.open(archive, "r:xz") as file_,
        ):
            manifest = json.load(_member(file_, MANIFEST))
            for name, described in manifest["files"].items():
                path = raw / name
                path.parent.mkdir(parents=True, exist_ok=True)
                with path.open("wb") as target:
                    shutil.copyfileobj(_member(file_, name), target)
                if _described(path) != described:
                    raise ValueError(f"'{name}' is not as its manifest has it")
        stores = [manifest["ontology"], *manifest["stores"]]
        read = {
            name: _read_store(raw / f"{name}.jsonl", folder / name, manifest) for name in stores
        }
        columns = {
            path.stem: json.loads(path.read_text(encoding="utf8"))
            for path in (raw / MENTIONS).iterdir()
        }
        found = list(_mentions(columns))
        seed = manifest["settings"]["seed"]
        for name, store in read.items():
            own = MENTIONS if name == manifest["ontology"] else f"{name}-{MENTIONS}"
            _write_mentions(found, store, folder / own, seed)
        for name in manifest["counts"]["gold"]:
            (raw / name).rename(folder / name)
        _unpack_encoder(raw / ENCODER, folder / ENCODER)
        shutil.rmtree(raw)
        _write_json(folder / MANIFEST, manifest, indent=2)
        output.parent.mkdir(parents=True, exist_ok=True)
        if output.exists():
            shutil.rmtree(output)
        folder.rename(output)
    return manifest


def show_unpack(manifest: dict[str, Any], archive: Path, output: Path) -> str:
    return f"{len(manifest['files'])} files of {archive} in {output}"


def find_encoder(name: str | Path) -> Path:
    """Return the folder of a transformer: `name`, or `model` in the installed package of this
    name."""
    found = None if Path(name).exists() else find_spec(name)
    return (
        Path(name) if found is None or found.origin is None else Path(found.origin).parent / "model"
    )


def versions() -> dict[str, str]:
    """Return the versions of the libraries that matter, those that are installed."""
    found = {}
    for name in LIBRARIES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def _record(entity: Entity) -> dict[str, Any]:
    return {field: value for field, value in asdict(entity).items() if value}


def _read_store(path: Path, output: Path, manifest: Mapping[str, Any]) -> OntologyStore:
    with path.open(encoding="utf8") as lines:
        records = map(json.loads, lines)
        entities = (
            Entity(**{key: _frozen(value) for key, value in record.items()}) for record in records
        )
        return write_store(entities, output, info=manifest["licences"][path.stem])


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _columns(shards: MentionShards, cap: int, context_chars: int) -> dict[str, list]:
    """Columns of the first `cap` mentions of each entity, in the order of texts, where contexts
    repeat each other."""
    kept: list[MinedMention] = []
    counts: Counter[str] = Counter()
    for mention in shards:
        counts[mention.entity] += 1
        if counts[mention.entity] <= cap:
            kept.append(mention)
    kept.sort(key=lambda mention: (mention.doc, mention.start, mention.end, mention.entity))
    contexts = [
        (_last_words(each.left, context_chars), _first_words(each.right, context_chars))
        for each in kept
    ]
    return {
        "entity": [each.entity for each in kept],
        # Mostly the name is the mention.
        "name": ["" if each.name == each.mention else each.name for each in kept],
        "doc": [each.doc for each in kept],
        "start": [each.start for each in kept],
        "mention": [each.mention for each in kept],
        "left": [len(left) for left, _ in contexts],
        "passage": [
            f"{left}{each.mention}{right}"
            for each, (left, right) in zip(kept, contexts, strict=True)
        ],
    }


def _last_words(text: str, chars: int) -> str:
    """The last `chars` characters, without the part of a word that they begin with."""
    return text if len(text) <= chars else text[-chars:].partition(" ")[2]


def _first_words(text: str, chars: int) -> str:
    return text if len(text) <= chars else text[:chars].rpartition(" ")[0]


def _mentions(columns: Mapping[str, Sequence]) -> Iterator[MinedMention]:
    names = ("entity", "name", "doc", "start", "mention", "left", "passage")
    for entity, name, doc, start, mention, left, passage in zip(
        *map(columns.__getitem__, names), strict=True
    ):
        end = left + len(mention)
        yield MinedMention(
            entity,
            name or mention,
            doc,
            start,
            start + len(mention),
            passage[:left],
            mention,
            passage[end:],
        )


def _write_mentions(
    mentions: Sequence[MinedMention], store: OntologyStore, output: Path, seed: int
) -> None:
    """Write the mentions of a store's entities, grouped by entity, each entity's in the order of a
    seeded hash."""
    import pyarrow as pa

    rows = {id_: row for row, id_ in enumerate(store.ids)}
    own = [mention for mention in mentions if mention.entity in rows]
    own.sort(
        key=lambda each: (
            rows[each.entity],
            stable_hash(seed, f"{each.doc} {each.start}"),
            each.end,
        )
    )
    with new_directory(output, KIND, FORMAT_VERSION) as directory:
        shards = directory.info["shards"] = []
        for start in range(0, len(own), SHARD_MENTIONS):
            part = [mention._asdict() for mention in own[start : start + SHARD_MENTIONS]]
            name = f"shard-{len(shards):05}.arrow"
            write_shard(directory.path / name, pa.Table.from_pylist(part, schema=shard_schema()))
            shards.append({"file": name, "mentions": len(part)})


def _pack_encoder(source: Path, output: Path) -> dict[str, int]:
    output.mkdir()
    for name in ENCODER_FILES:
        if (source / name).is_file():
            shutil.copyfile(source / name, output / name)
    with coded_reading(source):
        weights = load_file(source / "model.safetensors")
    save_file(shrink(weights, bits=8), output / WEIGHTS)
    return {"weights": sum(values.size for values in weights.values())}


def _unpack_encoder(source: Path, output: Path) -> None:
    source.rename(output)
    weights = load_file(output / WEIGHTS)
    save_file(grow(weights), output / "model.safetensors", metadata={"format": "pt"})
    (output / WEIGHTS).unlink()


def _described(path: Path) -> dict[str, Any]:
    return {"bytes": path.stat().st_size, "sha256": sha256_file(path)}


def _member(archive: tarfile.TarFile, name: str) -> Any:
    member = archive.extractfile(name)
    if member is None:
        raise ValueError(f"'{name}' is no file")
    return member


def _anonymous(info: tarfile.TarInfo) -> tarfile.TarInfo:
    info.mtime = info.uid = info.gid = 0
    info.uname = info.gname = ""
    info.mode = 0o644
    return info


def _write_json(path: Path, content: Any, indent: int | None = None) -> None:
    separators = None if indent else (",", ":")
    text = json.dumps(
        content, ensure_ascii=False, indent=indent, separators=separators, default=_plain
    )
    path.write_text(text + "\n", encoding="utf8")


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else str(value)

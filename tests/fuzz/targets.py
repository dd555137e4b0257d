"""Every reader, with the files that it is tried on and how it is read to the end."""

import io
import json
import os
import shutil
import struct
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from random import Random
from typing import Any, NamedTuple
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq
import spacy
import srsly
from lab.data.lay_names import read_lay_names
from lab.data.psytar import read_psytar
from lab.data.sources import lay_out
from spacy.tokens import DocBin
from spacy.vocab import Vocab

from spacy_krissel.corpora.convert import read_docs
from spacy_krissel.corpora.doc_bins import read_doc_bins
from spacy_krissel.corpora.docs import to_doc
from spacy_krissel.corpora.report import CorpusReport
from spacy_krissel.corpora.text_stream import SUFFIXES, read_texts
from spacy_krissel.errors import Errors, KrisselError
from spacy_krissel.evaluation.records import read_records, record_keys
from spacy_krissel.kb.candidates import candidate_dicts
from spacy_krissel.kb.prototype_kb import PrototypeKB
from spacy_krissel.kb.prototype_table import Prototype
from spacy_krissel.mentions.gold_mentions import SPANS_KEY
from spacy_krissel.mining.shards import (
    FORMAT_VERSION,
    KIND,
    MentionShards,
    MinedMention,
    shard_schema,
    write_shard,
)
from spacy_krissel.ontology.build import build_ontology
from spacy_krissel.ontology.entity import Entity
from spacy_krissel.ontology.readers import READERS as ONTOLOGY_READERS
from spacy_krissel.ontology.readers import Reader, read_ontology
from spacy_krissel.ontology.store import OntologyStore
from spacy_krissel.ontology.vocabularies import cache
from spacy_krissel.util.manifest import new_directory
from spacy_krissel.util.work_folder import STATE, WorkFolder
from spacy_krissel.views import View

from . import seeds
from .containers import (
    PACKERS,
    damage_gzip,
    damage_tar,
    damage_zip,
    deflated,
    gzipped,
    tarred,
    workbook,
    zipped,
)
from .mutators import BYTES, change_tree, mutate, mutators_of
from .seeds import Files

NLP = spacy.blank("en")
# Of a damaged text, a part is also compressed, or its compression damaged: files are told by their
# first bytes.
COMPRESSED = 0.08
# Of ontologies, a part is also written as a store: it costs more than all the rest.
BUILT = 0.25
TAR_GZ = "corpus.tar.gz"
# Of a publisher's archive.
MEMBER = "dev.txt"


class CheckFailed(AssertionError):
    """Raised when an input was read but cannot be used."""


class Case(NamedTuple):
    """files: by their names in a folder. thorough: also do the costly part of reading."""

    files: Files
    thorough: bool = True


class Target(NamedTuple):
    """name: such as `onto:medic`. seeds: valid folders. make: a damaged folder, given the
    seeds. read: a folder to the end; it gets the name of the first file. forged: of damage that
    hashes would show, if it were not made to fit them.
    """

    name: str
    seeds: Sequence[Files]
    read: Callable[[Path, bool], Any]
    make: Callable[[Random, Sequence[Files]], Files]
    forged: bool = False


def make_case(target: Target, seed: int, index: int) -> Case:
    """The input of this number: the same whatever was tried before."""
    rng = Random(f"{seed}:{target.name}:{index}")
    thorough = rng.random() < BUILT
    return Case(target.make(rng, target.seeds), thorough)


def select(pattern: str | None) -> list[Target]:
    """Return targets that match a pattern like `onto:*`; without one, all but the forged."""
    every = all_targets()
    chosen = [
        each for each in every if (fnmatchcase(each.name, pattern) if pattern else not each.forged)
    ]
    if not chosen:
        raise SystemExit(
            f"No target is called {pattern!r}. There are: {', '.join(each.name for each in every)}"
        )
    return chosen


# How files are damaged


def damage_some(rng: Random, folders: Sequence[Files]) -> Files:
    """One of the folders with one of its files damaged, seldom several."""
    chosen = dict(rng.choice(folders))
    names = list(chosen)
    # The first file is what is read; the others are beside it.
    picked = [rng.choice(names)] if rng.random() < 0.5 else names[:1]
    for name in picked if rng.random() < 0.9 else names:
        others = [folder[name] for folder in folders if name in folder]
        chosen[name] = mutate(rng, name, chosen[name], others)
    if rng.random() < 0.03 and len(names) > 1:
        del chosen[rng.choice(names)]
    return chosen


def damage_or_compress(rng: Random, folders: Sequence[Files]) -> Files:
    chosen = damage_some(rng, folders)
    name = next(iter(chosen))
    if rng.random() < COMPRESSED:
        chosen[name] = damage_gzip(rng, chosen[name])
    return chosen


def damage_compressed(rng: Random, folders: Sequence[Files]) -> Files:
    """Folders whose first file is compressed: what is in it is damaged, or the compression."""
    name, data = next(iter(rng.choice(folders).items()))
    if rng.random() < 0.6:
        return {f"{name}.gz": gzipped(mutate(rng, name, data))}
    return {f"{name}.gz": damage_gzip(rng, data)}


def damage_archive(rng: Random, folders: Sequence[Files]) -> Files:
    chosen = rng.choice(folders)
    if rng.random() < 0.4:
        return {TAR_GZ: gzipped(tarred(damage_some(rng, folders)))}
    if rng.random() < 0.2:
        return {TAR_GZ: damage_gzip(rng, tarred(chosen))}
    data = damage_tar(rng, chosen)
    return {TAR_GZ: gzipped(data) if rng.random() < 0.7 else data}


def damage_zip_as(name: str) -> Callable[[Random, Sequence[Files]], Files]:
    return lambda rng, folders: {name: damage_zip(rng, rng.choice(folders))}


def damage_tar_as(name: str) -> Callable[[Random, Sequence[Files]], Files]:
    """A tar archive, compressed as the end of its name says: damaged before, or after."""
    pack = PACKERS[name.rpartition(".")[2]]

    def make(rng: Random, folders: Sequence[Files]) -> Files:
        files = rng.choice(folders)
        if rng.random() < 0.5:
            return {name: pack(damage_tar(rng, files))}
        return {name: rng.choice(BYTES)(rng, pack(tarred(files)), ())}

    return make


def damage_workbook(rng: Random, folders: Sequence[Files]) -> Files:
    if rng.random() < 0.1:
        return {"psytar.xlsx": mutate(rng, "psytar.xlsx", zipped(folders[0]))}
    if rng.random() < 0.3:
        # Cells of other kinds.
        sheets = {name: list(rows) for name, rows in seeds.SHEETS.items()}
        for _ in range(rng.choice((1, 2, 5))):
            rows = rng.choice(list(sheets.values()))
            i = rng.randrange(len(rows))
            cells = list(rows[i])
            odd = (None, "", "C0000001", 1e300, -1, 2.5, "/", "a / b", "x" * 2000)
            cells[rng.randrange(len(cells))] = rng.choice(odd)
            rows[i] = cells
        return {"psytar.xlsx": zipped(workbook(sheets))}
    return {"psytar.xlsx": damage_zip(rng, folders[0])}


def damage_packed(rng: Random, folders: Sequence[Files]) -> Files:
    """A file of msgpack, seldom as bytes and mostly as what they stand for."""
    name, data = next(iter(folders[0].items()))
    if rng.random() < 0.2:
        return {name: mutate(rng, name, data)}
    compressed = name.endswith(".spacy")
    tree = srsly.msgpack_loads(_inflated(data) if compressed else data)
    for i in range(rng.choice((1, 1, 2))):
        if not compressed and not i and rng.random() < 0.4:
            manifest = json.loads(b"".join(tree["files"]["manifest.json"]))
            tree["files"] = {
                **tree["files"],
                "manifest.json": [json.dumps(change_tree(rng, manifest)).encode()],
            }
        else:
            tree = change_tree(rng, tree)
    try:
        packed = srsly.msgpack_dumps(tree)
    except Exception:  # a number that msgpack has no form for
        return {name: mutate(rng, name, data)}
    return {name: deflated(packed) if compressed else packed}


def _inflated(data: bytes) -> bytes:
    import zlib

    return zlib.decompress(data)


def damage_manifest(rng: Random, folders: Sequence[Files]) -> Files:
    """A folder with its manifest damaged: mostly its values, since one that is no JSON is soon
    refused."""
    chosen = dict(folders[0])
    if rng.random() < 0.75:
        tree = json.loads(chosen["manifest.json"])
        for _ in range(rng.choice((1, 1, 2))):
            tree = change_tree(rng, tree)
        chosen["manifest.json"] = json.dumps(tree).encode()
    else:
        chosen["manifest.json"] = mutate(rng, "manifest.json", chosen["manifest.json"])
    if rng.random() < 0.05:
        del chosen[rng.choice(list(chosen))]
    return chosen


def damage_and_forge(rng: Random, folders: Sequence[Files]) -> Files:
    """A folder with a file damaged and its hash and size made to fit."""
    import hashlib

    chosen = dict(folders[0])
    name = rng.choice([each for each in chosen if each != "manifest.json"])
    for _ in range(rng.choice((1, 1, 2, 4))):
        chosen[name] = rng.choice(mutators_of(name))(rng, chosen[name], ())
    manifest = json.loads(chosen["manifest.json"])
    manifest["files"][name] = {
        "bytes": len(chosen[name]),
        "sha256": hashlib.sha256(chosen[name]).hexdigest(),
    }
    chosen["manifest.json"] = json.dumps(manifest).encode()
    return chosen


def damage_parquet(rng: Random, folders: Sequence[Files]) -> Files:
    """Bytes of a Parquet file, often of its footer, or a table with columns of odd types."""
    name = "texts.parquet"
    if rng.random() < 0.4:
        return {name: _parquet(_odd_table(rng), rng)}
    data = folders[0][name]
    if rng.random() < 0.5:
        return {name: rng.choice(BYTES)(rng, data, ())}
    (length,) = struct.unpack("<I", data[-8:-4])
    end = len(data) - 8
    footer = mutate(rng, name, data[end - length : end])
    size = len(footer) if rng.random() < 0.8 else rng.choice((0, 2**31, 2**32 - 1))
    return {name: data[: end - length] + footer + struct.pack("<I", size) + b"PAR1"}


def _odd_table(rng: Random) -> pa.Table:
    n = rng.choice((0, 1, 3))
    buffers = (struct.pack("<4i", 0, 1, 2, 3), b"\xff\xed\xa0")
    no_text = pa.Array.from_buffers(pa.string(), 3, [None, *map(pa.py_buffer, buffers)])
    columns: list[pa.Array] = [
        pa.array(["Gout", "é", None]),
        pa.array(["a", "a", "\0"]).dictionary_encode(),
        pa.array(["x", " ", ""], pa.large_string()),
        pa.array([b"x", b"\xff", None]),
        pa.array([1, -(2**63), None], pa.int64()),
        pa.array([2**64 - 1, 0, 1], pa.uint64()),
        pa.array([2**62, 1, None], pa.timestamp(rng.choice(("s", "ms", "us", "ns")))),
        pa.array([2**62, 1, None], pa.duration(rng.choice(("s", "ms", "us", "ns")))),
        pa.array([2**62, 0, 1], pa.date64()),
        pa.array([2**30, -(2**31), 1], pa.date32()),
        pa.array([0, 1, 2], pa.timestamp("ns", "Nowhere/Land")),
        pa.array([float("nan"), float("inf"), None]),
        pa.array([None, None, None]),
        pa.array([["a"], [], None]),
        pa.array([{"a": "x"}, {"a": None}, None]),
        pa.array([[("k", "v")], [], None], pa.map_(pa.string(), pa.string())),
        pa.array([True, False, None]),
        no_text,
    ]
    names = rng.sample(("id", "title", "text", "other"), rng.randint(1, 4))
    return pa.table([rng.choice(columns)[:n] for _ in names], names=names)


def _parquet(table: pa.Table, rng: Random) -> bytes:
    out = io.BytesIO()
    try:
        pq.write_table(table, out, compression=rng.choice(("none", "snappy", "gzip", "zstd")))
    except (pa.ArrowException, OverflowError, ValueError):
        return b"PAR1PAR1"
    return out.getvalue()


# How they are read


def checked(*texts: str) -> None:
    """Texts can be written: none holds half of a character."""
    for text in texts:
        if not isinstance(text, str):
            raise CheckFailed(f"a {type(text).__name__} instead of a text")
        try:
            text.encode("utf8")
        except UnicodeEncodeError:
            raise CheckFailed("half a surrogate pair in what was read") from None


def check_entity(entity: Entity) -> None:
    checked(entity.id, entity.name, entity.definition, entity.species, entity.source)
    for texts in (
        entity.aliases,
        entity.types,
        entity.tree_numbers,
        entity.xrefs,
        entity.alt_ids,
        entity.parents,
    ):
        checked(*texts)
    if not entity.id or not entity.name:
        raise CheckFailed("an entity without id or name")


def read_as_ontology(path: Path, build: bool, **options: Any) -> list[Entity]:
    if build:
        with tempfile.TemporaryDirectory() as folder:
            found = list(build_ontology(path, Path(folder) / "store", **options))
    else:
        found = list(read_ontology(path, **options))
    for entity in found:
        check_entity(entity)
    return found


def use_docs(docs: Iterable[Any]) -> None:
    """Docs can be looked at and written."""
    for doc in docs:
        for span in (*doc.ents, *(span for group in doc.spans.values() for span in group)):
            checked(span.text, span.label_, span.kb_id_, span.id_)
        checked(doc.text, *doc.cats)
        doc.to_bytes()


def read_as_corpus(path: Path, thorough: bool, **options: Any) -> None:
    use_docs(read_docs(path, NLP, **options))


def read_as_texts(path: Path, thorough: bool) -> None:
    for text in read_texts(path):
        checked(text.id, text.text)


def read_as_labels(path: Path, thorough: bool) -> None:
    use_docs(to_doc(text, NLP, report=CorpusReport()) for text in read_psytar(path))


def read_as_source(path: Path, thorough: bool) -> None:
    output = path.with_name("output")
    try:
        lay_out(path, output, member=MEMBER)
    except KrisselError:
        if output.exists():
            raise CheckFailed("part of a file that was refused") from None
        raise
    output.read_bytes()


class Transfer:
    """A file of this machine in the place of a download."""

    answer: Mapping[str, str] = {}

    def __init__(self, path: Path) -> None:
        self.path = path

    def __call__(self, url: str, output_file: Any, pooch: Any) -> None:
        shutil.copyfile(self.path, output_file)


def read_as_download(path: Path, thorough: bool, vocabulary: str, by_hand: bool) -> None:
    """Fetch a vocabulary into an empty cache, and read it. By hand: where its file is in the cache
    already."""
    with tempfile.TemporaryDirectory() as folder:
        kept = Path(folder) / vocabulary
        if by_hand:
            kept.mkdir()
            shutil.copyfile(path, kept / path.name)
        with (
            patch.dict(os.environ, {"KRISSEL_CACHE": folder}),
            patch.object(cache, "Download", lambda work, progress=False: Transfer(path)),
        ):
            try:
                cache.fetch(vocabulary)
            except KrisselError:
                if kept.exists() != by_hand or (kept / cache.RECORD).exists():
                    raise CheckFailed("a download that was refused stays in the cache") from None
                raise
            source = cache.locate(vocabulary, "auto", False)
            read_as_ontology(source.path, False, format=source.format, **source.options)


def read_as_records(path: Path, thorough: bool) -> None:
    records = read_records(path)
    list(record_keys(records))
    for each in records:
        checked(
            each.doc,
            each.text,
            each.label,
            *each.gold,
            *each.ranked,
            *each.ties,
            each.prediction,
            each.prototype,
        )
        checked(each.prototype_surface, each.prototype_kind, each.left, each.right)
        numbers = (each.start, each.end, *each.scores)
        if not all(isinstance(n, (int, float)) for n in numbers) or not isinstance(
            each.found, bool
        ):
            raise CheckFailed("a record with values of other kinds")


def read_as_kb(path: Path, thorough: bool) -> None:
    kb = PrototypeKB(Vocab(), 0)
    use_kb(kb.from_bytes(path.read_bytes()) if path.suffix == ".bin" else kb.from_disk(path.parent))


def use_kb(kb: PrototypeKB) -> None:
    import numpy as np

    if kb.entity_vector_length and not kb.is_empty():
        candidate_dicts(kb, kb.search(np.ones((1, kb.entity_vector_length), dtype=np.float32), 2))


def read_as_store(path: Path, thorough: bool) -> None:
    store = OntologyStore(path.parent)
    for entity in store:
        check_entity(entity)
        store.resolve(entity.id)
        store.find(entity.name)
    list(store.names())


def read_as_shards(path: Path, thorough: bool) -> None:
    shards = MentionShards(path.parent)
    for mention in shards:
        checked(mention.entity, mention.name, mention.mention)
    for entity, places in shards.by_entity().items():
        checked(entity, shards[places[0]].doc)


class Work(WorkFolder):
    """An unfinished run with something to lose."""

    def has_work(self) -> bool:
        return True

    def refusal(self, difference: str) -> KrisselError:
        return KrisselError(Errors.K302.format(path=self.path, difference=difference))


def read_as_state(path: Path, thorough: bool) -> None:
    with Work(path.parent) as work:
        work.start(seeds.STATE)


# The targets


def all_targets() -> list[Target]:
    found: list[Target] = []

    def add(
        name: str,
        folders: Sequence[Mapping[str, Any]],
        read: Callable[..., Any],
        make: Callable[[Random, Sequence[Files]], Files] = damage_or_compress,
        folder: bool = False,
        forged: bool = False,
        **options: Any,
    ) -> None:
        encoded = [
            {
                each: text if isinstance(text, bytes) else text.encode("utf8")
                for each, text in files.items()
            }
            for files in folders
        ]

        def read_folder(path: Path, thorough: bool) -> Any:
            return read(path.parent if folder else path, thorough, **options)

        found.append(Target(name, encoded, read_folder, make, forged))

    ontologies = ontology_seeds()
    for name, folders in ontologies.items():
        add(f"onto:{name}", folders, read_as_ontology, format=name, folder=is_folder(name))
    add("onto:auto-detect", (), read_as_ontology, _any_of(ontologies), format="auto")
    _add_wrong_formats(found, ontologies)
    add(
        "onto:species(obo)",
        [{"a.obo": text} for text in seeds.OBO_SPECIES],
        read_as_ontology,
        format="obo",
    )
    genes = [{"gene_info": text} for text in seeds.GENE_INFO]
    add(
        "onto:species(genes)",
        genes,
        read_as_ontology,
        format="gene-info",
        species=["9606", "nlm-gene"],
    )
    add(
        "lay-names",
        [{"lay.tsv": text} for text in seeds.LAY_NAMES],
        lambda path, _: read_lay_names(path),
    )

    corpora = corpus_seeds()
    for name, folders in corpora.items():
        add(f"corp:{name}", folders, _corpus_reader(name))
        if name in ("knowtator", "brat", "semeval", "share", "n2c2"):
            archives = [{TAR_GZ: gzipped(tarred(_encoded(files)))} for files in folders]
            target = f"corp:{name}-tar"
            add(target, archives, read_as_corpus, _of_parts(damage_archive, folders), format=name)
    add("corp:auto-detect", (), read_as_corpus, _any_of(corpora), format="auto")
    _add_wrong_corpora(found, corpora)
    book = workbook(seeds.SHEETS)
    add(
        "corp:psytar-xlsx",
        [{"psytar.xlsx": zipped(book)}],
        read_as_labels,
        _of_parts(damage_workbook, [book]),
    )
    export = [_encoded(files) for files in seeds.CAS]
    cas = [{"export.zip": zipped(files)} for files in export]
    add(
        "corp:cas-zip",
        cas,
        read_as_corpus,
        _of_parts(damage_zip_as("export.zip"), export),
        format="cas",
    )
    bins = [{"docs.spacy": _doc_bin()}]
    add(
        "corp:docbin", bins, lambda path, _: use_docs(read_doc_bins(path, NLP.vocab)), damage_packed
    )

    texts = [{"texts.jsonl": text} for text in seeds.TEXTS_JSONL]
    pubmed = [{"pubmed.xml": text} for text in seeds.PUBMED]
    add("text:jsonl", texts, read_as_texts)
    add("text:jsonl.gz", _gz(texts), read_as_texts, _of_parts(damage_compressed, texts))
    add("text:plain", [{"texts.txt": text} for text in seeds.PLAIN], read_as_texts)
    plain = [{"a/1.txt": seeds.PLAIN[0], "2.txt": "Another text.\n", "README.md": "None."}]
    add(
        "text:tar.gz",
        [{TAR_GZ: gzipped(tarred(_encoded(plain[0])))}],
        read_as_texts,
        _of_parts(damage_archive, plain),
    )
    add("text:pubmed", pubmed, read_as_texts)
    add("text:pubmed.gz", _gz(pubmed), read_as_texts, _of_parts(damage_compressed, pubmed))
    table = pa.table(
        {"id": ["1", "2"], "title": ["Gout", None], "text": ["Crystals.", "Fièvre."], "n": [1, 2]}
    )
    add(
        "text:parquet",
        [{"texts.parquet": _parquet(table, Random(0))}],
        read_as_texts,
        damage_parquet,
    )
    add("text:suffix", (), read_as_texts, _any_suffix([*texts, *pubmed, *plain, *_gz(texts)]))

    taxonomy = [_encoded(seeds.TAXONOMY[0]) | {"nodes.dmp": b"9606\t|\t9605\t|\tspecies\t|\n"}]
    for name, file_, parts in (
        ("ncbitaxon", "taxdmp.zip", taxonomy),
        (
            "ncit",
            "Thesaurus.OWL.zip",
            [{"Thesaurus.owl": text.encode("utf8")} for text in seeds.OWL],
        ),
        (
            "icd10cm",
            "tables.zip",
            [{"a/icd10cm-tabular.xml": text.encode("utf8")} for text in seeds.ICD10CM],
        ),
    ):
        packed = [{file_: zipped(files)} for files in parts]
        make = _of_parts(damage_zip_as(file_), parts)
        # Without the publisher's checksum, which finds all of it.
        by_hand = name == "ncbitaxon"
        add(f"vocab:{name}", packed, read_as_download, make, vocabulary=name, by_hand=by_hand)
    tables = [{"CTD_diseases.tsv": text} for text in seeds.CTD[:1]]
    damage_table = _of_parts(damage_compressed, tables)
    add(
        "vocab:medic",
        _gz(tables),
        read_as_download,
        damage_table,
        vocabulary="medic",
        by_hand=False,
    )
    source = [{f"a/{MEMBER}": b"1|t|Gout\n" * 9, "b.txt": b"Another."}]
    add(
        "lab:source.zip",
        [{"a.zip": zipped(source[0])}],
        read_as_source,
        _of_parts(damage_zip_as("a.zip"), source),
    )
    for suffix, pack in PACKERS.items():
        tar = f"a.tar.{suffix}"
        packed = [{tar: pack(tarred(source[0]))}]
        add(
            f"lab:source.tar.{suffix}",
            packed,
            read_as_source,
            _of_parts(damage_tar_as(tar), source),
        )

    add(
        "records", [{"a.links.jsonl": text} for text in seeds.RECORDS], read_as_records, damage_some
    )
    for name, saved, read in (
        ("kb", _kb_files(), read_as_kb),
        ("store", _store_files(), read_as_store),
        ("shards", _shard_files(), read_as_shards),
    ):
        first = {"manifest.json": saved["manifest.json"], **saved}
        add(f"manifest:{name}", [first], read, damage_manifest)
        add(f"forged:{name}", [first], read, damage_and_forge, forged=True)
    add("state", [{"state.json": _state()}], read_as_state, damage_some)
    add("kb-bytes", [{"kb.bin": _kb_bytes()}], read_as_kb, damage_packed)
    return found


def is_folder(format: str) -> bool:
    """Return True if an ontology format is a folder."""
    return ONTOLOGY_READERS[format].holds is not Reader.holds


def ontology_seeds() -> dict[str, list[Mapping[str, Any]]]:
    """By format, as `read_ontology` names them."""
    single: dict[str, tuple[str, Sequence[str]]] = {
        "medic": ("medic.txt", seeds.MEDIC),
        "ctd": ("ctd.tsv", seeds.CTD),
        "obo": ("a.obo", seeds.OBO),
        "obographs": ("a.json", seeds.OBOGRAPHS),
        "jsonl": ("a.jsonl", seeds.JSONL),
        "mesh": ("terms.tsv", seeds.MESH),
        "mesh-tree": ("trees.tsv", seeds.MESH_TREE),
        "mesh-xml": ("desc.xml", seeds.MESH_XML),
        "fhir": ("codes.json", seeds.FHIR),
        "icd10cm": ("tabular.xml", seeds.ICD10CM),
        "skos": ("a.ttl", seeds.SKOS),
        "owl": ("a.owl", seeds.OWL),
        "gene-info": ("gene_info", seeds.GENE_INFO),
        "cellosaurus": ("cellosaurus.txt", seeds.CELLOSAURUS),
        "cellosaurus-tsv": ("cells.tsv", seeds.CELLOSAURUS_TSV),
        "table": ("terms.csv", seeds.TABLE),
        "medcat": ("cdb.csv", seeds.MEDCAT),
        "ssslm": ("synonyms.tsv", seeds.SSSLM),
        "babelon": ("hp-fr.babelon.tsv", seeds.BABELON),
        "zeshel": ("lego.json", seeds.ZESHEL_WORLD),
        "phrases": ("phrases.tsv", seeds.PHRASES),
    }
    found: dict[str, list[Mapping[str, Any]]] = {
        name: [{file_: text} for text in texts] for name, (file_, texts) in single.items()
    }
    found["umls"] = list(seeds.UMLS)
    found["snomed"] = list(seeds.SNOMED)
    found["omop"] = list(seeds.OMOP)
    found["rxnorm"] = list(seeds.RXNORM)
    found["taxonomy"] = list(seeds.TAXONOMY)
    missing = set(ONTOLOGY_READERS) - set(found)
    assert not missing, f"no seeds for the formats {missing}"
    return found


def corpus_seeds() -> dict[str, list[Mapping[str, Any]]]:
    """By format, as `convert` names them."""
    from spacy_krissel.corpora.readers import READERS

    found: dict[str, list[Mapping[str, Any]]] = {
        "pubtator": [{"a.pubtator": text} for text in seeds.PUBTATOR],
        "bioc": [{"a.xml": text} for text in seeds.BIOC],
        "knowtator": list(seeds.KNOWTATOR),
        "brat": list(seeds.BRAT),
        "semeval": list(seeds.SEMEVAL),
        "share": list(seeds.SHARE),
        "n2c2": list(seeds.N2C2),
        "cometa-general": [{"a.csv": text} for text in seeds.COMETA],
        "cometa-specific": [{"a.csv": text} for text in seeds.COMETA],
        "linnaeus": list(seeds.LINNAEUS),
        "s800": list(seeds.S800),
        "bioid": list(seeds.BIOID),
        "bioc-json": [{"train.bioc.json": text} for text in seeds.BIOC_JSON],
        "belb": [{"train.jsonl": text} for text in seeds.BELB],
        "phrases": [{"phrases.tsv": text} for text in seeds.PHRASES],
        "zeshel": list(seeds.ZESHEL),
        "text-labels": [{"labels.jsonl": text} for text in seeds.TEXT_LABELS],
        "label-studio": [{"export.json": text} for text in seeds.LABEL_STUDIO],
        "prodigy": [{"answers.jsonl": text} for text in seeds.PRODIGY],
        "bigbio": [{"rows.jsonl": text} for text in seeds.BIGBIO],
        "cas": list(seeds.CAS),
    }
    missing = set(READERS) - set(found)
    assert not missing, f"no seeds for the formats {missing}"
    return found


def _corpus_reader(format: str) -> Callable[..., None]:
    def read(path: Path, thorough: bool) -> None:
        more = {"documents": path.parent / "documents"} if format == "zeshel" else {}
        read_as_corpus(path, thorough, format=format, **more)

    return read


def _encoded(files: Mapping[str, Any]) -> Files:
    return {
        name: text if isinstance(text, bytes) else text.encode("utf8")
        for name, text in files.items()
    }


def _gz(folders: Sequence[Mapping[str, Any]]) -> list[Files]:
    return [
        {f"{name}.gz": gzipped(data) for name, data in _encoded(files).items()} for files in folders
    ]


def _of_parts(
    make: Callable[[Random, Sequence[Files]], Files], folders: Sequence[Mapping[str, Any]]
) -> Callable[[Random, Sequence[Files]], Files]:
    """`make` given the parts of a container instead of the container."""
    parts = [_encoded(files) for files in folders]
    return lambda rng, _: make(rng, parts)


def _any_of(
    by_format: Mapping[str, Sequence[Mapping[str, Any]]],
) -> Callable[[Random, Sequence[Files]], Files]:
    """A file of any format, often under a name that says nothing."""
    stem = "input"

    def make(rng: Random, _: Sequence[Files]) -> Files:
        folders = [_encoded(files) for files in by_format[rng.choice(list(by_format))]]
        if rng.random() < 0.1:
            # Two formats in one file.
            name, data = next(iter(rng.choice(folders).items()))
            other = _encoded(rng.choice(by_format[rng.choice(list(by_format))]))
            return {stem: mutate(rng, name, data, list(other.values()))}
        chosen = damage_or_compress(rng, folders)
        if chosen and rng.random() < 0.6:
            first, *rest = chosen
            chosen = {stem: chosen[first], **{name: chosen[name] for name in rest}}
        return chosen or {stem: b""}

    return make


def _any_suffix(folders: Sequence[Mapping[str, Any]]) -> Callable[[Random, Sequence[Files]], Files]:
    def make(rng: Random, _: Sequence[Files]) -> Files:
        name, data = next(iter(_encoded(rng.choice(folders)).items()))
        suffix = rng.choice((*SUFFIXES, ".TXT", ".csv", "", ".txt.gz.gz"))
        return {f"texts{suffix}": data if rng.random() < 0.3 else mutate(rng, name, data)}

    return make


def _add_wrong_formats(
    found: list[Target], ontologies: Mapping[str, Sequence[Mapping[str, Any]]]
) -> None:
    """Each file under the name of each other format, which stands in the name of the file."""
    names = list(ontologies)

    def make(rng: Random, _: Sequence[Files]) -> Files:
        actual, wanted = rng.sample(names, 2)
        data = next(iter(_encoded(rng.choice(ontologies[actual])).values()))
        return {wanted: data if rng.random() < 0.5 else mutate(rng, "a.txt", data)}

    def read(path: Path, thorough: bool) -> None:
        read_as_ontology(path, thorough, format=path.name)

    found.append(Target("onto:wrong-format", (), read, make))


def _add_wrong_corpora(
    found: list[Target], corpora: Mapping[str, Sequence[Mapping[str, Any]]]
) -> None:
    names = list(corpora)

    def make(rng: Random, _: Sequence[Files]) -> Files:
        actual, wanted = rng.sample(names, 2)
        files = _encoded(rng.choice(corpora[actual]))
        first = next(iter(files))
        data = files.pop(first)
        return {wanted: data if rng.random() < 0.5 else mutate(rng, "a.txt", data), **files}

    def read(path: Path, thorough: bool) -> None:
        _corpus_reader(path.name)(path, thorough)

    found.append(Target("corp:wrong-format", (), read, make))


# What the package writes itself, small


def _folder(write: Callable[[Path], Any]) -> Files:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "saved"
        write(path)
        return {
            file_.relative_to(path).as_posix(): file_.read_bytes()
            for file_ in sorted(path.rglob("*"))
            if file_.is_file()
        }


ENTITIES = (
    Entity("D001", "Multiple sclerosis", ("MS",), ("T047",), alt_ids=("D9",)),
    Entity("D002", "Mass spectrometry", ("MS",), ("T059",)),
    Entity("D003", "Fièvre"),
)


def _kb() -> PrototypeKB:
    import numpy as np

    kb = PrototypeKB(Vocab(), 4)
    kb.set_entities(ENTITIES)
    prototypes = [
        Prototype("D001", "name", View("", "Multiple sclerosis", "")),
        Prototype("D001", "mention", View("Relapsing ", "MS", " is treated")),
        Prototype("D002", "gold", View("found by ", "MS", "", masked=True)),
    ]
    kb.add_prototypes(prototypes, np.eye(4, dtype=np.float32)[:3])
    kb.encoder = "fingerprint"
    return kb


def _kb_files() -> Files:
    return _folder(_kb().to_disk)


def _kb_bytes() -> bytes:
    return _kb().to_bytes()


def _store_files() -> Files:
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "medic.txt"
        source.write_text(seeds.MEDIC[0], encoding="utf8")
        return _folder(lambda path: build_ontology(source, path, format="medic"))


def _shard_files() -> Files:
    mentions = [
        MinedMention("D001", "MS", "1", 4, 6, "The ", "MS", " was"),
        MinedMention("D001", "multiple sclerosis", "2", 0, 18, "", "multiple sclerosis", "é"),
        MinedMention("D002", "MS", "3", 4, 6, "The ", "MS", ""),
    ]

    def write(path: Path) -> None:
        with new_directory(path, KIND, FORMAT_VERSION) as directory:
            table = pa.Table.from_pylist(
                [mention._asdict() for mention in mentions], schema=shard_schema()
            )
            write_shard(directory.path / "shard-00000.arrow", table)
            directory.info["shards"] = [{"file": "shard-00000.arrow", "mentions": len(mentions)}]

    return _folder(write)


def _state() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        with Work(Path(folder)) as work:
            work.start(seeds.STATE)
        return (Path(folder) / STATE).read_bytes()


def _doc_bin() -> bytes:
    from spacy.tokens import Span

    doc_bin = DocBin(store_user_data=True)
    for text in ("Gout in the knee.", "Fièvre (bad)"):
        doc = NLP(text)
        doc.user_data["krissel_id"] = text[:4]
        doc.cats = {"C1": 1.0}
        doc.ents = [Span(doc, 0, 1, label="Disease", kb_id="C1")]
        doc.spans[SPANS_KEY] = [
            Span(doc, 0, 2, label="Disease", kb_id="C1"),
            Span(doc, 1, 2, label="x"),
        ]
        doc_bin.add(doc)
    return doc_bin.to_bytes()

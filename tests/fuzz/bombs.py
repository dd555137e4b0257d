"""Small files that unpack to much, promise what they do not hold, or nest without end."""

import io
import json
import os
import resource
import shutil
import signal
import tempfile
import time
import traceback
import zipfile
import zlib
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import NamedTuple

from . import seeds
from .attempt import (
    CODED,
    CPU_SECONDS,
    CRASH,
    HANG,
    OK,
    WARNED,
    Result,
    attempt,
    innermost,
    limit_worker,
    peak,
)
from .containers import BLOCK as BLOCK_SIZE
from .containers import base256, gzipped, tar_header, workbook, zipped
from .run import fast_folder
from .seeds import Files
from .targets import TAR_GZ, Target, all_targets

SIZE = 400 * 2**20
BLOCK = 2**20
N_NESTED_XML = 2_000_000
N_NESTED_JSON = 100_000
WALL_SECONDS = 120
XLSX = "a.xlsx"
# What stands before a bomb in a valid file: up to the last of these.
INSIDE = {
    "mesh-xml": b"<String>",
    "owl": b"<rdfs:label>",
    "icd10cm": b"<desc>",
    "skos": b'<skos:prefLabel xml:lang="en">',
    "bioc": b"<text>",
    "knowtator": b"<spannedText>",
    "pubmed": b"<AbstractText>",
}
# Formats that are read whole or by lines, with no compression of their own.
PLAIN = ("onto:", "lay-names", "corp:", "text:", "records")
PACKED = (
    "-tar",
    "-zip",
    "xlsx",
    "docbin",
    ".gz",
    "parquet",
    "wrong-format",
    "auto-detect",
    "suffix",
    "species",
)


class Bomb(NamedTuple):
    """make: the files, the first of which is read, as those of the target. large: unpacks to
    `SIZE`."""

    name: str
    target: str
    make: Callable[[], Files]
    large: bool = False


def gzip_bomb(filler: bytes, before: bytes = b"", after: bytes = b"", size: int = SIZE) -> bytes:
    """A gzip file of `before`, `size` bytes of `filler`, and `after`: a block is compressed once
    and repeated."""
    block = (filler * (BLOCK // len(filler) + 1))[:BLOCK]
    parts = [b"\x1f\x8b\x08\0\0\0\0\0\0\xff"]
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    parts.append(packer.compress(before) + packer.flush(zlib.Z_FULL_FLUSH))
    # After a full flush, a block knows nothing of those before it.
    repeated = packer.compress(block) + packer.flush(zlib.Z_FULL_FLUSH)
    parts += [repeated] * (size // BLOCK)
    parts.append(packer.compress(after) + packer.flush())
    checksum = zlib.crc32(before)
    for _ in range(size // BLOCK):
        checksum = zlib.crc32(block, checksum)
    checksum = zlib.crc32(after, checksum)
    length = len(before) + size // BLOCK * BLOCK + len(after)
    return (
        b"".join(parts)
        + checksum.to_bytes(4, "little")
        + (length & 0xFFFFFFFF).to_bytes(4, "little")
    )


def _fill(files: Files, filler: bytes, place: int | None = 0) -> Files:
    """`files` with the first one compressed and filled: in place of all of it, or at a place in
    it."""
    name, *others = files
    data = files[name]
    bomb = gzip_bomb(filler) if place is None else gzip_bomb(filler, data[:place], data[place:])
    return {name: bomb, **{each: files[each] for each in others}}


def _inside(target: str, data: bytes) -> int:
    """A place in the last text of a file."""
    mark = next((mark for name, mark in INSIDE.items() if name in target), None)
    if mark is not None:
        return data.rfind(mark) + len(mark)
    if data.startswith(b"{"):
        return data.rstrip().rfind(b'"')
    return len(data.rstrip(b"\n|\t "))


def _root_end(data: bytes) -> int:
    """The place behind the first tag of an XML file that is no declaration."""
    start = next(
        i for i in range(len(data)) if data[i : i + 1] == b"<" and data[i + 1 : i + 2].isalpha()
    )
    return data.index(b">", start) + 1


def bombs(targets: dict[str, Target]) -> Iterator[Bomb]:
    for name, target in targets.items():
        if name.startswith(PLAIN) and not any(part in name for part in PACKED) and target.seeds:
            files = target.seeds[0]
            first = next(iter(files))
            if name.startswith("text:"):
                files = {f"{first}.gz": files[first]}
            yield from _gzip_bombs(name, files)
            if files[next(iter(files))].startswith(b"<"):
                yield from _xml_bombs(name, files)
    yield from _json_bombs(targets)
    yield from _tar_bombs()
    yield from _other_bombs()


def _gzip_bombs(target: str, files: Files) -> Iterator[Bomb]:
    for filler, title in ((b"\0", "zeros"), (b" ", "blanks"), (b"\n", "line ends")):
        yield Bomb(f"gzip of {title}", target, partial(_fill, files, filler, None), large=True)
    place = _inside(target, files[next(iter(files))])
    yield Bomb("gzip of one long text", target, partial(_fill, files, b"a", place), large=True)


def _xml_bombs(target: str, files: Files) -> Iterator[Bomb]:
    first = next(iter(files))
    data = files[first]
    place = _root_end(data)
    yield Bomb(
        "gzip of blanks between elements", target, partial(_fill, files, b" ", place), large=True
    )
    nested = data[:place] + b"<a>" * N_NESTED_XML
    yield Bomb(
        "2 million nested elements", target, partial(dict, {**files, first: gzipped(nested)})
    )
    attributes = b" ".join(b'a%d="1"' % i for i in range(300_000))
    wide = data[:place] + b"<a " + attributes + b"/>" + data[place:]
    yield Bomb("300,000 attributes", target, partial(dict, {**files, first: gzipped(wide)}))


def _json_bombs(targets: dict[str, Target]) -> Iterator[Bomb]:
    lists = b"[" * N_NESTED_JSON + b"]" * N_NESTED_JSON
    objects = b'{"a":' * N_NESTED_JSON + b"1" + b"}" * N_NESTED_JSON
    for name in (
        *(
            "onto:jsonl",
            "onto:obographs",
            "onto:fhir",
            "onto:zeshel",
            "onto:auto-detect",
            "corp:zeshel",
            "corp:text-labels",
        ),
        *("text:jsonl", "records", "manifest:kb", "manifest:store", "manifest:shards", "state"),
    ):
        files = (
            targets[name].seeds[0]
            if targets[name].seeds
            else {"a.jsonl": seeds.JSONL[0].encode("utf8")}
        )
        first = next(iter(files))
        data = files[first].rstrip()
        value = data[: data.rfind(b"}")] + b', "x": ' + lists + b"}"
        for bomb, title in ((lists, "lists"), (objects, "objects"), (value, "a value")):
            files = {**files, first: bomb + b"\n"}
            yield Bomb(f"JSON nested 100,000 deep: {title}", name, partial(dict, files))


def _tar_bombs() -> Iterator[Bomb]:
    for target, member in (
        ("text:tar.gz", b"1.txt"),
        ("corp:knowtator-tar", b"1.txt.knowtator.xml"),
        ("corp:brat-tar", b"1.ann"),
        ("corp:semeval-tar", b"1.pipe"),
        ("corp:share-tar", b"1.pipe.txt"),
        ("corp:n2c2-tar", b"1.norm"),
    ):
        for title, data in _tar_headers(member):
            yield Bomb(title, target, partial(dict, {TAR_GZ: gzipped(data)}))
            yield Bomb(f"{title}, not compressed", target, partial(dict, {TAR_GZ: data}))
        start = tar_header(member, b"%011o\0" % SIZE)
        for filler, title in ((b"\0", "zeros"), (b"a", "one long line"), (b"\n", "line ends")):
            yield Bomb(
                f"tar.gz with a file of {title}",
                target,
                partial(_packed, filler, start),
                large=True,
            )


def _tar_headers(member: bytes) -> Iterator[tuple[str, bytes]]:
    """Archives of little more than a header."""
    for power in (36, 50):
        size = base256(2**power)
        yield f"tar header of 2**{power} bytes", tar_header(member, size)
        yield f"tar header of 2**{power} bytes of another file", tar_header(b"1.dat", size)
        yield f"tar name of 2**{power} bytes", tar_header(b"long", size, b"L")
        yield f"tar extended header of 2**{power} bytes", tar_header(b"pax", size, b"x")
    small = b"%011o\0" % BLOCK_SIZE
    for size, title in ((base256(2**50), "huge"), (b"x" * 12, "no number")):
        first = b"%011o\0" % 0 + small
        data = b" " * BLOCK_SIZE
        yield (
            f"sparse tar header, {title}",
            tar_header(member, small, b"S", sparse=first, real_size=size) + data,
        )
        yield (
            f"sparse tar map, {title}",
            tar_header(member, small, b"S", sparse=size + size, real_size=small) + data,
        )


def _packed(filler: bytes, header: bytes) -> Files:
    return {TAR_GZ: gzip_bomb(filler, header, bytes(2 * BLOCK_SIZE))}


def _other_bombs() -> Iterator[Bomb]:
    book = workbook(seeds.SHEETS)
    shared, sheet = "xl/sharedStrings.xml", "xl/worksheets/sheet1.xml"
    strings, rows = book[shared], book[sheet]
    end, row_end = strings.index(b"</sst>"), rows.index(b"</sheetData>")
    for title, member, place, filler in (
        ("many shared strings", shared, end, b"<si><t>aaaaaaaaaaaaaaaaaaaa</t></si>"),
        ("one long shared string", shared, strings.index(b"</t>"), b"a"),
        ("blanks between shared strings", shared, end, b" "),
        ("blanks between rows", sheet, row_end, b" "),
        ("rows without cells", sheet, row_end, b"<row/>"),
    ):
        yield Bomb(
            f"xlsx of {title}",
            "corp:psytar-xlsx",
            partial(_zip_bomb, XLSX, book, member, place, filler),
            large=True,
        )
    tall = {
        **book,
        sheet: rows.replace(b'r="2"', b'r="1048576"').replace(b"A1:E4", b"A1:XFD1048576"),
    }
    yield Bomb(
        "xlsx of a million rows that are not there",
        "corp:psytar-xlsx",
        partial(dict, {XLSX: zipped(tall)}),
    )
    cas = {name: text.encode("utf8") for name, text in seeds.CAS[0].items()}
    place = cas["1.xmi"].index(b"Gout")
    yield Bomb(
        "ZIP of one long text",
        "corp:cas-zip",
        partial(_zip_bomb, "a.zip", cas, "1.xmi", place, b"a"),
        large=True,
    )
    yield Bomb("zlib of zeros", "corp:docbin", _zlib_bomb, large=True)
    yield Bomb("one text of 400 MB", "text:parquet", _parquet_bomb, large=True)


def _zlib_bomb() -> Files:
    return {"a.spacy": zlib.compress(bytes(SIZE))}


def _zip_bomb(path: str, files: Files, member: str, place: int, filler: bytes) -> Files:
    """A ZIP with one of its members filled at a place to 400 MB, so that whole fillers are
    repeated."""
    block = filler * (BLOCK // len(filler))
    data = files[member]
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, each in files.items():
            if name != member:
                archive.writestr(name, each)
        with archive.open(member, "w") as file_:
            file_.write(data[:place])
            for _ in range(SIZE // BLOCK):
                file_.write(block)
            file_.write(data[place:])
    return {path: out.getvalue()}


def _parquet_bomb() -> Files:
    import pyarrow as pa
    import pyarrow.parquet as pq

    out = io.BytesIO()
    pq.write_table(pa.table({"text": ["a" * SIZE]}), out, compression="zstd", use_dictionary=False)
    return {"a.parquet": out.getvalue()}


class Measured(NamedTuple):
    result: Result
    seconds: float
    growth: int


def measure(target: Target, files: Files) -> Measured:
    """Read a bomb in a process of its own, which may be killed."""
    work = Path(tempfile.mkdtemp(prefix="krissel-bomb-", dir=fast_folder()))
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            limit_worker(work / "log")
            before, started = peak(), _cpu_seconds()
            result = attempt(target, files, False, work)
            line = json.dumps([result, _cpu_seconds() - started, peak() - before])
            os.write(write_end, line.encode())
        except BaseException:
            traceback.print_exc()
        os._exit(0)
    os.close(write_end)
    until = time.monotonic() + WALL_SECONDS
    while not os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
        if time.monotonic() > until:
            os.kill(pid, signal.SIGUSR1)
            time.sleep(0.3)
            os.kill(pid, signal.SIGKILL)
            until = float("inf")
        time.sleep(0.05)
    _, status, usage = os.wait4(pid, 0)
    with os.fdopen(read_end) as pipe:
        line = pipe.read()
    log = (work / "log").read_text(errors="replace")
    shutil.rmtree(work, ignore_errors=True)
    if line:
        result, seconds, growth = json.loads(line)
        return Measured(Result(*result), seconds, growth)
    assert os.WIFSIGNALED(status), log
    outcome = HANG if os.WTERMSIG(status) == signal.SIGKILL else CRASH
    return Measured(Result(outcome, innermost(log)), usage.ru_utime + usage.ru_stime, 0)


def _cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def try_bombs(pattern: str | None = None, *, small: bool = False) -> int:
    """Print what each bomb did. Returns 1 if one ended in anything but a coded refusal or a reading
    to the end.

    small: without those that unpack to much.
    """
    targets = {target.name: target for target in all_targets()}
    print(f"Decompressing {SIZE >> 20} MiB of zeros alone: {_decompression():.1f} s of CPU.\n")
    print(
        (
            "| target | bomb | bytes | outcome | memory, MB | CPU, s |\n"
            "| --- | --- | ---: | --- | ---: | ---: |"
        ),
        flush=True,
    )
    harm: list[tuple[str, str]] = []
    for bomb in bombs(targets):
        if (pattern and not fnmatchcase(bomb.target, pattern)) or (small and bomb.large):
            continue
        files = bomb.make()
        result, seconds, growth = measure(targets[bomb.target], files)
        well = result.outcome in (OK, WARNED, CODED) and growth < 2**30 and seconds < CPU_SECONDS
        outcome = f"{result.outcome} {result.detail.partition(': ')[0]}".strip()
        outcome = outcome if well else f"**{outcome}**"
        size = len(next(iter(files.values())))
        print(
            (
                f"| {bomb.target} | {bomb.name} | {size:,} | {outcome} | {growth / 1e6:,.0f} | "
                f"{seconds:.1f} |"
            ),
            flush=True,
        )
        if not well:
            harm.append((bomb.target, bomb.name))
    print(f"\n{len(harm)} did harm.")
    return 1 if harm else 0


def _decompression() -> float:
    import gzip

    data = io.BytesIO(gzip_bomb(b"\0"))
    started = _cpu_seconds()
    with gzip.open(data) as file_:
        while file_.read(BLOCK):
            pass
    return _cpu_seconds() - started

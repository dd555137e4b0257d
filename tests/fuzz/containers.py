"""Files of files, whole or damaged: gzip, tar, and the zip of a workbook."""

import bz2
import gzip
import io
import lzma
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Sequence
from random import Random
from typing import Any
from xml.sax.saxutils import escape

from .mutators import BYTES, mutate
from .seeds import Files

BLOCK = 512
# Places of a tar header: what is in them, from where, how long.
TAR_FIELDS = {
    "name": (0, 100),
    "mode": (100, 8),
    "size": (124, 12),
    "mtime": (136, 12),
    "checksum": (148, 8),
    "type": (156, 1),
    "link": (157, 100),
    "magic": (257, 8),
    "sparse": (386, 96),
    "more sparse": (482, 1),
    "real size": (483, 12),
    "prefix": (345, 155),
}


# gzip


def gzipped(data: bytes) -> bytes:
    return gzip.compress(data, mtime=0)


def damage_gzip(rng: Random, data: bytes) -> bytes:
    """`data` compressed, mostly with something wrong with it."""
    packed = gzipped(data)
    how = rng.randrange(12)
    if how == 0:
        return packed
    if how == 1:
        return packed[: rng.randrange(len(packed))]
    if how == 2:
        return packed + rng.choice(
            (b"\0" * 10, b"x", packed, packed[:5], b"\x1f\x8b", rng.randbytes(20))
        )
    if how == 3:
        # Flags for fields that are not there.
        return packed[:3] + bytes([rng.choice((1, 2, 4, 8, 16, 31, 0xE0))]) + packed[4:]
    if how == 4:
        return packed[:2] + bytes([rng.randrange(256)]) + packed[3:]
    if how == 5:
        return packed[:-8] + rng.choice((b"\0" * 8, b"\xff" * 8, packed[-8:-4] + b"\0\0\0\0", b""))
    if how == 6:
        return gzipped(packed)
    if how == 7:
        return packed[: rng.choice((0, 1, 2, 3, 10))]
    if how == 8:
        middle = rng.randrange(len(data) + 1)
        return gzipped(data[:middle]) + gzipped(data[middle:])
    if how == 9:
        return (
            b"\x1f\x8b\x08\x04\0\0\0\0\0\xff"
            + struct.pack("<H", rng.choice((0, 3, 65535)))
            + packed[10:]
        )
    return rng.choice(BYTES)(rng, packed, ())


# bzip2 and xz

PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "gz": gzipped,
    "bz2": bz2.compress,
    "xz": lzma.compress,
}


# tar


def tarred(files: Files) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    # Without the filling up to 10 KiB, of which half of all damage would be.
    return (
        out.getvalue()[: sum(BLOCK + -(-len(data) // BLOCK) * BLOCK for data in files.values())]
        + b"\0" * 2 * BLOCK
    )


def tar_header(name: bytes, size: bytes, type_: bytes = b"0", **fields: bytes) -> bytes:
    """A header with its checksum; the fields as they stand in it."""
    header = bytearray(BLOCK)
    values = {
        "name": name,
        "mode": b"0000644\0",
        "size": size,
        "mtime": b"00000000000\0",
        "type": type_,
    }
    values["magic"] = b"ustar  \0"
    for field, value in {**values, **fields}.items():
        start, length = TAR_FIELDS[field.replace("_", " ")]
        header[start : start + length] = value[:length].ljust(length, b"\0")
    return with_checksum(bytes(header))


def with_checksum(header: bytes) -> bytes:
    start, length = TAR_FIELDS["checksum"]
    blank = header[:start] + b" " * length + header[start + length :]
    return blank[:start] + b"%06o\0 " % sum(blank) + blank[start + length :]


def base256(number: int, length: int = 12) -> bytes:
    """A number as GNU tar writes those that octal digits cannot."""
    return (number & (256**length - 1) | 0x80 << 8 * (length - 1)).to_bytes(length, "big")


def _odd_field(rng: Random, field: str) -> bytes:
    if field in ("size", "mtime", "mode", "real size"):
        sizes = (0, 1, 511, 512, 513, 2**20, 2**31, 2**33 - 1, 2**36, 2**50, 2**62)
        octal = (
            b"77777777777\0",
            b"-1",
            b"",
            b"9",
            b"1e3",
            b" 17 ",
            b"\xff" * 12,
            b"\x80" + b"\xff" * 11,
        )
        return rng.choice((*octal, base256(rng.choice(sizes)), b"%011o\0" % rng.choice(sizes[:6])))
    if field == "type":
        return rng.choice(
            (
                b"S",
                b"L",
                b"K",
                b"x",
                b"g",
                b"1",
                b"2",
                b"3",
                b"4",
                b"5",
                b"6",
                b"7",
                b"D",
                b"V",
                b"\0",
            )
        )
    if field == "magic":
        return rng.choice((b"ustar\x0000", b"ustar  \0", b"\0" * 8, b"xxxxxxxx"))
    if field == "more sparse":
        return b"\1"
    if field == "sparse":
        return b"".join(
            rng.choice((b"%011o\0" % 5, b"x" * 12, base256(2**50), b"\0" * 12)) for _ in range(8)
        )
    if field == "checksum":
        return rng.randbytes(8)
    names = (
        b"../x.txt",
        b"/x.txt",
        b".x.txt",
        b"",
        b"\xff\xfe.txt",
        b"a" * 100,
        b"a/../7.txt",
        b"7.txt",
        b"a\nb.txt",
    )
    return rng.choice(names)


def _pax(rng: Random) -> bytes:
    """An extended header that says odd things of the next member."""
    records = b""
    pairs: Sequence[tuple[bytes, bytes]] = (
        (b"size", rng.choice((b"1", b"-1", b"99999999999999999999", b"x", b"1.5", b"\xff"))),
        (b"path", rng.choice((b"../../x.txt", b"7.txt", b"a" * 3000, b"\0", b"\xff.txt"))),
        (b"GNU.sparse.map", rng.choice((b"0,1", b"x", b"1,2,3", b"0,99999999999999"))),
        (b"GNU.sparse.size", rng.choice((b"10", b"x", b"99999999999999"))),
        (b"GNU.sparse.major", b"1"),
        (b"GNU.sparse.minor", b"0"),
        (b"GNU.sparse.realsize", rng.choice((b"10", b"x"))),
        (b"hdrcharset", rng.choice((b"BINARY", b"x"))),
        (b"mtime", rng.choice((b"1e999", b"x", b"1"))),
    )
    for key, value in rng.sample(pairs, rng.randint(1, 4)):
        length = len(key) + len(value) + 3
        length += len(str(length + len(str(length))))
        records += b"%d %s=%s\n" % (length + rng.choice((0, 0, 0, 0, 1, -1, 10**9)), key, value)
    size = b"%011o\0" % len(records)
    return tar_header(b"pax", size, rng.choice((b"x", b"x", b"g"))) + records.ljust(
        -(-len(records) // BLOCK) * BLOCK, b"\0"
    )


def damage_tar(rng: Random, files: Files) -> bytes:
    """An archive of `files`, mostly with something wrong in its headers."""
    names = list(files)
    if rng.random() < 0.3:
        rng.shuffle(names)
    data = tarred({name: files[name] for name in names})
    headers: list[int] = []
    place = 0
    for name in names:
        headers.append(place)
        place += BLOCK + -(-len(files[name]) // BLOCK) * BLOCK
    at = rng.choice(headers)
    how = rng.randrange(8)
    if how in (0, 1, 2):
        header = bytearray(data[at : at + BLOCK])
        chosen = rng.sample(list(TAR_FIELDS), rng.choice((1, 1, 1, 2)))
        for field in chosen:
            start, length = TAR_FIELDS[field]
            header[start : start + length] = _odd_field(rng, field)[:length].ljust(length, b"\0")
        valid = bytes(header) if "checksum" in chosen else with_checksum(bytes(header))
        return data[:at] + valid + data[at + BLOCK :]
    if how == 3:
        return data[:at] + _pax(rng) + data[at:]
    if how == 4:
        link = tar_header(
            rng.choice((b"7.txt", b"x.txt", b"../x.txt")),
            b"",
            rng.choice((b"1", b"2", b"3", b"5", b"6")),
        )
        return data[:at] + link + data[at:]
    if how == 5:
        return data[
            : rng.choice(
                (rng.randrange(len(data)), at, at + BLOCK, len(data) - BLOCK, len(data) - 2 * BLOCK)
            )
        ]
    if how == 6:
        return rng.choice(BYTES)(rng, data, ())
    return data


# zip, of a workbook and others

_NS = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
_REL = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_PACKAGE = "http://schemas.openxmlformats.org/package/2006"
_HEAD = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n'
_TYPE = "application/vnd.openxmlformats-officedocument.spreadsheetml"


def workbook(sheets: dict[str, list[Sequence[Any]]]) -> Files:
    """The members of a workbook with these cells; texts are shared strings, as Excel writes
    them."""
    strings: dict[str, int] = {}
    members: dict[str, str] = {}
    for number, rows in enumerate(sheets.values(), 1):
        body = ""
        for r, row in enumerate(rows, 1):
            cells = ""
            for c, value in enumerate(row):
                ref = f"{chr(65 + c)}{r}"
                if isinstance(value, str):
                    cells += (
                        f'<c r="{ref}" t="s"><v>{strings.setdefault(value, len(strings))}</v></c>'
                    )
                elif value is not None:
                    cells += f'<c r="{ref}"><v>{value}</v></c>'
            body += f'<row r="{r}">{cells}</row>'
        size = f"A1:{chr(64 + max(map(len, rows)))}{len(rows)}"
        sheet = (
            f'<worksheet {_NS}><dimension ref="{size}"/><sheetData>{body}</sheetData></worksheet>'
        )
        members[f"xl/worksheets/sheet{number}.xml"] = _HEAD + sheet
    shared = "".join(f'<si><t xml:space="preserve">{escape(text)}</t></si>' for text in strings)
    count = f'count="{len(strings)}" uniqueCount="{len(strings)}"'
    members["xl/sharedStrings.xml"] = f"{_HEAD}<sst {_NS} {count}>{shared}</sst>"
    listed = "".join(
        f'<sheet name="{escape(title)}" sheetId="{i}" r:id="rId{i}"/>'
        for i, title in enumerate(sheets, 1)
    )
    members["xl/workbook.xml"] = (
        f'{_HEAD}<workbook {_NS} xmlns:r="{_REL}"><sheets>{listed}</sheets></workbook>'
    )
    relations = "".join(
        f'<Relationship Id="rId{i}" Type="{_REL}/worksheet" Target="worksheets/sheet{i}.xml"/>'
        for i in range(1, len(sheets) + 1)
    )
    relations += (
        f'<Relationship Id="rId99" Type="{_REL}/sharedStrings" Target="sharedStrings.xml"/>'
    )
    of = f'{_HEAD}<Relationships xmlns="{_PACKAGE}/relationships">'
    members["xl/_rels/workbook.xml.rels"] = f"{of}{relations}</Relationships>"
    whole = f'<Relationship Id="rId1" Type="{_REL}/officeDocument" Target="xl/workbook.xml"/>'
    members["_rels/.rels"] = f"{of}{whole}</Relationships>"
    parts = "".join(
        f'<Override PartName="/{name}" ContentType="{_TYPE}.{kind}+xml"/>'
        for name, kind in (
            *((name, "worksheet") for name in members if "/sheet" in name),
            ("xl/sharedStrings.xml", "sharedStrings"),
            ("xl/workbook.xml", "sheet.main"),
        )
    )
    default = (
        '<Default Extension="rels" '
        'ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
    )
    members["[Content_Types].xml"] = (
        f'{_HEAD}<Types xmlns="{_PACKAGE}/content-types">{default}{parts}</Types>'
    )
    return {name: text.encode("utf8") for name, text in members.items()}


METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)


def zipped(files: Files, method: int = zipfile.ZIP_DEFLATED) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        for name, data in files.items():
            archive.writestr(zipfile.ZipInfo(name), data, method)
    return out.getvalue()


def damage_zip(rng: Random, files: Files) -> bytes:
    """A zip of `files`: members damaged, dropped or renamed, or the archive itself."""
    files = dict(files)
    how = rng.randrange(10)
    if how < 6:
        for name in rng.sample(list(files), min(len(files), rng.choice((1, 1, 2)))):
            files[name] = mutate(rng, name, files[name], tuple(files.values()))
        return zipped(files)
    if how == 6:
        del files[rng.choice(list(files))]
        return zipped(files)
    if how == 7:
        name = rng.choice(list(files))
        renamed = {
            **files,
            rng.choice(("../x.xml", "/x.xml", name.upper(), "xl/x.xml", "a" * 300)): files.pop(
                name
            ),
        }
        return zipped(renamed, rng.choice(METHODS))
    packed = zipped(files, rng.choice((zipfile.ZIP_DEFLATED, zipfile.ZIP_DEFLATED, *METHODS)))
    if how == 8:
        # The fields of a local or central header: flags, method, checksum, sizes, lengths of names.
        signature = rng.choice((b"PK\x03\x04", b"PK\x01\x02", b"PK\x05\x06"))
        places = [i for i in range(len(packed) - 4) if packed.startswith(signature, i)]
        at = rng.choice(places) + rng.randrange(4, 30)
        value = rng.choice(
            (b"\0", b"\1", b"\xff", b"\xff\xff", b"\xff\xff\xff\xff", b"\0\0\0\x80", b"\x63")
        )
        return packed[:at] + value + packed[at + len(value) :]
    return rng.choice(BYTES)(rng, packed, ())


def deflated(data: bytes) -> bytes:
    return zlib.compress(data, 6)

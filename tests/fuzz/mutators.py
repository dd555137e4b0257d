"""Ways to damage a file. Each takes a seeded random generator, so that a seed gives the same damage
everywhere."""

import json
import re
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

# What is done to a file, given others of its format to take parts from.
Mutator = Callable[[Random, bytes, Sequence[bytes]], bytes]

NUMBERS = (
    *(
        "0",
        "-0",
        "-1",
        "1",
        "007",
        "2147483648",
        "-2147483649",
        "9223372036854775808",
        "18446744073709551616",
    ),
    *(
        "999999999",
        "1000000000",
        "1" * 400,
        "9" * 5000,
        "1e999",
        "-1e999",
        "1e5",
        "0x10",
        "1_000",
        "1.0",
        "+1",
        "3.5",
    ),
    *(
        "NaN",
        "Infinity",
        "-Infinity",
        "nan",
        "²",
        "٣",
        "１２",
        "߁",
        "½",
        "Ⅷ",
        "",
        " 1 ",
        "1 2",
        "null",
        "true",
    ),
)
ODD_TEXTS = (
    *(
        "\0",
        "\x01",
        "\x08",
        "\x0b",
        "\x0c",
        "\x1a",
        "\x1b[31m",
        "\x7f",
        "\x85",
        "\xa0",
        "\u200b",
        "\u202e",
        "\u2028",
    ),
    *(
        "\u2029",
        "\ufeff",
        "\ufffd",
        "\uffff",
        "\U0001f468\u200d\U0001f469",
        "\U0010ffff",
        "e\u0301",
        "İ",
        "ß",
        "ﬃ",
    ),
    *(
        "\r",
        "\n",
        "\r\n",
        "\t",
        " ",
        "  ",
        '"',
        '""',
        "'",
        "\\",
        "\\\\",
        "\\n",
        "\\",
        "/",
        "//",
        "../",
        "%s",
        "{0}",
    ),
    *(
        "&",
        "&amp;",
        "&#0;",
        "&#x110000;",
        "&#55296;",
        "&nope;",
        "<",
        ">",
        "<a>",
        "</a>",
        "]]>",
        "<![CDATA[",
        "<!--",
    ),
    *(
        "\\ud800",
        "\\udfff\\ud800",
        "\\u0000",
        "NaN",
        "null",
        "-1",
        "NIL",
        "|",
        "||",
        "|t|",
        "#",
        "!",
        "[Term]",
        "[",
    ),
    *("]", "{", "}", "(", ")", ";", ",", ":", "=", "==", "CON", "nul", "~", "*", "?"),
)
ODD_BYTES = (
    0x00,
    0x09,
    0x0A,
    0x0D,
    0x1F,
    0x22,
    0x3C,
    0x5C,
    0x7B,
    0x7C,
    0x80,
    0xBF,
    0xC0,
    0xED,
    0xF8,
    0xFE,
    0xFF,
)
# Encodings that Python knows; some are no encodings of text at all.
ENCODINGS = (
    *(
        "utf-16",
        "utf-16-le",
        "utf-16-be",
        "utf-32",
        "utf-32-be",
        "utf-7",
        "utf-8-sig",
        "latin-1",
        "cp1252",
        "cp437",
    ),
    *(
        "gb18030",
        "gb2312",
        "shift_jis",
        "euc-kr",
        "big5",
        "koi8-r",
        "iso2022_jp",
        "hz",
        "cp037",
        "ascii",
        "mac-roman",
    ),
)
DECLARED = (
    *ENCODINGS,
    *(
        "UTF-8",
        "utf8",
        "ISO-8859-1",
        "US-ASCII",
        "no-such",
        "hex",
        "base64",
        "rot13",
        "zlib",
        "idna",
        "punycode",
    ),
    *(
        "unicode_escape",
        "raw_unicode_escape",
        "mbcs",
        "undefined",
        "x-user-defined",
        "a" * 100,
        "",
        "utf-8 ",
        "../x",
    ),
)
DELIMITERS = (
    b"\t",
    b"|",
    b"||",
    b";",
    b",",
    b":",
    b" ",
    b"//",
    b"\n",
    b'"',
    b"{",
    b"}",
    b"[",
    b"]",
    b"<",
    b">",
    b"=",
)
LINE_ENDS = (
    b"\r",
    b"\r\n",
    b"\n\n",
    b"\r\r\n",
    b"\x85",
    b"\xe2\x80\xa8",
    b"\x0b",
    b"\x0c",
    b"\n\r",
    b"\x00\n",
)
RUN_CHARACTERS = "a A0 .\t-_/()[]\"'&<>{}|:;,é字\U0001f600\0\n\r"
# Few are long: they cost time, and say little more than short ones.
RUN_LENGTHS = (*[100] * 6, *[1_000] * 6, *[4_000] * 3, 60_000)
DEPTHS = (*[50] * 3, *[1_200] * 3, 20_000, 100_000)


def cut_places(rng: Random, data: bytes) -> list[int]:
    """Two places in `data`, in order, mostly near each other."""
    start = rng.randrange(len(data) + 1)
    length = rng.choice((1, 1, 2, 4, 16, 64, len(data)))
    return [start, min(len(data), start + rng.randint(0, length))]


# Bytes


def flip_bits(rng: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 8)) if changed else 0):
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def set_bytes(rng: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 4)) if changed else 0):
        changed[rng.randrange(len(changed))] = rng.choice(ODD_BYTES)
    return bytes(changed)


def delete(rng: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    start, end = cut_places(rng, data)
    return data[:start] + data[end:]


def duplicate(rng: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    start, end = cut_places(rng, data)
    times = rng.choice((1, 1, 2, 10, 100))
    return (
        data[:start] + data[start:end] * min(times, 1 + 50_000 // (end - start + 1)) + data[start:]
    )


def insert(rng: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    start, _ = cut_places(rng, data)
    return data[:start] + rng.randbytes(rng.choice((1, 2, 4, 16, 64))) + data[start:]


def truncate(rng: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    return data[: rng.randrange(len(data) + 1)]


def behead(rng: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    return data[rng.randrange(len(data) + 1) :]


def splice(rng: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    other = rng.choice(others) if others else data
    return truncate(rng, data, ()) + behead(rng, other, ())


def swap(rng: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    a, b = cut_places(rng, data)
    c = rng.randint(b, len(data))
    return data[:a] + data[b:c] + data[a:b] + data[c:]


def odd_integer(rng: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """Write a boundary value over what may be a length or an offset of a binary format."""
    size = rng.choice((1, 2, 4, 8))
    value = rng.choice(
        (
            0,
            1,
            2 ** (8 * size) - 1,
            2 ** (8 * size - 1),
            2 ** (8 * size - 1) - 1,
            2 ** (8 * size) - 2,
        )
    )
    start = rng.randrange(len(data) + 1)
    return data[:start] + value.to_bytes(size, rng.choice(("little", "big"))) + data[start + size :]


BYTES: Sequence[Mutator] = (
    flip_bits,
    set_bytes,
    delete,
    duplicate,
    insert,
    truncate,
    behead,
    splice,
    swap,
    odd_integer,
)

# Texts


def change_lines(rng: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    lines = data.split(b"\n")
    i, j = rng.randrange(len(lines)), rng.randrange(len(lines))
    how = rng.randrange(8)
    if how == 0:
        rng.shuffle(lines)
    elif how == 1:
        lines.insert(j, lines[i])
    elif how == 2:
        del lines[i]
    elif how == 3:
        lines[i] = b""
    elif how == 4:
        lines[i : i + 2] = [b" ".join(lines[i : i + 2])]
    elif how == 5:
        middle = rng.randrange(len(lines[i]) + 1)
        lines[i : i + 1] = [lines[i][:middle], lines[i][middle:]]
    elif how == 6:
        other = (rng.choice(others) if others else data).split(b"\n")
        lines.insert(i, rng.choice(other))
    else:
        # As many as make a file seem one of another format.
        lines[i:i] = [lines[j]] * rng.choice((3, 30, 300))
    return b"\n".join(lines)


def change_line_ends(rng: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    end = rng.choice(LINE_ENDS)
    if rng.random() < 0.6:
        return data.replace(b"\n", end)
    return b"".join(line + (end if rng.random() < 0.3 else b"\n") for line in data.split(b"\n"))


def change_number(rng: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    found = list(re.finditer(rb"-?\d+(?:\.\d+)?", data))
    if not found:
        return odd_text(rng, data, others)
    match = rng.choice(found)
    near = int(match[0].partition(b".")[0][:9]) if match[0][:1] != b"-" else 0
    number = rng.choice((*NUMBERS, str(near + rng.choice((-1, 1, 5)))))
    return data[: match.start()] + number.encode("utf8") + data[match.end() :]


def odd_text(rng: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    for _ in range(rng.choice((1, 1, 1, 5))):
        start, _ = cut_places(rng, data)
        data = (
            data[:start]
            + rng.choice(ODD_TEXTS).encode("utf8") * rng.choice((1, 1, 1, 3))
            + data[start:]
        )
    return data


def long_run(rng: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    start, _ = cut_places(rng, data)
    run = rng.choice(RUN_CHARACTERS) * rng.choice(RUN_LENGTHS)
    return data[:start] + run.encode("utf8") + data[start:]


def bad_utf8(rng: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    start, _ = cut_places(rng, data)
    wrong = rng.choice(
        (
            b"\xff",
            b"\xc0\x80",
            b"\xed\xa0\x80",
            b"\xf5\x80\x80\x80",
            b"\xe2\x82",
            b"\x80",
            b"\xf0\x9f",
        )
    )
    return data[:start] + wrong + data[start:]


def reencode(rng: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    return data.decode("utf8", "replace").encode(rng.choice(ENCODINGS), "replace")


def mark_order(rng: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """Put a byte order mark, true or not, before the text or at a line's start."""
    mark = rng.choice(
        (b"\xef\xbb\xbf", b"\xef\xbb\xbf" * 2, b"\xff\xfe", b"\xfe\xff", b"\x2b\x2f\x76\x38")
    )
    return mark + data if rng.random() < 0.7 else data.replace(b"\n", b"\n" + mark)


def change_delimiters(rng: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    old, new = (
        rng.choice([each for each in DELIMITERS if each in data] or [b""]),
        rng.choice((*DELIMITERS, b"")),
    )
    if not old:
        return data + new
    if rng.random() < 0.3:
        return data.replace(old, new)
    places = [match.start() for match in re.finditer(re.escape(old), data)]
    start = rng.choice(places)
    return data[:start] + rng.choice((new, old * 2, old * 300, b"")) + data[start + len(old) :]


def change_field(rng: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """Empty a field, or put another in its place."""
    fields = list(re.finditer(rb"[^\t|;,\n<>\"]+", data))
    if not fields:
        return data
    match, other = rng.choice(fields), rng.choice(fields)[0]
    new = rng.choice((b"", b" ", other, other, other * 2, match[0][::-1], match[0].upper()))
    return data[: match.start()] + new + data[match.end() :]


def other_case(rng: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    start, end = cut_places(rng, data)
    return data[:start] + data[start:end].swapcase() + data[end:]


TEXTS: Sequence[Mutator] = (
    *BYTES[:-1],
    change_lines,
    change_lines,
    change_lines,
    change_line_ends,
    change_number,
    change_number,
    odd_text,
    odd_text,
    long_run,
    bad_utf8,
    reencode,
    mark_order,
    change_delimiters,
    change_delimiters,
    change_field,
    change_field,
    other_case,
)

# Trees: JSON and msgpack


def odd_value(rng: Random) -> Any:
    return rng.choice(
        (
            *(
                None,
                True,
                False,
                0,
                -1,
                1,
                2**31,
                2**63,
                2**70,
                -(2**63),
                1.5,
                float("nan"),
                float("inf"),
                "",
                " ",
            ),
            *(
                "x",
                "\0",
                "\ud800",
                "é",
                "²",
                "1",
                "../x",
                "/x",
                "x" * 3000,
                [],
                [[]],
                {},
                {"": {}},
                [None],
                ["x", 1],
            ),
            *(
                [[0, 1]],
                [[-1, 10**9]],
                [[0]],
                [0, 1],
                {"id": "x"},
                {"x": [1, {"y": None}]},
                "CON",
                "a\nb",
                "\r",
            ),
        )
    )


def change_tree(rng: Random, tree: Any) -> Any:
    """`tree` with a node of it changed: another value, kind or name, gone, doubled, or deeper."""
    if isinstance(tree, (dict, list)) and tree and rng.random() < 0.85:
        keys = list(tree) if isinstance(tree, dict) else range(len(tree))
        key = rng.choice(keys)
        changed: Any = dict(tree) if isinstance(tree, dict) else list(tree)
        how = rng.randrange(10)
        if how == 0:
            del changed[key]
        elif how == 1 and isinstance(changed, list):
            changed.insert(key, changed[key])
        elif how == 1:
            changed[rng.choice((f"{key}x", "", str(key).upper(), "\0", "__proto__"))] = changed.pop(
                key
            )
        elif how == 2 and isinstance(changed, dict):
            other = rng.choice(list(changed))
            changed[key], changed[other] = changed[other], changed[key]
        else:
            changed[key] = change_tree(rng, changed[key])
        return changed
    if isinstance(tree, bytes) and rng.random() < 0.8:
        return rng.choice(BYTES)(rng, tree, ())
    if isinstance(tree, str) and rng.random() < 0.5:
        return rng.choice(TEXTS)(rng, tree.encode("utf8", "surrogatepass"), ()).decode(
            "utf8", "replace"
        )
    if isinstance(tree, int) and rng.random() < 0.4:
        return tree + rng.choice((-1, 1, 10, -1000))
    how = rng.randrange(6)
    if how == 0:
        return [tree]
    if how == 1:
        return {"x": tree}
    if how == 2 and isinstance(tree, (list, str, bytes)):
        return tree * rng.choice((2, 30))
    return odd_value(rng)


def dump(tree: Any) -> bytes:
    # Half a surrogate pair can be written as an escape alone.
    return json.dumps(tree, ensure_ascii=True).encode("ascii")


def change_json(rng: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """Change the values of a JSON file, or of one line of JSON lines."""
    try:
        return dump(change_tree(rng, json.loads(data)))
    except (ValueError, RecursionError):
        pass
    lines = data.split(b"\n")
    i = rng.randrange(len(lines))
    try:
        lines[i] = dump(change_tree(rng, json.loads(lines[i])))
    except (ValueError, RecursionError):
        return odd_text(rng, data, others)
    return b"\n".join(lines)


def nest_json(rng: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """Put a value deep into brackets, or nothing but brackets in its place."""
    depth = rng.choice(DEPTHS)
    opened, closed = rng.choice(((b"[", b"]"), (b'{"a":', b"}"), (b"[", b""), (b'{"a":', b"")))
    values = list(re.finditer(rb'(?<=[:\[,]) ?("[^"\n]*"|\d+|\[\]|\{\})|^\{', data, re.MULTILINE))
    if not values:
        return opened * depth + closed * depth + b"\n" + data
    match = rng.choice(values)
    return data[: match.start()] + opened * depth + b"1" + closed * depth + data[match.end() :]


def double_key(rng: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    pairs = list(re.finditer(rb'"\w+": ?("[^"\n]*"|\d+)', data))
    if not pairs:
        return data
    match = rng.choice(pairs)
    return data[: match.start()] + rng.choice(pairs)[0] + b", " + data[match.start() :]


JSON: Sequence[Mutator] = (*[change_json] * 24, nest_json, double_key, *TEXTS)

# XML


def _tags(data: bytes) -> list["re.Match[bytes]"]:
    return list(re.finditer(rb"<[^<>]*>", data))


def declare_encoding(rng: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """Declare an encoding, and sometimes use it."""
    name = rng.choice(DECLARED)
    body = re.sub(rb"^\s*<\?xml[^>]*\?>", b"", data)
    declared = f'<?xml version="1.0" encoding="{name}"?>'.encode() + body
    if name in ENCODINGS and rng.random() < 0.5:
        return declared.decode("utf8", "replace").encode(name, "replace")
    return declared


def declare_entities(rng: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """Entities within each other, of other files, or without an end."""
    internal = rng.choice(
        (
            '<!ENTITY a "x"><!ENTITY b "' + "&a;" * 9 + '"><!ENTITY c "' + "&b;" * 9 + '">',
            '<!ENTITY c SYSTEM "file:///etc/hostname">',
            '<!ENTITY c SYSTEM "http://127.0.0.1:9/">',
            '<!ENTITY % p SYSTEM "file:///etc/hostname"> %p;',
            "<!ENTITY % p \"<!ENTITY c 'x'>\"> %p;",
            '<!ENTITY c "&c;">',
            '<!ENTITY c "' + "x" * 5000 + '">',
            "<!ELEMENT c ANY><!ATTLIST c d CDATA #IMPLIED>",
            "<!NOTATION c PUBLIC 'x'>",
            "<!ENTITY",
        )
    )
    root = re.search(rb"<(\w+)", re.sub(rb"<[?!][^>]*>", lambda m: b" " * len(m[0]), data))
    name = root[1] if root else b"a"
    head = f"<!DOCTYPE {name.decode()} [{internal}]>".encode()
    data = re.sub(rb"<!DOCTYPE[^>]*>", b"", data)
    place = data.find(b"<" + name)
    data = data[:place] + head + data[place:]
    texts = [match.start() + 1 for match in re.finditer(rb">[^<\n]", data[place + len(head) :])]
    at = place + len(head) + rng.choice(texts) if texts else len(data)
    return data[:at] + rng.choice((b"&c;", b"&c;" * 50, b"")) + data[at:]


def nest_xml(rng: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    tags = _tags(data)
    if not tags:
        return data
    place = rng.choice(tags).end()
    name = rng.choice(
        (
            b"a",
            b"passage",
            b"sentence",
            b"annotation",
            b"Concept",
            b"AbstractText",
            b"String",
            b"span",
        )
    )
    depth = rng.choice((5, 50, 500, 5_000))
    closed = b"</" + name + b">" if rng.random() < 0.7 else b""
    return data[:place] + (b"<" + name + b">") * depth + closed * depth + data[place:]


def change_tags(rng: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    tags = _tags(data)
    if not tags:
        return data
    match, other = rng.choice(tags), rng.choice(tags)
    how = rng.randrange(7)
    if how == 0:
        new = b""
    elif how == 1:
        new = match[0] * rng.choice((2, 2, 50))
    elif how == 2:
        new = other[0]
    elif how == 3:
        new = match[0].replace(
            b">", b" " + b" ".join(b'a%d="1"' % i for i in range(rng.choice((1, 300)))) + b">", 1
        )
    elif how == 4:
        new = re.sub(
            rb'"[^"]*"', b'"%s"' % rng.choice(NUMBERS)[:99].encode("utf8"), match[0], count=1
        )
    elif how == 5:
        new = match[0] + rng.choice(
            (b"<!-- x -->", b"<?x y?>", b"<![CDATA[<&]]>", b"<x/>", b"text", b"&#13;")
        )
    else:
        new = re.sub(rb"\w+", rng.choice((b"x", b"id", b"a:b", b"text")), match[0], count=1)
    return data[: match.start()] + new + data[match.end() :]


def drop_element(rng: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """Drop, double or empty an element with all that stands in it."""
    elements = list(re.finditer(rb"<(\w+)[^<>/]*>.*?</\1>", data, re.DOTALL))
    if not elements:
        return data
    # Also those within: search again from the start of one.
    match = rng.choice(elements)
    inner = list(re.finditer(rb"<(\w+)[^<>/]*>[^<]*</\1>", match[0]))
    start, end = match.span()
    if inner and rng.random() < 0.8:
        chosen = rng.choice(inner)
        start, end = start + chosen.start(), start + chosen.end()
    element = data[start:end]
    return (
        data[:start]
        + rng.choice((b"", element * 2, element * 40, re.sub(rb">[^<]*<", b"><", element)))
        + data[end:]
    )


XML: Sequence[Mutator] = (
    *[change_tags] * 5,
    *[drop_element] * 3,
    *[declare_encoding] * 2,
    declare_entities,
    nest_xml,
    *TEXTS,
)

KINDS = {
    **dict.fromkeys(("json", "jsonl"), JSON),
    "xml": XML,
    "rels": XML,
    **dict.fromkeys(("parquet", "spacy", "bin", "arrow", "npy", "gz", "xlsx", "faiss"), BYTES),
}


def mutators_of(name: str) -> Sequence[Mutator]:
    """Return the mutators for a file by the suffix of its name."""
    return KINDS.get(name.rsplit(".", 1)[-1], TEXTS)


def mutate(rng: Random, name: str, data: bytes, others: Sequence[bytes] = ()) -> bytes:
    """`data`, of a file called `name`, damaged once or a few times."""
    mutators = mutators_of(name)
    for _ in range(rng.choice((1, 1, 1, 1, 2, 2, 3, 5))):
        data = rng.choice(mutators)(rng, data, others)
    return data

"""Names by their bags of words: the runs of words that are names equal a plain restatement, saved
tables equal those in memory, and damaged files raise."""

import json
import shutil

import numpy as np
import pytest
from damaged_bytes import damaged
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from spacy_krissel.errors import KrisselError
from spacy_krissel.finding import table as module
from spacy_krissel.finding.finder import NameFinder
from spacy_krissel.finding.table import ARRAYS, IDS, MAX_NAME_WORDS, NAMES, NameBags
from spacy_krissel.finding.words import BARRIER, END, WordReader
from spacy_krissel.kb.columns import read_array, write_array
from spacy_krissel.mining.matcher import plain_letters
from spacy_krissel.util.manifest import MANIFEST, write_manifest

NAMES_AND_IDS = [
    ("cleft palate", "E1"),
    ("palate, cleft", "E1"),
    ("absence of the speech", "E2"),
    ("Crohn's disease", "E3"),
    ("cold", "E4"),
    ("cold", "E5"),
    ("type II collagen", "E6"),
    ("carcinoma of lung", "E7"),
    ("of the", "E8"),
    ("", "E9"),
    ("±", "E9"),
    ("cold cold", "E10"),
]
TEXT = (
    "Cleft palates, palate cleft. Absent speech; absence of speech: the Crohn disease of collagens "
    "type 2 and the lung carcinoma of the cold cold (of the) cold"
)
PIECES = st.sampled_from(
    "cold colds cleft palate of the 's . , - ; lung carcinoma carcinomas type I 1 crohn disease "
    "speech absence zebra".split()
)
TEXTS = st.lists(PIECES, max_size=25).map(" ".join)


def bags(names=NAMES_AND_IDS, **settings):
    rows = {}
    pairs = [(name, rows.setdefault(id_, len(rows))) for name, id_ in names]
    return NameBags.of(pairs, rows, **settings)


def read(*texts):
    return WordReader().read([plain_letters(text).text for text in texts])


def bag(words, indices):
    return tuple(sorted(words.key[[at for at in indices if not words.skipped[at]]].tolist()))


def found(table, words):
    """Return the runs with the names of each."""
    runs = table.find(words)
    return {
        (
            first,
            last,
            tuple(sorted((name, table.id_of(row)) for name, row, _ in table.names_of(at))),
        )
        for first, last, at in zip(*(column.tolist() for column in runs), strict=True)
    }


def expected(names, words):
    """The runs of words with the bag of a name: all of them, one by one."""
    by_bag, before_stops = {}, set()
    for name, id_ in names:
        own = read(name)
        before_stops.update(own.key[own.gap == BARRIER].tolist())
        if 0 < len(key := bag(own, range(len(own.key)))) <= MAX_NAME_WORDS:
            by_bag.setdefault(key, []).append((name, id_))
    runs = set()
    for first in range(len(words.key)):
        for last in range(first, len(words.key)):
            ends = not words.skipped[first] and not words.skipped[last]
            key = bag(words, range(first, last + 1))
            if ends and key in by_bag:
                runs.add((first, last, tuple(sorted(by_bag[key]))))
            gap, key = words.gap[last], words.key[last]
            if gap == END or (gap == BARRIER and int(key) not in before_stops):
                break
    return runs


def test_runs_of_words_are_names():
    words = read(TEXT)
    runs = found(bags(), words)
    assert runs == expected(NAMES_AND_IDS, words) and len(runs) == 10


@settings(max_examples=200, deadline=None)
@given(st.lists(TEXTS, max_size=4), st.lists(TEXTS, max_size=8))
@example(["cold cold cold"], ["cold", "cold cold"])
@example(["a " * 40], ["a " * MAX_NAME_WORDS, "a " * (MAX_NAME_WORDS + 1)])
@example(["type 's I"], ["type I"])
def test_runs_equal_a_plain_restatement(texts, names):
    pairs = [(name, f"E{number % 3}") for number, name in enumerate(names)]
    words = read(*texts)
    assert found(bags(pairs, substitutes=False), words) == expected(pairs, words)


def test_more_runs_than_expected_are_all_found():
    """Each word begins sixteen names."""
    names = [("a " * n, f"E{n}") for n in range(1, 17)]
    words = read("a " * 200)
    assert len(bags(names).find(words).first) == 16 * 200 - sum(range(16))


def test_names_without_words_are_no_names():
    table = bags([("of the", "E1"), ("", "E2"), ("…", "E3")])
    assert len(table) == 3 and not len(table.find(read("of the … the of")).first)
    assert not len(bags([]).find(read("of the cold")).first)
    assert not len(bags().find(read()).first)


def test_bag_of_keys():
    table, words = bags(), read("the palate cleft")
    at = table.bag_of(words.key[1:])
    assert {name for name, *_ in table.names_of(at)} == {"cleft palate", "palate, cleft"}
    assert table.bag_of(words.key[1:2]) == -1 and table.bag_of([]) == -1
    assert bags([]).bag_of(words.key) == -1


def test_names_of_many_blocks(monkeypatch):
    names = [(f"disease number{i} of kind{i % 7}", f"E{i % 50}") for i in range(100)]
    whole = bags(names)
    monkeypatch.setattr(module, "BLOCK_NAMES", 7)
    parts = bags(names)
    assert parts.names.to_pylist() == whole.names.to_pylist()
    for name, array in whole.arrays.items():
        assert np.array_equal(parts.arrays[name], array)


# Files --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bags") / "names"
    bags().to_disk(folder)
    return folder


def test_saved_and_mapped_equals_memory(saved):
    mapped, words = NameBags.from_disk(saved), read(TEXT)
    assert found(mapped, words) == found(bags(), words)
    assert len(mapped) == len(NAMES_AND_IDS)
    assert isinstance(mapped.arrays["hashes"].base, np.memmap)


def test_empty_tables_are_saved(tmp_path):
    bags([]).to_disk(tmp_path / "names")
    assert not len(NameBags.from_disk(tmp_path / "names").find(read(TEXT)).first)


def test_saving_onto_the_mapped_folder(saved, tmp_path):
    folder = tmp_path / "names"
    shutil.copytree(saved, folder)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    mapped, words = NameBags.from_disk(folder), read(TEXT)
    mapped.to_disk(folder)
    assert found(mapped, words) == found(NameBags.from_disk(folder), words) == found(bags(), words)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_a_folder_of_something_else_is_not_overwritten(tmp_path):
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(KrisselError, match="K005"):
        bags().to_disk(tmp_path)
    assert (tmp_path / "mine.txt").read_text() == "mine"


FILES = [NAMES, IDS, *(f"{name}.npy" for name in ARRAYS)]


@pytest.mark.parametrize("file", [*FILES, MANIFEST])
def test_missing_file_raises(saved, tmp_path, file):
    folder = tmp_path / "names"
    shutil.copytree(saved, folder)
    (folder / file).unlink()
    with pytest.raises(KrisselError, match="K00[24]") as error:
        NameBags.from_disk(folder)
    assert str(folder) in str(error.value)


def test_missing_folder_raises(tmp_path):
    with pytest.raises(KrisselError, match="K001"):
        NameBags.from_disk(tmp_path / "names")


def use(folder):
    """Read everything that the table reads."""
    table = NameBags.from_disk(folder)
    NameFinder(table).find([TEXT, TEXT])
    for at in range(len(table.arrays["hashes"])):
        for _, row, _ in table.names_of(at):
            table.id_of(row)


def says_the_same(bad, content):
    """White space between the values of JSON may be any."""
    try:
        return json.loads(bad) == json.loads(content)
    except ValueError:
        return False


@pytest.mark.parametrize("file", [*FILES, MANIFEST])
@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_damaged_file_raises(saved, tmp_path_factory, file, data):
    """Checksums are compared."""
    folder = tmp_path_factory.mktemp("damaged") / "names"
    shutil.copytree(saved, folder)
    content = (saved / file).read_bytes()
    bad = data.draw(damaged(content))
    assume(file != MANIFEST or not says_the_same(bad, content))
    (folder / file).write_bytes(bad)
    with pytest.raises(KrisselError, match="K00[234]|K524"):
        use(folder)
    shutil.rmtree(folder.parent)


@pytest.mark.parametrize("file", FILES)
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_damage_in_large_files_never_crashes(saved, tmp_path_factory, file, data):
    """Whose checksums are not compared."""
    folder = tmp_path_factory.mktemp("damaged") / "names"
    shutil.copytree(saved, folder)
    content = bytearray((saved / file).read_bytes())
    for _ in range(data.draw(st.integers(1, 8))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    (folder / file).write_bytes(content)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "MAX_VERIFIED_BYTES", 0)
        try:
            use(folder)
        except KrisselError as error:
            assert error.code in ("K004", "K524") and str(folder) in str(error)
    shutil.rmtree(folder.parent)


WILD = [0, -1, 1, 2**62, -(2**62), 2**63 - 1, -(2**63)]


@pytest.mark.parametrize("name", [name for name, dtype in ARRAYS.items() if dtype == "<i8"])
@pytest.mark.parametrize("wild", [*WILD, "alternating", "reversed", "random"])
def test_numbers_out_of_range_stay_within_the_arrays(saved, tmp_path, monkeypatch, name, wild):
    monkeypatch.setattr(module, "MAX_VERIFIED_BYTES", 0)
    folder = tmp_path / "names"
    shutil.copytree(saved, folder)
    path = folder / f"{name}.npy"
    values = np.load(path)
    if wild == "alternating":
        values[::2], values[1::2] = -(2**62), 2**62
    elif wild == "reversed":
        values = values[::-1].copy()
    elif wild == "random":
        values = np.random.default_rng(0).integers(-100, 100, values.shape)
    else:
        values[:] = wild
    write_array(values, path)
    try:
        use(folder)
    except KrisselError as error:
        assert error.code == "K524" and str(folder) in str(error)


@pytest.mark.parametrize("name", ["buckets", "bag_starts", "bag_names", "is_substituted"])
@pytest.mark.parametrize("change", [-1, 1, "none", "one", "two"])
def test_arrays_of_other_lengths_raise(saved, tmp_path, name, change):
    """A manifest that is right about files that do not fit each other."""
    folder = tmp_path / "names"
    shutil.copytree(saved, folder)
    path = folder / f"{name}.npy"
    values = np.load(path)
    size = {"none": 0, "one": 1, "two": 2}.get(change)
    size = len(values) + change if size is None else size
    write_array(np.resize(values, (size, 1)).astype(values.dtype), path)
    manifest = json.loads((folder / MANIFEST).read_text())
    lengths = {**manifest["lengths"], name: size}
    write_manifest(folder, module.KIND, module.VERSION, {"lengths": lengths})
    assert len(read_array(path, size, 1, ARRAYS[name])) == size
    with pytest.raises(KrisselError, match="K524"):
        NameBags.from_disk(folder)

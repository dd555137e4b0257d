"""Pairs of ids and labels in each format: their verdicts, places and corrections."""

import gzip
import json
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from spacy_krissel.errors import KrisselError
from spacy_krissel.ontology.entity import Entity
from spacy_krissel.ontology.store import write_store
from spacy_krissel.pairs.files import open_pairs
from spacy_krissel.pairs.judge import corrections, judge
from spacy_krissel.pairs.pair import in_form_of

opened = partial(open_pairs, format="auto")

PURL = "http://purl.obolibrary.org/obo/"
ENTITIES = [
    Entity("HP:0000421", "Epistaxis", ("Nosebleed", "Hemorrhage, nasal")),
    Entity("HP:0001903", "Anemia", ("Low red cell count",)),
    Entity("HP:0002099", "Asthma", alt_ids=("HP:0000900",)),
]
SSSOM = """\
#curie_map:
#  HP: "http://purl.obolibrary.org/obo/HP_"
subject_id\tsubject_label\tpredicate_id\tobject_id\tobject_label
X:1\tfoo\tskos:exactMatch\tHP:0000421\tNosebleed
X:2\tfoo\tskos:exactMatch\tHP:0001903\tAsthma
"""
PHENOPACKET = """\
{"phenotypicFeatures": [
\t{"type": {"id": "HP:0000421", "label": "Epistaxis"}, "n": 1.5e3},
  {"type": {"label": "Asthma\\u0020", "id": "HP:0001903"}, "é": [true, null]}],
 "parents": ["HP:9999999", "http://purl.obolibrary.org/obo/HP_0000900"], "HP:0002099": "Asthma"}
"""
LINKML = """\
id: https://example.org/schema   # é
enums:
  Findings:
    permissible_values:
      EPISTAXIS:
        meaning: HP:0000421
      low_iron:
        title: "Asthma"
        meaning: HP:0001903
      anemia: {meaning: 'HP:0001903', note: &a [x, y]}
classes:
  Person:
    exact_mappings:
      - HP:0000421  # Nosebleed
      - HP:0000421  # Asthma
      - HP:9999999
    other: *a
items:
  - id: HP:0002099
    name: >
      Asthma
"""
TURTLE = """\
@prefix obo: <http://purl.obolibrary.org/obo/> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
obo:HP_0000421 rdfs:label "Nosebleed"@en ; rdfs:comment "see HP:0001903 # and obo:HP_0001903" .
obo:HP_0001903 rdfs:label "Asthma" ; rdfs:subClassOf obo:HP_9999999 . # obo:HP_0001903
<http://purl.obolibrary.org/obo/HP_0001903> rdfs:seeAlso obo:HP_0000421 .
"""
RDF_XML = """\
<?xml version="1.0"?>
<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#"
         xmlns:rdfs="http://www.w3.org/2000/01/rdf-schema#">
  <rdf:Description rdf:about="http://purl.obolibrary.org/obo/HP_0000421">
    <rdfs:label>Epistaxis</rdfs:label>
  </rdf:Description>
  <rdf:Description rdf:about="http://purl.obolibrary.org/obo/HP_0001903">
    <rdfs:label xml:lang="en">Asthma</rdfs:label>
  </rdf:Description>
</rdf:RDF>
"""
OBO = """\
format-version: 1.4

[Term]
id: HP:0001903
name: Asthma
alt_id: HP:0000900
is_a: HP:0000421 {source="x"} ! Nosebleed

[Term]
id: HP:0009999
name: obsolete cake
is_obsolete: true
"""
MARKDOWN = """\
# Report (HP:0000421 is fine)

The patient had a nosebleed (HP:0000421) and severe asthma (HP:0001903), no fever.

- HP:0000421 – Epistaxis
- HP:0001903: Low red cell count
* **Anemia** (`HP:0000421`)
1. [Asthma](http://purl.obolibrary.org/obo/HP_0002099), [Asthma](https://x.org/term/HP:0000421)
2. Cake syndrome (HP:0000421)
3. bleeding from the nose, as in HP:0000421, was seen

| id | label |
|----|-------|
| HP:0000421 | Hemorrhage, nasal |
| HP:0000421 | Asthma |

Found: HP:0000421 Epistaxis, HP:0001903 Anemia, HP:0002099 Epistaxis
HP:0000421 (Epistaxis), HP:0001903 (Asthma)
Anemia HP:0000421, Epistaxis HP:0001903
"HP:0001903 (Anemia)" or HP:9999999.

{"id": "HP:0000421", "label": "Asthma"}

```yaml
id: HP:0001903
label: Anemia
```
"""
RIGHT, SYNONYM, WRONG, UNKNOWN, RETIRED = (
    "right", "synonym", "wrong_label", "unknown_id", "retired",
)  # fmt: skip
# What stands between the place of an id and its last digits.
OBO_IRI = "http://purl.obolibrary.org/obo/HP_"
PREFIXES = ("HP:", "HP_", '"HP:', "'HP:", '"' + OBO_IRI, OBO_IRI, "obo:HP_", "")
PREFIXES = (*PREFIXES, "https://x.org/term/HP:")
# The verdicts in the order of the file without those unchecked; what is replaced in the copy.
CASES = {
    "t.csv": (
        'sep=,\r\nID,Label,note\r\nHP:0000421,"Hemorrhage, nasal","a ""b"""\r\n'
        "HP_0001903,asthma,\r\n",
        [SYNONYM, WRONG],
        [("HP_0001903", "HP_0002099")],
    ),
    "t.sssom.tsv": (SSSOM, [SYNONYM, WRONG], [("HP:0001903\tAsthma", "HP:0002099\tAsthma")]),
    "nodes.tsv": (
        "id\tcategory\tname\nHP:0000900\tbiolink:Disease\tAsthma\nHP:0001903\tx\t\n",
        [RETIRED, RIGHT],
        [("HP:0000900", "HP:0002099")],
    ),
    "t.json": (
        PHENOPACKET,
        [RIGHT, WRONG, UNKNOWN, RETIRED, RIGHT],
        [("HP:0001903", "HP:0002099"), ("HP_0000900", "HP_0002099")],
    ),
    "t.jsonl": (
        '{"id":"HP:0000421","name":"Nosebleed"}\n\n{"id":"HP:0001903","name":"Asthma"}',
        [SYNONYM, WRONG],
        [("HP:0001903", "HP:0002099")],
    ),
    "t.yaml": (
        LINKML,
        [RIGHT, WRONG, RIGHT, SYNONYM, WRONG, UNKNOWN, RIGHT],
        [("meaning: HP:0001903\n", "meaning: HP:0002099\n"), ("421  # Ast", "421  # Ast")],
    ),
    "t.ttl": (
        TURTLE,
        [SYNONYM, WRONG, UNKNOWN],
        [("obo:HP_0001903 rdfs", "obo:HP_0002099 rdfs"), ("/HP_0001903>", "/HP_0002099>")],
    ),
    "t.rdf": (RDF_XML, [RIGHT, WRONG], [("HP_0001903", "HP_0002099")]),
    "t.obo": (OBO, [WRONG, SYNONYM], [("id: HP:0001903", "id: HP:0002099")]),
    "t.md": (
        MARKDOWN,
        # Two sentences, the list, the table, the lines, the blocks.
        [
            *(RIGHT, SYNONYM, WRONG),
            *(RIGHT, SYNONYM, WRONG, RIGHT, WRONG, WRONG, RIGHT),
            *(SYNONYM, WRONG),
            *(RIGHT, RIGHT, WRONG, RIGHT, WRONG, WRONG, WRONG, RIGHT, UNKNOWN),
            *(WRONG, RIGHT),
        ],
        None,
    ),
}


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return write_store(ENTITIES, tmp_path_factory.mktemp("pairs") / "store")


@pytest.fixture
def read(store, tmp_path):
    def read(name, text, **settings):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode("utf8"))
        file_ = opened(path, **settings)
        return file_, [*judge(file_, [store])]

    return read


def statuses(judged):
    return [each.verdict.status for each in judged if each.verdict.status != "unchecked"]


@pytest.mark.parametrize("name", CASES)
def test_each_format_is_verified_and_corrected_in_place(read, tmp_path, name):
    text, expected, replaced = CASES[name]
    file_, judged = read(name, text)
    assert statuses(judged) == expected
    lines = text.splitlines()
    for each in judged:
        line, column = file_.position(each.pair.id)
        assert lines[line - 1][column - 1 :].partition(each.pair.id.value[-7:])[0] in PREFIXES
    edits, n_fixed = corrections(file_, judged, "label")
    assert n_fixed == len({edit.cell for edit in edits}) > 0
    file_.save(edits, tmp_path / f"new-{name}")
    corrected = (tmp_path / f"new-{name}").read_bytes().decode("utf8")
    if replaced is not None:
        for before, after in replaced:
            assert text.count(before) == 1
            text = text.replace(before, after)
        if name == "t.yaml":
            text = text.replace("HP:0000421  # Asthma", "HP:0002099  # Asthma")
        assert corrected == text
    # What was corrected is right, and nothing else changed its verdict.
    _, again = read(name, corrected)
    left = [each for each in again if each.verdict.is_finding]
    n_before = sum(each.verdict.is_finding for each in judged)
    assert len(left) == n_before - n_fixed and len(again) == len(judged)


def test_the_preferred_names_of_trusted_ids_replace_their_labels(read, tmp_path):
    for name, before, after in (
        ("t.csv", "id,label\nHP:0000421,Asthma\n", "id,label\nHP:0000421,Epistaxis\n"),
        (
            "t.json",
            '{"id": "HP:0000421", "label": "cake"}',
            '{"id": "HP:0000421", "label": "Epistaxis"}',
        ),
        ("t.yaml", "id: HP:0000421\nlabel: 'cake'\n", "id: HP:0000421\nlabel: 'Epistaxis'\n"),
        ("t.md", "- HP:0000421: Cake\n", "- HP:0000421: Epistaxis\n"),
        ("t.ttl", TURTLE, TURTLE.replace('"Asthma"', '"Anemia"')),
        ("t.rdf", RDF_XML, RDF_XML.replace(">Asthma<", ">Anemia<")),
    ):
        file_, judged = read(name, before)
        edits, n_fixed = corrections(file_, judged, "id")
        assert n_fixed == 1 and file_.corrected(edits).decode("utf8") == after


def test_unclear_pairs_are_left(read, tmp_path):
    text = "id,label\nHP:0000421,cake\nHP:9999999,cake\nHP:9999999,\n"
    file_, judged = read("t.csv", text)
    assert statuses(judged) == [WRONG, UNKNOWN, UNKNOWN]
    assert corrections(file_, judged, "label") == ([], 0)
    # One id with two labels: neither is followed.
    file_, judged = read("t.csv", "id,label,id_name\nHP:0009999,Asthma,\n")
    text = '{"id": "HP:0000421", "label": "Asthma", "curie": "HP:0000421", "curie_label": "Anemia"}'
    file_, judged = read("t.json", text)
    assert statuses(judged) == [WRONG, WRONG]


def test_rdf_nodes_are_not_merged(read):
    text = TURTLE + "obo:HP_0002099 rdfs:comment 'asthma' .\n"
    file_, judged = read("t.ttl", text)
    assert corrections(file_, judged, "label") == ([], 0)


def test_parquet_is_verified_by_its_columns(store, tmp_path):
    table = pa.table(
        {
            "n": [1, 2, 3],
            "name": ["Nosebleed", "Asthma", None],
            "curie": ["HP:0000421", "HP:0001903", None],
        }
    )
    parquet.write_table(table, tmp_path / "t.parquet")
    file_ = opened(tmp_path / "t.parquet")
    judged = [*judge(file_, [store])]
    assert statuses(judged) == [SYNONYM, WRONG] and file_.position(judged[1].pair.id) == (2, 3)
    edits, n_fixed = corrections(file_, judged, "label")
    file_.save(edits, tmp_path / "new.parquet")
    fixed = parquet.read_table(tmp_path / "new.parquet")
    assert n_fixed == 1 and fixed.schema == table.schema
    assert fixed.column("curie").to_pylist() == ["HP:0000421", "HP:0002099", None]
    assert fixed.drop_columns("curie") == table.drop_columns("curie")


def test_compressed_and_marked_files_keep_their_form(read, tmp_path):
    text = "\ufeffid,label\r\nHP:0001903,Asthma"
    file_, judged = read("t.csv.gz", gzip.compress(text.encode("utf8")))
    edits, n_fixed = corrections(file_, judged, "label")
    file_.save(edits, tmp_path / "new.csv.gz")
    written = gzip.decompress((tmp_path / "new.csv.gz").read_bytes()).decode("utf8")
    assert n_fixed == 1 and written == text.replace("1903", "2099")


def test_named_columns_are_read(read):
    text = "code;other;what\nHP:0000421;Asthma;Epistaxis\n"
    assert statuses(read("t.csv", text, label_column="what")[1]) == [RIGHT]
    assert statuses(read("t.txt", text, id_column="code", label_column="other")[1]) == [WRONG]
    for columns in ({"id_column": "cake"}, {"label_column": "cake"}):
        with pytest.raises(KrisselError, match="K006.*cake.*'code'"):
            read("t.csv", text, **columns)
    with pytest.raises(KrisselError, match="K006.*'a', 'b'"):
        read("t.csv", "a,b\n1,2\n")
    with pytest.raises(KrisselError, match="K006.*no table"):
        read("t.json", "{}", id_column="code")


@pytest.mark.parametrize(
    "name, content, code",
    [
        ("t.json", b'{"id": ', "K102"),
        ("t.jsonl", b'{"id": 1}\n{"id"}\n', "K102.*line 2"),
        ("t.json", b"[" * 100_000, "K05[34]|K102"),
        ("t.yaml", b"a: [1\nb: 2\n", "K102.*line"),
        ("t.yaml", b"[" * 5_000, "K102"),
        ("t.ttl", b"@prefix : <x", "K102"),
        ("t.rdf", b"<rdf:RDF>", "K007"),
        ("t.md", b"caf\xe9 HP:0000421", "K203.*line 1.*Windows"),
        ("t.csv", "id,label\n".encode("utf-16-le"), "K056"),
        ("t.parquet", b"PAR1 cake", "K053"),
        ("t.csv.gz", gzip.compress(b"id,label\n" * 99, mtime=0)[:-9], "K202"),
    ],
)
def test_damaged_files_raise_coded_errors(read, name, content, code):
    with pytest.raises(KrisselError, match=code):
        read(name, content)
    with pytest.raises(KrisselError, match="K201"):
        opened(Path("missing") / name)


@pytest.mark.parametrize(
    "written, id, expected",
    [
        ("HP:0000421", "HP:0001903", "HP:0001903"),
        ("hp_0000421", "HP:0001903", "hp_0001903"),
        (f"{PURL}HP_0000421", "HP:0001903", f"{PURL}HP_0001903"),
        ("D009103", "D000740", "D000740"),
        ("MESH:D009103", "D000740", "MESH:D000740"),
        ("https://id.nlm.nih.gov/mesh/D009103", "D000740", "https://id.nlm.nih.gov/mesh/D000740"),
        ("CVCL_0030", "CVCL_A031", "CVCL_A031"),
        ("HP:0000421", "MONDO:0001", "MONDO:0001"),
        ("http://purl.obolibrary.org/obo/HP_0000421", "MONDO:0001", ""),
    ],
)  # fmt: skip
def test_an_id_takes_the_form_of_the_one_that_it_replaces(written, id, expected):
    assert in_form_of(written, id) == expected


PARTS = [*"aé \t\n\r,;|\"'#:[]{}()!-_", "HP:0000421", "Asthma", "id", "label", "---\n", "- "]
ENDINGS = (".csv", ".tsv", ".json", ".jsonl", ".yaml", ".md", ".obo", ".ttl")
wild = st.lists(st.sampled_from(PARTS), max_size=40).map("".join)


@settings(deadline=None, max_examples=150)
@given(text=wild, ending=st.sampled_from(ENDINGS))
def test_wild_text_raises_coded_errors_only_and_is_kept(store, tmp_path_factory, text, ending):
    path = tmp_path_factory.getbasetemp() / f"wild{ending}"
    path.write_bytes(text.encode("utf8"))
    try:
        file_ = opened(path)
        judged = [*judge(file_, [store])]
    except KrisselError:
        return
    assert file_.corrected([]).decode("utf8") == text
    for each in judged:
        line, column = file_.position(each.pair.id)
        assert 1 <= line <= len(text.splitlines()) + 1 and column >= 1


@given(
    st.recursive(
        st.none() | st.integers() | st.text() | st.floats(allow_nan=False),
        lambda each: st.lists(each) | st.dictionaries(st.text(), each),
        max_leaves=12,
    )
)
def test_json_nodes_have_the_values_and_places_of_their_text(value):
    from spacy_krissel.pairs.json_file import json_nodes
    from spacy_krissel.pairs.trees import Mapping, Scalar, Sequence

    text = json.dumps(value, ensure_ascii=False)

    def plain(node):
        if isinstance(node, Mapping):
            return {key.cell.value: plain(each) for key, each in node.items}
        if isinstance(node, Sequence):
            return [plain(each) for each in node.items]
        assert isinstance(node, Scalar)
        assert json.loads(text[node.cell.start : node.cell.end]) == (
            node.cell.value if node.is_text else json.loads(node.cell.value)
        )
        return node.cell.value if node.is_text else json.loads(node.cell.value)

    (root,) = json_nodes(text)
    assert plain(root) == value

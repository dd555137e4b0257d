"""Graphs are read in the layouts of their tools, and merged without a loss."""

import csv
import json
from collections import Counter
from itertools import chain

import networkx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spacy_krissel.corpora.report import CorpusReport
from spacy_krissel.errors import KrisselError
from spacy_krissel.graphs.graph import Graph
from spacy_krissel.graphs.merge import Meaning, groups_of
from spacy_krissel.graphs.merged import write_merged
from spacy_krissel.graphs.records import listed
from spacy_krissel.graphs.write import edges_path

KGX_NODES = (
    "id\tcategory\tname\tsynonym\tprovided_by\txref\tempty\n"
    "HP:1\tbiolink:PhenotypicFeature\tEpistaxis\t\ta\tUMLS:1\t\n"
    'X:1\tbiolink:PhenotypicFeature\tnosebleed\t"Bleeding" nose\tb\tUMLS:1|UMLS:2\t\n'
    "X:2\tbiolink:Gene\tNosebleed\t\tb\t\t\n"
    "X:3\t\tAsthma\t\tb\t\t\n"
)
KGX_EDGES = (
    "id\tsubject\tpredicate\tobject\tpublications\tnegated\n"
    "e1\tHP:1\tbiolink:related_to\tX:3\tPMID:1\t\n"
    "e2\tX:1\tbiolink:related_to\tX:3\tPMID:2|PMID:1\t\n"
    "e3\tX:1\tbiolink:related_to\tX:3\tPMID:3\ttrue\n"
    "e4\tX:1\tbiolink:same_as\tHP:1\t\t\n"
    "e5\tX:2\tbiolink:related_to\tX:3\tPMID:4\t\n"
    "e6\tX:2\tbiolink:related_to\tX:3\tPMID:4\t\n"
)
NO_KEY = '<data key="k">1</data>'
E1 = {each: Meaning("HP:1", rank) for each, rank in (("HP:1", 0), ("X:1", 2), ("X:2", 2))}


def graph_of(*paths, report=None, id_column="", label_column=""):
    report = report or CorpusReport()
    return Graph(paths, report, id_column=id_column, label_column=label_column)


def merge(paths, meanings, output):
    """The counts of a merging."""
    report = CorpusReport()
    graph = graph_of(*paths, report=report)
    write_merged(graph, groups_of(graph.nodes, meanings, report), output, report)
    return report


def rows_of(path):
    return list(csv.DictReader(path.open(encoding="utf8"), delimiter="\t", quoting=csv.QUOTE_NONE))


@pytest.fixture
def kgx(tmp_path):
    paths = tmp_path / "a_nodes.tsv", tmp_path / "a_edges.tsv"
    for path, text in zip(paths, (KGX_NODES, KGX_EDGES), strict=True):
        path.write_text(text, encoding="utf8")
    return paths


def test_merged_node_keeps_the_values_of_all(kgx, tmp_path):
    report = merge(kgx, E1, tmp_path / "m_nodes.tsv")
    assert (report["merged_nodes"], report["kept_apart"]) == (1, 1)
    first, *others = rows_of(tmp_path / "m_nodes.tsv")
    assert first == {
        "id": "HP:1",
        "category": "biolink:PhenotypicFeature",
        "name": "Epistaxis",
        "synonym": '"Bleeding" nose|nosebleed',
        "provided_by": "a|b",
        "xref": "UMLS:1|UMLS:2",
        "empty": "",
        "same_as": "X:1",
    }
    # The gene with the same name is another thing.
    assert [each["id"] for each in others] == ["X:2", "X:3"]


def test_edges_are_pointed_at_the_kept_node_with_their_provenance(kgx, tmp_path):
    report = merge(kgx, E1, tmp_path / "m_nodes.tsv")
    assert (report["merged_edges"], report["self_loops"]) == (1, 1)
    rows = {each["id"]: each for each in rows_of(tmp_path / "m_edges.tsv")}
    # Edges of other nodes stay, even those that are equal.
    assert rows.keys() == {"e1", "e3", "e4", "e5", "e6"}
    joined = rows["e1"]
    assert (joined["subject"], joined["object"]) == ("HP:1", "X:3")
    assert (joined["original_subject"], joined["original_object"]) == ("HP:1|X:1", "")
    assert (joined["publications"], joined["original_id"]) == ("PMID:1|PMID:2", "e2")
    # It says something else.
    assert (rows["e3"]["subject"], rows["e3"]["original_subject"]) == ("HP:1", "X:1")
    assert (rows["e4"]["subject"], rows["e4"]["object"]) == ("HP:1", "HP:1")


def test_graph_without_equivalent_nodes_stays_the_same(kgx, tmp_path):
    merge(kgx, {}, tmp_path / "m_nodes.tsv")
    assert (tmp_path / "m_nodes.tsv").read_text(encoding="utf8") == KGX_NODES
    assert (tmp_path / "m_edges.tsv").read_text(encoding="utf8") == KGX_EDGES


def test_edges_of_a_replaced_graph_do_not_stay(kgx, tmp_path):
    merge(kgx, E1, tmp_path / "m_nodes.tsv")
    merge(kgx[:1], E1, tmp_path / "m_nodes.tsv")
    assert not (tmp_path / "m_edges.tsv").exists()


def test_json_lines_keep_their_types(tmp_path):
    records = [
        {"id": "HP:1", "name": "Epistaxis", "score": 1, "synonym": ["a|b"], "none": None},
        {"id": "X:1", "name": "nosebleed", "score": 2.5, "of": {"x": [1]}, "synonym": ["c"]},
        {"id": 7, "name": "numbered"},
        {"id": "X:1", "label": "nosebleed", "equivalent_identifiers": ["Y:1"]},
    ]
    edges = [{"subject": "X:1", "object": 7, "predicate": "p", "sources": [{"id": "infores:a"}]}]
    path = tmp_path / "nodes.jsonl"
    path.write_text("\n".join(map(json.dumps, [*records, *edges])) + "\n")
    merge([path], E1, tmp_path / "m_nodes.jsonl")
    lines = (tmp_path / "m_nodes.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == [
        {
            "id": "HP:1",
            "name": "Epistaxis",
            "score": [1, 2.5],
            "synonym": ["a|b", "c", "nosebleed"],
            "of": {"x": [1]},
            "equivalent_identifiers": ["Y:1", "X:1"],
        },
        {"id": "7", "name": "numbered"},
    ]
    (edge,) = map(json.loads, (tmp_path / "m_edges.jsonl").read_text().splitlines())
    assert edge == {**edges[0], "subject": "HP:1", "object": "7", "original_subject": "X:1"}


@pytest.mark.parametrize("make", [networkx.MultiDiGraph, networkx.MultiGraph])
def test_graphml_is_read_and_written(make, tmp_path):
    graph = make()
    graph.add_node("HP:1", label="Epistaxis", weight=2, category="a|b")
    graph.add_node("X:1", label="nosebleed", weight=3, category="b", source="s")
    graph.add_node("X:3", label="Asthma")
    graph.add_edge("X:1", "X:3", key="e1", kind="of", source="x")
    graph.add_edge("X:3", "HP:1", kind="of", source="x")
    networkx.write_graphml_xml(graph, tmp_path / "g.graphml")
    report = merge([tmp_path / "g.graphml"], E1, tmp_path / "m.graphml")
    found = networkx.read_graphml(tmp_path / "m.graphml", force_multigraph=True)
    assert found.is_directed() == graph.is_directed()
    assert dict(found.nodes(data=True)) == {
        "HP:1": {
            "label": "Epistaxis",
            "weight": "2|3",
            "category": "a|b",
            "source": "s",
            "synonym": "nosebleed",
            "same_as": "X:1",
        },
        "X:3": {"label": "Asthma"},
    }
    edges = list(found.edges(data=True))
    # The two edges have another direction.
    assert len(edges) == 2 - report["merged_edges"] == (2 if graph.is_directed() else 1)
    assert all({first, last} == {"HP:1", "X:3"} for first, last, _ in edges)
    assert {values["source"] for *_, values in edges} == {"x"}


def test_graphml_of_other_tools_is_read(tmp_path):
    """Neo4j's: a default, and data that is named like an XML attribute."""
    (tmp_path / "g.graphml").write_text(
        """<?xml version="1.0" encoding="UTF-8"?>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
<key id="labels" for="node" attr.name="labels" attr.type="string"/>
<key id="name" for="node" attr.name="name" attr.type="string"><default>nameless</default></key>
<key id="i" for="node" attr.name="id" attr.type="string"/>
<key id="label" for="edge" attr.name="label" attr.type="string"/>
<graph id="G" edgedefault="directed">
<node id="n0" labels=":Disease"><data key="labels">:Disease</data><data key="name">a|b</data>
<data key="i">MESH:1</data></node>
<node id="n1"/>
<edge id="r7" source="n0" target="n1"><data key="label">IS_A</data></edge>
</graph></graphml>"""
    )
    graph = graph_of(tmp_path / "g.graphml")
    assert [(each.id, each.label) for each in graph.nodes.values()] == [
        ("n0", "a|b"),
        ("n1", "nameless"),
    ]
    assert graph.nodes["n0"].record["id"] == "MESH:1"
    assert [dict(each.record) for each in graph.edges()] == [
        {"source": "n0", "target": "n1", "id": "r7", "label": "IS_A"}
    ]


@pytest.mark.parametrize(
    "nodes, edges",
    [
        (":ID,name,:LABEL\nX:1,cold,Disease\n", ":START_ID,:END_ID,:TYPE\nX:1,X:2,IS_A\n"),
        ("Id;Label\nX:1;cold\n", "Source;Target;Type\nX:1;X:2;Directed\n"),
        ('curie,description\nX:1,"a\ncold"\n', "object,subject\nX:2,X:1\n"),
    ],
)
def test_tables_of_other_tools_are_read(nodes, edges, tmp_path):
    (tmp_path / "nodes.csv").write_text(nodes)
    (tmp_path / "edges.csv").write_text(edges)
    paths = tmp_path / "nodes.csv", tmp_path / "edges.csv"
    graph = graph_of(*paths)
    assert [*graph.nodes] == ["X:1"]
    assert [(each.subject, each.object) for each in graph.edges()] == [("X:1", "X:2")]
    merge(paths, {}, tmp_path / "m_nodes.csv")
    assert (tmp_path / "m_nodes.csv").read_text() == nodes.replace(";", ",")


def test_graphs_with_other_keys_are_merged(tmp_path):
    (tmp_path / "a.csv").write_text("id,name\nHP:1,Epistaxis\n")
    (tmp_path / "b.csv").write_text("code,label,id\nX:1,nosebleed,7\n")
    graph = graph_of(tmp_path / "a.csv")
    assert graph.keys == ("id", "name")
    # `id` is the first usual name.
    graph = graph_of(tmp_path / "a.csv", tmp_path / "b.csv")
    assert [*graph.nodes] == ["HP:1", "7"]
    assert graph.nodes["7"].record == {"code": "X:1", "name": "nosebleed", "id": "7"}


def test_bad_rows_are_counted(tmp_path):
    (tmp_path / "n.tsv").write_text("id\tname\nX:1\tcold\textra\n\tcold\nX:2\tcold\n\nX:3\n")
    (tmp_path / "e.tsv").write_text("subject\tobject\nX:1\t\nX:2\tX:3\n")
    (tmp_path / "n.jsonl").write_text('{"id": "Y:1"}\n[]\n{"id": true}\n{"name": "cold"}\n')
    report = CorpusReport()
    graph = graph_of(*(tmp_path / each for each in ("n.tsv", "e.tsv", "n.jsonl")), report=report)
    assert [*graph.nodes] == ["X:2", "X:3", "Y:1"] and graph.n_edges == 1
    assert report["bad_records"] == 6
    # Edges are read several times, and counted once.
    assert len([*graph.edges()]) == 1 and report["bad_records"] == 6


@pytest.mark.parametrize(
    "name, content, settings, match",
    [
        ("n.tsv", "", {}, "K204"),
        ("n.csv", "name,age\ncold,1\n", {}, "K006.*id_column.*'name', 'age'"),
        ("n.csv", "id,age\ncold,1\n", {"label_column": "cake"}, "K006.*label_column"),
        ("n.jsonl", "[]\n", {}, "K204.*node or edge"),
        ("g.graphml", "<graphml><graph>", {}, "K007"),
        ("g.graphml", "<html/>", {}, "K008"),
        ("g.graphml", '<!DOCTYPE g [<!ENTITY a "b">]><graphml>&a;</graphml>', {}, "K009"),
        ("g.graphml", "<graphml><graph><hyperedge/></graph></graphml>", {}, "K132.*hyperedge"),
        ("g.graphml", "<graphml><graph/><graph/></graphml>", {}, "K132.*second graph"),
        ("g.graphml", "<graphml><graph><node/></graph></graphml>", {}, "K007.*without 'id'"),
        ("g.graphml", f"<graphml><graph>{NO_KEY}</graph></graphml>", {}, "K007.*no key"),
        ("g.graphml", "<graphml><graph/></graphml>", {"id_column": "id"}, "K006.*id_column"),
        ("g.graphml", "<graphml><graph/></graphml>", {"label_column": "x"}, "K006.*label_column"),
    ],
)  # fmt: skip
def test_invalid_graphs_have_a_coded_error(name, content, settings, match, tmp_path):
    (tmp_path / name).write_text(content)
    with pytest.raises(KrisselError, match=match):
        graph_of(tmp_path / name, **settings)


def test_directed_and_undirected_graphs_are_not_mixed(kgx, tmp_path):
    graph = networkx.MultiGraph()
    graph.add_edge("a", "b")
    networkx.write_graphml_xml(graph, tmp_path / "g.graphml")
    with pytest.raises(KrisselError, match=r"K006.*g\.graphml.*all undirected"):
        graph_of(*kgx, tmp_path / "g.graphml")


IDS = [f"X:{number}" for number in range(8)]
TEXT = st.text(
    st.characters(codec="utf-8", exclude_categories=("C", "Z"), exclude_characters="|"),
    min_size=1,
    max_size=4,
)
VALUE = TEXT | st.lists(TEXT, min_size=2, max_size=3, unique=True)
NODES = st.lists(
    st.fixed_dictionaries(
        {"id": st.sampled_from(IDS)},
        optional={
            "name": TEXT,
            "category": st.sampled_from(["A", "B", "C", ["A", "B"], "biolink:NamedThing"]),
            "same_as": st.sampled_from(IDS),
            "xref": VALUE,
        },
    ),
    min_size=1,
    max_size=12,
)
EDGES = st.lists(
    st.fixed_dictionaries(
        {"subject": st.sampled_from([*IDS, "Y:1"]), "object": st.sampled_from(IDS)},
        optional={
            "id": TEXT,
            "predicate": st.sampled_from("pq"),
            "publications": VALUE,
            "original_subject": st.sampled_from(IDS),
        },
    ),
    max_size=12,
)
MEANINGS = st.dictionaries(
    st.sampled_from(IDS),
    st.builds(Meaning, st.sampled_from(["E:1", "E:2"]), st.integers(0, 2)),
)


@settings(max_examples=30, deadline=None)
@given(
    nodes=NODES,
    edges=EDGES,
    meanings=MEANINGS,
    ending=st.sampled_from([".tsv", ".csv", ".jsonl", ".graphml"]),
)
def test_merging_loses_nothing_and_is_done_once(tmp_path_factory, nodes, edges, meanings, ending):
    folder = tmp_path_factory.mktemp("graph")
    source = folder / "g.jsonl"
    source.write_text("".join(json.dumps(each) + "\n" for each in [*nodes, *edges]))
    once, twice = folder / f"once_nodes{ending}", folder / f"twice_nodes{ending}"
    report = merge([source], meanings, once)
    paths = [once] + [edges_path(once)] * (edges_path(once) != once and bool(edges))
    graph = graph_of(*paths)
    # Every id is there, as a node or as an equivalent one.
    known = chain.from_iterable([each.id, *same_as(each.record)] for each in graph.nodes.values())
    assert {each["id"] for each in nodes} <= {*known}
    assert len(graph.nodes) == len(nodes) - report["merged_nodes"]
    assert graph.n_edges == len(edges) - report["merged_edges"]
    # Ends that were moved are known.
    kept = {each["id"] for each in nodes} - graph.nodes.keys()
    assert not kept & {end for each in graph.edges() for end in (each.subject, each.object)}
    values = Counter(item for each in nodes for item in {*map(str, listed(each.get("xref")))})
    written = Counter(
        str(item) for each in graph.nodes.values() for item in listed(each.record.get("xref"))
    )
    assert values.keys() == written.keys()
    again = merge(paths, {each: meanings[each] for each in graph.nodes if each in meanings}, twice)
    assert (again["merged_nodes"], again["merged_edges"], again["self_loops"]) == (0, 0, 0)
    assert once.read_bytes() == twice.read_bytes()
    if len(paths) > 1:
        assert paths[1].read_bytes() == edges_path(twice).read_bytes()


def same_as(record):
    return listed(record.get("same_as"))

"""Nodes of graphs are mapped by their ids or labels, and equivalent ones merged."""

import csv
import json

import pytest
from command_line import invoke

from spacy_krissel.commands.map_terms import map_terms
from spacy_krissel.errors import KrisselError, KrisselWarning
from spacy_krissel.evaluation.confidence import MIN_CONFIDENCE

# A synonym, an alternative id, a label of another entity, a label that no entity has, no label.
NODES = """\
id\tname\tcategory
HP:0000421\tEpistaxis\tA
X:1\tnose bleed\tA
HP:0001892\t\t
HP:0000175\tCleft lip\t
HP_0002315\tpain in the head\t
X:2\tcephalgia\tA
X:3\tqwxzv\t
X:4\t\t
\tnone\t
"""
EDGES = "subject\tpredicate\tobject\nX:1\tp\tX:2\nX:1\tp\tHP:0001892\n"
PREDICATES = {"skos:exactMatch": "=", "skos:closeMatch": "~"}


@pytest.fixture
def graph(tmp_path):
    (tmp_path / "a_nodes.tsv").write_text(NODES)
    (tmp_path / "a_edges.tsv").write_text(EDGES)
    return [tmp_path / "a_nodes.tsv", tmp_path / "a_edges.tsv"]


def rows_of(path):
    lines = [each for each in path.read_text().splitlines() if not each.startswith("#")]
    return list(csv.DictReader(lines, delimiter="\t"))


def test_nodes_are_mapped_and_merged(built_linker, graph, tmp_path):
    with pytest.warns(KrisselWarning, match=r"KW201.*1 record.*line 10 \(no id\)"):
        found = map_terms(
            built_linker, graph, tmp_path / "m.tsv", merge=str(tmp_path / "m_nodes.tsv")
        )
    by_label = {"exact": 1, "close": 1, "without_entity": 2}
    assert found == {
        **{"nodes": 8, "edges": 2, "by_id": 3, **by_label, "contradictory": 1},
        **{"merged_nodes": 3, "kept_apart": 0, "merged_edges": 0, "self_loops": 1, "left_out": 1},
    }
    rows = rows_of(tmp_path / "m.tsv")
    assert [
        (row["subject_id"], PREDICATES[row["predicate_id"]], row["object_id"]) for row in rows
    ] == [
        ("HP:0001892", "=", "HP:0000421"),
        ("term:HP_0002315", "=", "HP:0002315"),
        ("X:1", "~", "HP:0000421"),
        ("X:2", "=", "HP:0002315"),
        ("X:3", "=", "sssom:NoTermFound"),
        ("X:4", "=", "sssom:NoTermFound"),
        ("HP:0001892", "=", "HP:0000421"),
        ("X:1", "~", "HP:0000421"),
        ("X:2", "=", "term:HP_0002315"),
    ]
    justified = [row["mapping_justification"].removeprefix("semapv:") for row in rows]
    assert justified[0] == "UnspecifiedMatching" and justified[6:] == ["MappingChaining"] * 3
    assert [rows[at]["confidence"] for at in (0, 1, 6)] == ["1"] * 3
    # The node that leads has the entity's id.
    assert [rows[at]["confidence"] for at in (7, 8)] == [rows[at]["confidence"] for at in (2, 3)]
    merged = {row["id"]: row for row in rows_of(tmp_path / "m_nodes.tsv")}
    assert [*merged] == ["HP:0000421", "HP:0000175", "HP_0002315", "X:3", "X:4"]
    assert merged["HP:0000421"]["same_as"] == "HP:0001892|X:1"
    assert merged["HP_0002315"]["synonym"] == "cephalgia"
    edges = rows_of(tmp_path / "m_edges.tsv")
    assert [[row["subject"], row["object"]] for row in edges] == [
        ["HP:0000421", "HP_0002315"],
        ["HP:0000421", "HP:0000421"],
    ]
    assert edges[1]["original_object"] == "HP:0001892"


def test_min_confidence_decides_what_is_merged(built_linker, graph, tmp_path):
    graph[0].write_text("id\tname\nX:1\tepistaxis\nX:2\tnosebleed\nX:3\tnosebleeed\n")
    confidences = {}
    for name, min_confidence in (("low", None), ("high", 0.9999)):
        output = tmp_path / f"{name}.tsv"
        merge = tmp_path / f"{name}_nodes.tsv"
        found = map_terms(built_linker, graph, output, merge=merge, min_confidence=min_confidence)
        confidences[name] = found["merged_nodes"]
    assert confidences == {"low": 2, "high": 0}
    one, two, three, *chained = [float(row["confidence"]) for row in rows_of(tmp_path / "low.tsv")]
    assert chained == pytest.approx([one * two, one * three], abs=2e-3)


@pytest.mark.parametrize("is_graph", [False, True])
def test_a_precision_leaves_out_the_least_sure(built_linker, tmp_path, is_graph):
    """The mean confidence of what is left is the precision, of as many terms as possible."""
    names = ["epistaxis", "nosebleed", "nosebleeed", "nose bleeding", "cephalgias", "zzq"]
    rows = "".join(f"X:{i}\t{name}\n" for i, name in enumerate(names))
    source = tmp_path / "terms_nodes.tsv"
    source.write_text(f"id\tname\n{rows}")

    def mapped(**settings):
        output = tmp_path / f"{settings}.tsv"
        merge = {"merge": tmp_path / f"{settings}_nodes.tsv"} if is_graph else {}
        map_terms(built_linker, [source], output, **merge, **settings)
        return {
            row["subject_id"]: float(row["confidence"])
            for row in rows_of(output)
            if row["object_id"].startswith("HP:") and "Chain" not in row["mapping_justification"]
        }

    every = mapped(min_confidence=0.0)
    for precision in (0.5, 0.8, 0.95):
        found, ordered = mapped(precision=precision), sorted(every.values(), reverse=True)
        n = len(found)
        assert found and sum(found.values()) / n >= precision - 1e-3
        assert sorted(found.values(), reverse=True) == ordered[:n]
        next_one = ordered[n] if n < len(ordered) else 0
        assert next_one < MIN_CONFIDENCE or sum(ordered[: n + 1]) / (n + 1) < precision
    with pytest.raises(KrisselError, match="K006.*precision"):
        mapped(precision=0.9, min_confidence=0.5)
    # None is sure enough: the surest stays.
    source.write_text("id\tname\nX:1\tnosebleeed\nX:2\tnose bleeding\n")
    assert [*mapped(precision=0.96).values()] == [max(every["X:2"], every["X:3"])]
    # The linker's own limit holds where there is no confidence.
    source.write_text("id\tname\nHP:0000421\tepistaxis\n")
    assert len(mapped(precision=0.9001)) == (not is_graph)


def test_sssom_library_reads_the_mappings(built_linker, graph, tmp_path):
    sssom = pytest.importorskip("sssom_pydantic")
    graph[0].write_text(NODES.replace("\tnone\t\n", ""))
    map_terms(built_linker, graph, tmp_path / "m.tsv", merge=tmp_path / "m_nodes.tsv")
    mappings, *_, errors = sssom.read(tmp_path / "m.tsv", return_errors=True)
    assert not errors and len(mappings) == 9


def test_command_maps_json_lines_without_merging(built_linker, tmp_path):
    records = [{"id": "X:1", "name": "epistaxis"}, {"id": "X:2", "name": "nosebleed"}]
    (tmp_path / "g.jsonl").write_text("".join(json.dumps(each) + "\n" for each in records))
    output = tmp_path / "m.tsv"
    done = invoke("map", built_linker, tmp_path / "g.jsonl", "-o", output)
    assert (done.exit_code, "merged_nodes: 0" in done.output) == (0, True), done.output
    assert [(row["subject_id"], row["object_id"]) for row in rows_of(output)] == [
        ("X:1", "HP:0000421"),
        ("X:2", "HP:0000421"),
        ("X:2", "X:1"),
    ]
    assert sorted(each.name for each in tmp_path.iterdir()) == ["g.jsonl", "m.tsv"]


def test_several_lists_are_mapped_together(built_linker, tmp_path):
    (tmp_path / "a.txt").write_text("epistaxis\n")
    (tmp_path / "b.csv").write_text("id,name\nX:1,headache\n")
    found = map_terms(built_linker, [tmp_path / "a.txt", tmp_path / "b.csv"], tmp_path / "m.tsv")
    assert (found["terms"], found["exact"]) == (2, 2)


@pytest.mark.parametrize(
    "settings, match",
    [
        ({"merge": "m.tsv"}, "K006.*merge.*'nodes'"),
        ({"merge": "m_nodes.parquet"}, r"K006.*merge.*\.graphml"),
        ({"merge": "m_nodes.tsv", "top_k": 2}, "K006.*top_k"),
        ({"merge": "a_nodes.tsv"}, "K027.*a_nodes.tsv"),
        # Its edges would replace those of the input.
        ({"merge": "nodes_edges.tsv", "force": True}, "K006.*merge.*another path"),
        ({"merge": "m_nodes.tsv", "output": "m_nodes.tsv"}, "K006.*merge.*another path"),
        ({"merge": "old_nodes.csv"}, "K027.*old_edges.csv"),
    ],
)
def test_invalid_settings_write_nothing(
    built_linker, graph, tmp_path, settings, match, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "old_edges.csv").write_text("mine")
    graph.append(tmp_path / "edges_edges.tsv")
    graph[-1].write_text(EDGES)
    before = {each.name: each.read_text() for each in tmp_path.iterdir()}
    output = settings.pop("output", "m.tsv")
    with pytest.raises(KrisselError, match=match):
        map_terms(built_linker, graph, tmp_path / output, **settings)
    assert {each.name: each.read_text() for each in tmp_path.iterdir()} == before

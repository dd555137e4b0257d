import csv
import os
from itertools import islice

import pytest
import spacy
from command_line import invoke

from spacy_krissel.commands import map_terms as module
from spacy_krissel.commands.map_terms import map_terms
from spacy_krissel.errors import KrisselError, KrisselWarning
from spacy_krissel.pipeline.linked_terms import linked_terms

TERMS = "id,label\nX:1,Breast  CANCER\nX:2,breast cancers\n,MS\n4,flu\n"


@pytest.fixture
def terms(tmp_path):
    (tmp_path / "terms.csv").write_text(TERMS)
    return tmp_path / "terms.csv"


def read(path):
    """The header's lines, and the rows."""
    lines = path.read_text(encoding="utf8").splitlines(keepends=True)
    header = [line[1:-1] for line in lines if line.startswith("#")]
    return header, list(csv.DictReader(lines[len(header) :], delimiter="\t"))


def linked(nlp, term):
    doc = nlp.make_doc(term)
    doc.ents = [spacy.tokens.Span(doc, 0, len(doc), label="MENTION")]
    (ent,) = nlp.get_pipe("krissel_linker")(doc).ents
    return ent


def test_mapping_equals_the_link_of_its_term(save_linker, nlp, terms, tmp_path):
    found = map_terms(save_linker(), terms, tmp_path / "out.tsv", object_source="obo:toy")
    assert found == {"terms": 4, "exact": 3, "close": 1, "without_entity": 0, "left_out": 0}
    header, rows = read(tmp_path / "out.tsv")
    assert 'object_source: "obo:toy"' in header and "mapping_tool: spacy-krissel" in header
    assert [row["subject_id"] for row in rows] == ["X:1", "X:2", "", "term:4"]
    assert [row["subject_type"] for row in rows] == ["", "", "rdfs literal", ""]
    lexical, semantic = "semapv:LexicalMatching", "semapv:SemanticSimilarityThresholdMatching"
    assert [row["predicate_id"] for row in rows] == [
        f"skos:{each}Match" for each in ("exact", "close", *["exact"] * 2)
    ]
    assert [row["mapping_justification"] for row in rows] == [lexical, semantic, lexical, lexical]
    for row in rows:
        ent = linked(nlp, row["subject_label"])
        best = ent._.krissel_candidates[0]
        assert (row["object_id"], row["object_label"]) == (f"kb:{ent.kb_id_}", best["name"])
        # No confidence is invented.
        assert "confidence" not in row
        assert row["similarity_score"] == (
            f"{round(best['score'], 3):g}" if 0 <= best["score"] <= 1 else ""
        )


def test_mapping_says_which_field_matched(nlp, linker, tmp_path):
    linker.cfg["lexical_weight"] = 0.3
    nlp.to_disk(tmp_path / "nlp")
    terms = "Multiple Sclerosis\nflu\nsclerosis, multiplex-like\nzzqx\n"
    (tmp_path / "terms.txt").write_text(terms)
    map_terms(tmp_path / "nlp", tmp_path / "terms.txt", tmp_path / "out.tsv")
    found = [
        tuple(row[key] for key in ("mapping_justification", "object_match_field", "match_string"))
        for row in read(tmp_path / "out.tsv")[1]
    ]
    assert found == [
        ("semapv:LexicalMatching", "rdfs:label", "multiple sclerosis"),
        ("semapv:LexicalMatching", "skos:altLabel", "flu"),
        ("semapv:LexicalSimilarityThresholdMatching", "", ""),
        ("semapv:SemanticSimilarityThresholdMatching", "", ""),
    ]


def test_sssom_library_reads_the_same_mappings(save_linker, tmp_path):
    """It has no mappings without a subject id yet."""
    sssom = pytest.importorskip("sssom_pydantic")
    (tmp_path / "terms.csv").write_text(
        "id,label\nX:1,flu\nhttp://x.org/2,of \"birds\"\n3,'cold'\n"
    )
    map_terms(save_linker(), tmp_path / "terms.csv", tmp_path / "out.sssom.tsv", top_k=2)
    rows = read(tmp_path / "out.sssom.tsv")[1]
    mappings, converter, mapping_set, errors = sssom.read(
        tmp_path / "out.sssom.tsv", return_errors=True
    )
    assert not errors and len(mappings) == len(rows) == 6
    assert str(mapping_set.license) == "https://w3id.org/sssom/license/unspecified"
    for mapping, row in zip(mappings, rows, strict=True):
        assert (mapping.subject.curie, mapping.subject_name) == (
            row["subject_id"],
            row["subject_label"],
        )
        assert (mapping.predicate.curie, mapping.object.curie) == (
            row["predicate_id"],
            row["object_id"],
        )
        assert (mapping.object_name, mapping.justification.curie) == (
            row["object_label"],
            row["mapping_justification"],
        )
        assert mapping.similarity_score == (
            float(row["similarity_score"]) if row["similarity_score"] else None
        )
        assert (mapping.mapping_tool_name, str(mapping.mapping_date)[:2]) == ("spacy-krissel", "20")
    assert converter.expand(mappings[2].subject.curie) == "http://x.org/2"
    assert [each.subject_name for each in mappings[::2]] == ["flu", 'of "birds"', "'cold'"]


def test_term_without_an_entity_is_mapped_to_no_term_found(nlp, linker, terms, tmp_path):
    linker.configure(threshold=5.0)
    nlp.get_pipe_config("krissel_linker")["threshold"] = 5.0
    nlp.to_disk(tmp_path / "strict")
    found = map_terms(tmp_path / "strict", terms, tmp_path / "out.tsv", top_k=2)
    assert (found["terms"], found["without_entity"]) == (4, 4)
    rows = read(tmp_path / "out.tsv")[1]
    assert [row["object_id"] == "sssom:NoTermFound" for row in rows] == [True, False] * 4
    assert all(not row["object_label"] and not row["similarity_score"] for row in rows[::2])
    assert {row["predicate_id"] for row in rows[1::2]} == {"skos:relatedMatch"}


def test_other_candidates_are_marked_as_related_matches(save_linker, nlp, terms, tmp_path):
    map_terms(save_linker(), terms, tmp_path / "out.tsv", top_k=3)
    rows = read(tmp_path / "out.tsv")[1]
    assert len(rows) == 12
    for first in range(0, 12, 3):
        one = rows[first : first + 3]
        candidates = linked(nlp, one[0]["subject_label"])._.krissel_candidates[:3]
        assert [row["object_id"] for row in one] == [f"kb:{each['id']}" for each in candidates]
        assert [row["predicate_id"] == "skos:relatedMatch" for row in one] == [False, True, True]
    # Two entities have the name.
    assert [row["mapping_justification"] for row in rows[6:8]] == ["semapv:LexicalMatching"] * 2


def test_confidence_is_written(save_linker, terms, tmp_path, monkeypatch):
    nlp = spacy.load(save_linker())
    spacy.language.Language.component("with_confidence", func=confident)
    nlp.add_pipe("with_confidence", last=True)
    monkeypatch.setattr(module, "load_pipeline", lambda path: nlp)
    map_terms(tmp_path, terms, tmp_path / "out.tsv")
    rows = read(tmp_path / "out.tsv")[1]
    assert [row["confidence"] for row in rows] == ["0.877"] * 4 and "similarity_score" not in rows[
        0
    ]


def confident(doc):
    for ent in doc.ents:
        ent._.krissel_candidates = [
            {**each, "confidence": 0.8768} for each in ent._.krissel_candidates
        ]
    return doc


def test_terms_are_the_only_mentions_also_in_a_group(nlp, linker, terms, tmp_path):
    found = {}
    for key in ("", "sc"):
        linker.cfg["spans_key"] = key
        if key:
            ruler = nlp.add_pipe("entity_ruler", first=True)
            ruler.add_patterns([{"label": "Disease", "pattern": "cancer"}])
        nlp.to_disk(tmp_path / f"with{key}")
        map_terms(tmp_path / f"with{key}", terms, tmp_path / f"out{key}.tsv")
        found[key] = read(tmp_path / f"out{key}.tsv")[1]
    assert found[""] == found["sc"]


def test_aliases_match_exactly_without_entity_details(nlp, linker, terms, tmp_path):
    """Aliases are among the prototypes, even so."""
    linker.kb.set_entities([linker.kb[id] for id in linker.kb.entity_ids], details=False)
    assert linker.kb["T06"].aliases == ()
    nlp.to_disk(tmp_path / "bare")
    assert map_terms(tmp_path / "bare", terms, tmp_path / "out.tsv")["exact"] == 3


def test_terms_are_linked_as_a_stream(nlp):
    taken = []
    terms = (taken.append(n) or module.Term(f"flu {n}", "") for n in range(100))
    assert len(list(islice(linked_terms(nlp, terms, "", 4), 2))) == 2 and len(taken) < 20


def test_bad_rows_are_counted_and_the_progress_bar_ends(save_linker, tmp_path, terminal):
    (tmp_path / "terms.csv").write_text("label\nflu\n" + '""\n' * 4 + "cold\n")
    with pytest.warns(KrisselWarning, match=r"KW201.*4 record.*terms.csv, line 3 \(no term\)"):
        found = map_terms(
            save_linker(), tmp_path / "terms.csv", tmp_path / "out.tsv", progress=True
        )
    assert (found["terms"], found["left_out"]) == (2, 4)
    assert "Mapping: 100%" in terminal.readouterr().err


@pytest.mark.parametrize(
    "settings, match",
    [
        ({"output": "out.csv"}, "output.*ending in .tsv"),
        ({"top_k": 0}, "top_k"),
        ({"top_k": 6}, "top_k.*at most 5"),
        ({"batch_size": 0}, "batch_size"),
        ({"license": "CC0"}, "license.*CC0.*https"),
        ({"mapping_set_id": "my set"}, "mapping_set_id"),
        ({"label_column": "cake"}, "label_column.*'id', 'label'"),
    ],
)
def test_invalid_setting_keeps_an_earlier_output(save_linker, terms, tmp_path, settings, match):
    (tmp_path / "out.tsv").write_text("earlier")
    output = tmp_path / settings.pop("output", "out.tsv")
    with pytest.raises(KrisselError, match=f"K006.*{match}"):
        map_terms(save_linker(), terms, output, force=True, **settings)
    assert (tmp_path / "out.tsv").read_text() == "earlier"
    assert sorted(os.listdir(tmp_path)) == ["out.tsv", "terms.csv"]


def test_command_prints_its_counts(save_linker, terms, tmp_path):
    done = invoke("map", save_linker(), terms, "-o", tmp_path / "out.sssom.tsv")
    assert (done.exit_code, "exact: 3" in done.output) == (0, True), done.output


def test_all_columns_of_the_input_are_kept(save_linker, tmp_path):
    (tmp_path / "terms.csv").write_text(
        "code;term;Ward no.;confidence;empty\nX:1;flu;3;high;\n7;MS;;low;\n;cold;4;;\n"
    )
    map_terms(save_linker(), tmp_path / "terms.csv", tmp_path / "out.sssom.tsv", top_k=2)
    header, rows = read(tmp_path / "out.sssom.tsv")
    first = [row for row in rows if row["predicate_id"] != "skos:relatedMatch"]
    assert [row["subject_id"] for row in first] == ["X:1", "term:7", ""]
    assert [(row["input_Ward_no"], row["input_confidence"]) for row in first] == [
        ("3", "high"),
        ("", "low"),
        ("4", ""),
    ]
    assert len(rows) == 6 and rows[1]["input_Ward_no"] == "3" and "input_empty" not in rows[0]
    start = header.index("extension_definitions:")
    assert header[start + 1 : start + 3] == [
        "  - slot_name: input_Ward_no",
        "  - slot_name: input_confidence",
    ]


def test_a_precision_needs_a_confidence(save_linker, terms, tmp_path):
    with pytest.raises(KrisselError, match="K006.*precision.*krissel confidence"):
        map_terms(save_linker(), terms, tmp_path / "out.tsv", precision=0.9)
    assert not (tmp_path / "out.tsv").exists()

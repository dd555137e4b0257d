import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_krissel.mentions.gold_ids import (
    is_composite,
    is_nil,
    map_ids,
    read_ids,
    split_ids,
    to_kb_id,
)


@pytest.mark.parametrize(
    "kb_id, concepts",
    [
        ("D1", ["D1"]),
        ("D1|D2", ["D1", "D2"]),
        ("D1+OMIM:2 | D1", ["D1", "OMIM:2"]),
        ("-1|D1", ["D1"]),
        ("-1", []),
        ("-", []),
        ("NIL", []),
        ("nil|Nil", []),
        ("", []),
        ("CVCL_0045", ["CVCL_0045"]),
    ],
)
def test_ids_are_split_at_separators(kb_id, concepts):
    assert split_ids(kb_id) == concepts


def test_nil_differs_from_no_annotation():
    assert is_nil("-1") and is_nil(" - ") and is_nil("NIL") and is_nil("-1|-")
    assert not is_nil("") and not is_nil("D1|-1")
    assert to_kb_id("-1|-1") == to_kb_id("nil") == "NIL" and to_kb_id("") == ""


def test_composite_of_one_repeated_concept_is_a_composite():
    assert is_composite("D1|D1") and is_composite("D1 + D2") and is_composite("D1|-1")
    assert not is_composite("D1") and not is_composite("-1|-1") and not is_composite("")


def test_mapping_keeps_separators_and_nil():
    assert map_ids("OMIM:1 + D2|-1", lambda concept: concept.removeprefix("OMIM:")) == "1+D2|-1"
    assert map_ids("-1", str.lower) == "NIL"


@pytest.mark.parametrize(
    "raw, kb_id",
    [
        ("4363,9429", "4363|9429"),
        ("4363 ; 9429,7", "4363|9429|7"),
        ("4535(Tax:9606),4363(tax:10090)", "4535|4363"),
        ("MESH:D001,MESH:D002", "MESH:D001|MESH:D002"),
        ("D1+D2 | D3", "D1+D2 | D3"),
        ("-", "-"),
        ("", ""),
    ],
)
def test_separators_of_publishers_are_normalized(raw, kb_id):
    assert read_ids(raw) == kb_id


@pytest.mark.parametrize(
    "raw", ["c.1" + "+1" * 200_000, "a:" * 200_000, "c. " * 200_000, "SNP: " * 100_000 + "|rs1"]
)
def test_long_ids_take_linear_time(raw):
    assert "".join(split_ids(raw)).replace(" ", "") == raw.replace(" ", "").replace("|", "")


@pytest.mark.parametrize("function", [read_ids, to_kb_id, split_ids])
def test_long_white_space_takes_linear_time(function):
    raw = "D1" + " " * 200_000 + "x" + " " * 200_000 + "| D2"
    found = function(raw)
    assert "|".join(found if isinstance(found, list) else [found]).replace(" ", "") == "D1x|D2"


@pytest.mark.parametrize(
    "raw, kb_id",
    [
        ("c|SUB|G|35|A", "c|SUB|G|35|A"),
        (
            "tmVar:c|DEL|68_69|AG;HGVS:c.68_69delAG;CorrespondingGene:672;RS#:80357914",
            "c|DEL|68_69|AG",
        ),
        ("|SUB|T|-786|C", "|SUB|T|-786|C"),
        ("c|SUB|IVS14+1|G|A;CorrespondingGene:1806,1807", "c|SUB|IVS14+1|G|A"),
        ("p|FS|R|97|X|21 ; p|SUB|H|41|D", "p|FS|R|97|X|21|p|SUB|H|41|D"),
        ("p|SUB|Q|188|R,p|SUB|N|314|D", "p|SUB|Q|188|R|p|SUB|N|314|D"),
        ("rs1801133;VariantGroup:2;CorrespondingGene:4524", "rs1801133"),
        ("RS#:1801133;CorrespondingGene:4524", "rs1801133"),
        ("HGVS:p.A222V;CorrespondingGene:4524", "p.A222V"),
        ("p.A222V;CorrespondingGene:4524;RS#:1801133", "p.A222V"),
        ("c|XYZ|1_2|A;CorrespondingGene:4524", "c|XYZ|1_2|A"),
        ("CorrespondingGene:4524", ""),
        ("rs1,rs2", "rs1|rs2"),
        ("DNAMutation:c|SUB|A|1|G;CorrespondingGene:672", "c|SUB|A|1|G"),
        ("ProteinMutation: p|SUB|V|600|E ; rs12", "p|SUB|V|600|E|rs12"),
        ("c|SUB|A|1|G##CorrespondingGene:673;RS#:12", "c|SUB|A|1|G"),
        ("##CorrespondingGene:673;RS#:12", "rs12"),
        ("rs12##CorrespondingGene:673##VariantGroup:1", "rs12"),
        ("c.76+1G>A##HGVS:c.76+1G>A", "c.76+1G>A"),
        ("4535,4363##by hand, twice", "4535|4363"),
        ("##by hand", ""),
    ],
)
def test_variant_annotations_are_reduced_to_ids(raw, kb_id):
    assert read_ids(raw) == kb_id
    assert read_ids(read_ids(raw)) == kb_id


VARIANTS = st.builds(
    lambda level, kind, fields: "|".join((level, kind, *fields)),
    st.sampled_from("cgpmnr"),
    st.sampled_from(["SUB", "DEL", "INS", "INDEL", "DUP", "FS", "Allele"]),
    # As positions and residues are written, that of an intron among them; "RS0" would be an id.
    st.lists(
        st.from_regex(r"(?!RS[0-9])[A-Z]{0,3}[0-9_*?-]{0,4}(\+[0-9])?", fullmatch=True),
        min_size=2,
        max_size=4,
    ),
)


@given(
    st.lists(
        st.one_of(VARIANTS, st.sampled_from(["D1", "rs4680", "799"])),
        min_size=1,
        max_size=4,
        unique=True,
    )
)
def test_variants_of_a_composite_are_one_concept_each(ids):
    # A variant ends where another begins: other ids stand before.
    ids = sorted(ids, key=lambda id_: "|" in id_)
    kb_id = "|".join(ids)
    assert split_ids(kb_id) == ids
    assert to_kb_id(kb_id) == kb_id and is_composite(kb_id) == (len(ids) > 1)
    assert map_ids(kb_id, lambda id_: f"<{id_}>") == "|".join(f"<{id_}>" for id_ in ids)


REFERENCES = ["", "NM_000059.3:", "NC_000023.11(NM_004006.2):", "BRCA2:", "LRG_1t1:"]
IN_HGVS = st.builds(
    "{}{}.{}{}{}".format,
    st.sampled_from(REFERENCES),
    st.sampled_from("cgmnpr"),
    st.from_regex(r"\(?\*?[0-9]{1,4}[+-]([0-9]{1,3}|\?)", fullmatch=True),
    st.from_regex(r"(_[0-9]{1,4}(\+[0-9])?)?\)?", fullmatch=True),
    st.sampled_from(["del", "G>A", "dupT", "insA"]),
)


@given(
    st.lists(
        st.one_of(IN_HGVS, st.sampled_from(["D1", "rs4680", "IVS2+1G>A", "76"])),
        min_size=1,
        max_size=5,
    ),
    st.sampled_from(["|", "+", " | ", " + "]),
)
def test_plus_within_a_variant_does_not_separate_ids(ids, joint):
    kb_id = joint.join(ids)
    assert split_ids(kb_id) == list(dict.fromkeys(ids))
    assert to_kb_id(kb_id) == joint.strip().join(ids) and is_composite(kb_id) == (len(ids) > 1)
    assert read_ids(kb_id) == kb_id


def test_plus_between_other_ids_separates_them():
    assert split_ids("76+1") == ["76", "1"]
    assert split_ids("OMIM:76+1") == ["OMIM:76", "1"]
    assert split_ids("c.76A>G+672") == ["c.76A>G", "672"]


LABELS = "tmVar DNAMutation ProteinMutation SNP DNAAllele ProteinAllele AcidChange".split()


@given(
    VARIANTS,
    st.sampled_from(LABELS),
    st.sampled_from(["", "D1|", "rs4680+"]),
    st.sampled_from(["", "|rs4680"]),
)
def test_labelled_variant_is_one_id(variant, label, before, after):
    found = split_ids(f"{before}{label}:{variant}{after}")
    assert found == list(
        dict.fromkeys(
            [*filter(None, [before[:-1]]), f"{label}:{variant}", *filter(None, [after[1:]])]
        )
    )
    assert read_ids(f"{label}:{variant}") == variant


def test_bars_between_other_ids_separate_them():
    assert split_ids("D1|SUB|D2") == ["D1", "SUB", "D2"]
    assert read_ids("D1;D2") == "D1|D2"

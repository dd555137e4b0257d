import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_krissel.errors import KrisselError, KrisselWarning
from spacy_krissel.ontology.entity import Entity
from spacy_krissel.ontology.readers import read_obo

HEADER = "format-version: 1.2\ndefault-namespace: disease_ontology\nontology: doid\n\n"
TERM = r"""[Term]
id: DOID:0001816 ! a comment
name: angiosarcoma \(vascular\)
alt_id: DOID:267
alt_id: DOID:4508
def: "A \"malignant\" tumor,\nrapid." [url:http\://example.org, PMID:1]
relationship: part_of DOID:9 ! not kept
synonym: "hemangiosarcoma" EXACT []
synonym: "AS" RELATED ABBREVIATION [PMID:2] {source="x"}
synonym: "sarcoma" BROAD []
synonym: "liver angiosarcoma" NARROW []
synonym: "vessel sarcoma" []
synonym: "hemangiosarcoma" EXACT layperson []
xref: MESH:D006394
xref: OMIM:106150\n
xref: BAMS:1028 "MB"
xref: UMLS_CUI:C0018923 {xref="url:x"}
is_a: DOID:1115 {is_inferred="true"} ! sarcoma

"""
OTHERS = """[Term]
id: DOID:2
name: obsolete thing
is_obsolete: true

[Typedef]
id: part_of
name: part of

[Term]
id: DOID:3
name: other
namespace: elsewhere
is_obsolete: false
"""


@pytest.fixture
def write(tmp_path):
    def write(text):
        path = tmp_path / "small.obo"
        path.write_text(text, encoding="utf8")
        return path

    return write


@pytest.fixture(scope="module")
def shared_folder(tmp_path_factory):
    return tmp_path_factory.mktemp("obo")


@pytest.mark.filterwarnings("error")
def test_terms_are_read(write):
    angiosarcoma, other = read_obo(write(HEADER + TERM + OTHERS))
    assert angiosarcoma == Entity(
        "DOID:0001816",
        "angiosarcoma (vascular)",
        ("hemangiosarcoma", "AS", "vessel sarcoma"),
        ("disease_ontology",),
        definition='A "malignant" tumor, rapid.',
        xrefs=("MESH:D006394", "OMIM:106150", "BAMS:1028", "UMLS_CUI:C0018923"),
        source="doid",
        alt_ids=("DOID:267", "DOID:4508"),
        parents=("DOID:1115",),
    )
    assert other == Entity("DOID:3", "other", types=("elsewhere",), source="doid")


def test_scopes_and_types_can_be_chosen(write):
    path = write(HEADER + TERM)
    (exact,) = read_obo(path, scopes=["EXACT"], types=["Disease"])
    assert exact.aliases == ("hemangiosarcoma",) and exact.types == ("Disease",)
    (broad,) = read_obo(path, scopes=["BROAD", "NARROW"])
    assert broad.aliases == ("sarcoma", "liver angiosarcoma")


def test_bad_lines_and_terms_are_counted(write):
    bad = "[Term]\nid: DOID:9\n\n[Term]\nname: no id\n\n"
    bad += "[Term]\nid: DOID:8\nname: kept\nnonsense\ndef: no quotes\n\n[Ter\n"
    with pytest.warns(
        KrisselWarning, match=r"KW101.*Left out 5 of 8.*line 24 begins a \[Term\] without name"
    ):
        terms = list(read_obo(write(HEADER + TERM + bad + "[Term]\nid: DOID:7\nname: last\n")))
    # A broken stanza line ends nothing: what follows it still belongs to its own stanza.
    assert [term.id for term in terms] == ["DOID:0001816", "DOID:8", "DOID:7"]


@pytest.mark.parametrize(
    "text, message",
    [
        ("<?xml version='1.0'?>\n<rdf/>\n", "K103.*line 1 is not a `tag: value` line"),
        (HEADER, "K103.*without a record"),
        (HEADER + TERM + '[Term]\nid: DOID:5\nname: cut\nsynonym: "cu', "K102.*line 27"),
        (HEADER + TERM + "[Term]\nid: DOID:5\nna", "K102.*line 26"),
    ],
)
def test_wrong_format_and_truncation_raise(write, text, message):
    with pytest.raises(KrisselError, match=message):
        list(read_obo(write(text)))


@pytest.mark.data
@pytest.mark.filterwarnings("error", "ignore:.*KW108")
@pytest.mark.parametrize(
    "file, stanzas, obsolete",
    [
        ("doid_2016-09-01.obo", 9344, 2373),
        ("hp_2017-04-13.obo.gz", 12358, 132),
        ("cl-basic_2022-12-15.obo", 2804, 160),
        ("taxslim_2022-10-06.obo", 14907, 0),
    ],
)
def test_real_files_are_read_completely(data_dir, file, stanzas, obsolete):
    terms = list(read_obo(data_dir / "ontologies" / file))
    assert len(terms) == len({term.id for term in terms}) == stanzas - obsolete


@pytest.mark.data
def test_layperson_synonyms_and_xrefs_of_hpo_are_read(data_dir):
    terms = {term.id: term for term in read_obo(data_dir / "ontologies" / "hp_2017-04-13.obo.gz")}
    assert "Abnormally shaped skull" in terms["HP:0002648"].aliases
    assert "MSH:D021782" in terms["HP:0000003"].xrefs and terms["HP:0000003"].types == (
        "human_phenotype",
    )


# One line of any text: what `str.split` takes for white space may be escaped, or stand for itself.
LINES = st.text(
    st.characters(exclude_categories=["C", "Z"], include_characters=' "\\!{}[]'), max_size=12
)
NAMES = LINES.map(str.strip).filter(bool)
WORDS = st.from_regex(r"[a-z]{1,4}", fullmatch=True)
COMMENTS = st.one_of(st.just(""), LINES.map(lambda text: f" ! {text}"))
MODIFIERS = st.one_of(
    st.just(""),
    st.dictionaries(WORDS, LINES, max_size=2).map(
        lambda each: (
            " {" + ", ".join(f'{key}="{escape(value)}"' for key, value in each.items()) + "}"
        )
    ),
)
XREFS = st.lists(
    st.tuples(WORDS, st.one_of(st.just(""), LINES.map(lambda text: f' "{escape(text)}"'))),
    max_size=2,
).map(
    lambda each: (
        "[" + ", ".join(f"{word.upper()}:1{description}" for word, description in each) + "]"
    )
)
SCOPE_WORDS = st.sampled_from(
    ["EXACT", "RELATED", "BROAD", "exact", "Narrow", "", "OWN", "own_type", "EXACT own_type"]
)
OF_WORDS = {"": "RELATED", "OWN": "EXACT", "own_type": "RELATED", "EXACT own_type": "EXACT"}


# What ends a value without quotes.
UNQUOTED = "\\!{"


def escape(text, letters='\\"'):
    return "".join(f"\\{letter}" if letter in letters else letter for letter in text)


def read_term(folder, *lines, **options):
    path = folder / "term.obo"
    header = (
        'format-version: 1.2\nsynonymtypedef: OWN "of its own" EXACT\n'
        'synonymtypedef: own_type "no scope"\n\n'
    )
    path.write_text(header + "\n".join(["[Term]", *lines, ""]), encoding="utf8")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (term,) = read_obo(path, **options)
    return term


@given(
    NAMES,
    NAMES,
    NAMES,
    SCOPE_WORDS,
    XREFS,
    XREFS,
    st.tuples(MODIFIERS, COMMENTS),
    st.tuples(MODIFIERS, COMMENTS),
)
def test_values_are_without_modifiers_and_comments(
    shared_folder, name, synonym, definition, words, xrefs, sources, ends, others
):
    lines = [
        f"id: A:1{''.join(ends)}",
        f"name: {escape(name, UNQUOTED)}{''.join(others)}",
        f'synonym: "{escape(synonym)}" {words} {xrefs}{"".join(ends)}',
        f'def: "{escape(definition)}" {sources}{"".join(others)}',
        f"is_a: A:2{''.join(others)}",
        f"alt_id: A:3{''.join(ends)}",
        f"namespace: n{''.join(others)}",
    ]
    scope = OF_WORDS.get(words, words.upper())
    term = read_term(shared_folder, *lines, scopes=[scope])
    assert (term.id, term.name, term.definition) == ("A:1", name, definition)
    assert term.aliases == (() if synonym == name else (synonym,))
    assert (term.parents, term.alt_ids, term.types) == (("A:2",), ("A:3",), ("n",))
    others = [each for each in ("EXACT", "RELATED", "BROAD", "NARROW") if each != scope]
    assert read_term(shared_folder, *lines, scopes=others).aliases == ()


# A bracket or a brace in a text with bare quotes may begin what follows it.
@given(
    st.text('ab "-()', min_size=1, max_size=10).map(str.strip).filter(bool),
    SCOPE_WORDS,
    XREFS,
    MODIFIERS,
)
def test_unescaped_quotes_are_part_of_the_text(shared_folder, text, words, xrefs, modifiers):
    term = read_term(
        shared_folder,
        "id: A:1",
        "name: n",
        f'synonym: "{text}" {words} {xrefs}{modifiers}',
        f'def: "{text}" {xrefs}{modifiers}',
        scopes=[OF_WORDS.get(words, words.upper())],
    )
    assert (term.aliases, term.definition) == ((text,), text)


@pytest.mark.parametrize(
    "line, aliases",
    [
        ('exact_synonym: "quinsy" [A:1]', ("quinsy",)),
        ('related_synonym: "quinsy" []', ("quinsy",)),
        ('broad_synonym: "quinsy" []', ()),
        ('Synonym: "quinsy" Exact []', ("quinsy",)),
        ('synonym: "quinsy" BRITISH []', ("quinsy",)),
        ('synonym: "quinsy" EXACT', ("quinsy",)),
        ('synonym: "quinsy"EXACT []', ("quinsy",)),
        ('synonym: "quinsy" EXACT [Smith "and" Jones 2003 ! a note', ("quinsy",)),
        ('synonym: "quinsy" EXACT [http://a.org/b[1]c]', ("quinsy",)),
        ('synonym: "C:\\\\" EXACT []', ("C:\\",)),
        ('synonym: "back\\" EXACT []', ("back\\",)),
        ('synonym: "quinsy" EXACT [] ! the "throat"', ("quinsy",)),
        ('synonym: "quinsy" [A:1 "a 5" note"]', ("quinsy",)),
        ('synonym: "so-called "quinsy"" EXACT []]', ('so-called "quinsy"',)),
        ('name: quinsy{source="A"}', ("quinsy",)),
        ('synonym: "quinsy" EXACT ["A B", ,]', ("quinsy",)),
    ],
)
@pytest.mark.filterwarnings("error")
def test_malformed_synonyms_are_read(tmp_path, line, aliases):
    assert read_term(tmp_path, "id: A:1", "name: n", line).aliases == aliases


@pytest.mark.parametrize(
    "line", ['synonym: "quinsy EXACT []', "synonym: quinsy EXACT []", 'def: "A 5" nail', "[A:1 B]"]
)
def test_unreadable_line_is_counted(write, line):
    text = HEADER + f'[Term]\nid: A:1\nname: n\n{line}\nsynonym: "m" EXACT []\n'
    with pytest.warns(KrisselWarning, match=r"KW101.*Left out 1 of 2.*line 8 "):
        (term,) = read_obo(write(text))
    assert (term.aliases, term.definition) == (("m",), "")


def test_unknown_tags_are_counted(write):
    text = HEADER + '[Term]\nid: A:1\nname: n\nsynonim: "m" EXACT []\nsubset: s\nname: second\n'
    with pytest.warns(KrisselWarning, match=r"KW104.*Ignored 1 values.*synonim"):
        (term,) = read_obo(write(text))
    assert (term.name, term.aliases) == ("n", ("second",))


@pytest.mark.filterwarnings("error")
def test_names_keep_braces_and_exclamation_marks(tmp_path):
    for name in ("N-{4-[x=1]phenyl}amine", "wow! effect", "a {b} c", "{2,3}", "Ca2+!"):
        assert read_term(tmp_path, "id: A:1", f"name: {name}").name == name


@pytest.mark.filterwarnings("error")
@given(st.integers(1, 30), st.randoms(use_true_random=False), st.booleans())
def test_obsolete_ids_lead_to_the_term_at_the_end_of_a_chain(
    shared_folder, length, random, by_alternative
):
    """Whatever the order of the stanzas, and whether the steps state one to replace them or one to
    consider."""
    stanzas = [f"[Term]\nid: A:0\nname: n\nalt_id: A:{'0.1' if by_alternative else '0.2'}\n"]
    for number in range(1, length + 1):
        tag = random.choice(["replaced_by", "consider", "use_term"])
        newer = "A:0.1" if by_alternative and number == 1 else f"A:{number - 1}"
        stanzas.append(
            f"[Term]\nid: A:{number}\nname: o\nis_obsolete: true\n{tag}: {newer} ! why\n"
            f"alt_id: B:{number}\n"
        )
    random.shuffle(stanzas)
    path = shared_folder / "chain.obo"
    path.write_text("format-version: 1.2\n\n" + "\n".join(stanzas))
    (term,) = read_obo(path)
    older = {f"{prefix}:{number}" for number in range(1, length + 1) for prefix in "AB"}
    assert set(term.alt_ids) == older | {"A:0.1" if by_alternative else "A:0.2"}


def test_obsolete_ids_that_lead_nowhere_warn(write):
    text = HEADER + (
        "[Term]\nid: A:1\nname: n\n\n[Term]\nid: A:2\nname: m\n\n"
        "[Term]\nid: B:1\nname: o\nis_obsolete: true\nconsider: A:1\nconsider: A:2\n\n"
        "[Term]\nid: B:2\nname: o\nis_obsolete: true\nreplaced_by: C:9\n\n"
        "[Term]\nid: B:3\nname: o\nis_obsolete: true\nreplaced_by: B:4\n\n"
        "[Term]\nid: B:4\nname: o\nis_obsolete: true\nreplaced_by: B:3\n\n"
        "[Term]\nid: B:5\nname: o\nis_obsolete: true\nreplaced_by: A:2\nconsider: A:1\n\n"
        "[Term]\nid: B:6\nname: o\nis_obsolete: true\n"
    )
    expected = (
        r"KW108\] Obsolete.*: 4\..*B:1 \(consider A:1 or A:2\); B:2 \(replaced by C:9\); B:3 \("
        r"replaced by B:4\)"
    )
    with pytest.warns(KrisselWarning, match=expected):
        first, second = read_obo(write(text))
    assert (first.alt_ids, second.alt_ids) == ((), ("B:5",))

import gzip
import random
from collections import Counter

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_bipartite_matching
from tiers import nightly

from spacy_krissel.errors import KrisselError
from spacy_krissel.ontology import disambiguate as module
from spacy_krissel.ontology import hash_index as hashes
from spacy_krissel.ontology.build import build_ontology
from spacy_krissel.ontology.disambiguate import Disambiguation
from spacy_krissel.ontology.entity import Entity
from spacy_krissel.ontology.readers import read_ontology
from spacy_krissel.ontology.store import OntologyStore, write_store
from spacy_krissel.util.folding import fold_name
from spacy_krissel.util.hashing import stable_hash


@pytest.fixture
def names_of(tmp_path):
    """Disambiguates entities. RETURNS: their new names by id, and the figures."""

    def names_of(*entities, **options):
        write_store(entities, tmp_path / "store")
        options.setdefault("disambiguate", "shortest")
        store = build_ontology(tmp_path / "store", tmp_path / "disambiguated", **options)
        figures = store.manifest["info"]["disambiguated"]
        assert store.manifest["shared_names"] == figures["failures"]
        return {entity.id: (entity.name, *entity.aliases) for entity in store}, figures

    return names_of


def test_homonym_is_expanded_with_the_preferred_name(names_of):
    """Figure 2a, and Figure 1."""
    names, figures = names_of(
        Entity("C0030685", "Patient Discharge", ("Discharge",)),
        Entity("C0600083", "Body Fluid Discharge", ("Discharge", "Body Discharge")),
    )
    assert names == {
        "C0030685": ("Patient Discharge", "Discharge (Patient Discharge)"),
        "C0600083": ("Body Fluid Discharge", "Discharge (Body Fluid Discharge)", "Body Discharge"),
    }
    assert figures["before"]["other"] == 2 and figures["success_rate"] == 1.0
    assert figures["second_choices"] == figures["unchanged"] == figures["failures"] == 0


@pytest.mark.parametrize("order, chosen", [("shortest", "Chill"), ("longest", "Low temperature")])
def test_preferred_homonym_is_expanded_with_another_name(names_of, order, chosen):
    """Figure 2b with the shortest other name; Algorithm 1 with the longest."""
    names, figures = names_of(
        Entity("T1", "Cold", ("Low temperature", "Chill")),
        Entity("T2", "Common cold", ("COLD", "cold")),
        disambiguate=order,
    )
    assert names == {
        "T1": (f"Cold ({chosen})", "Low temperature", "Chill"),
        # Every spelling of it.
        "T2": ("Common cold", "COLD (Common cold)", "cold (Common cold)"),
    }
    assert figures["order"] == order
    assert figures["before"] == {
        "entities": 2, "names": 6, "homonyms": 1, "pairs": 3, "preferred": 1, "other": 2,
        "cross_species": 0,
    }  # fmt: skip


def test_one_entity_without_other_names_keeps_the_homonym(names_of):
    """Figure 2c: of n versions, one may be the name as it is."""
    names, figures = names_of(
        Entity("1", "Lead"), Entity("2", "Lead", ("Pb",)), Entity("3", "Electrode", ("Lead",))
    )
    assert names == {
        "1": ("Lead",),
        "2": ("Lead (Pb)", "Pb"),
        "3": ("Electrode", "Lead (Electrode)"),
    }
    assert figures["unchanged"] == 1 and figures["success_rate"] == 1.0


def test_second_entity_without_other_names_is_a_failure(names_of):
    """Only one may; both bear a homonym still."""
    names, figures = names_of(
        Entity("1", "Lead"), Entity("2", "Lead", ("LEAD",)), Entity("3", "Lead", ("Pb",)),
        Entity("4", "Tin", ("Sn",)), Entity("5", "Tin", ("Can",)),
    )  # fmt: skip
    assert (
        names["1"] == ("Lead",)
        and names["2"] == ("Lead", "LEAD")
        and names["3"] == ("Lead (Pb)", "Pb")
    )
    assert names["4"] == ("Tin (Sn)", "Sn") and names["5"] == ("Tin (Can)", "Can")
    assert (figures["failures"], figures["success_rate"], figures["unchanged"]) == (1, 0.5, 0)


def test_cross_species_homonyms_are_expanded_with_the_species(names_of):
    """§4.1.1: the species alone where it tells the genes apart, and behind a name where it does
    not."""
    names, figures = names_of(
        Entity("2", "A2M", ("α2microglobulin",), species="human"),
        Entity("513856", "A2M", ("α2microglobulin",), species="cattle"),
        Entity("3494", "IGHA2", ("A2M",), species="human"),
    )
    assert names == {
        "2": ("A2M (α2microglobulin, human)", "α2microglobulin (human)"),
        "513856": ("A2M (cattle)", "α2microglobulin (cattle)"),
        "3494": ("IGHA2", "A2M (IGHA2, human)"),
    }
    assert figures["before"]["cross_species"] == 5
    assert (figures["before"]["preferred"], figures["before"]["other"]) == (1, 1)


@pytest.mark.parametrize("common_names", [True, False])
def test_gene_names_get_the_common_name_of_their_species(tmp_path, common_names):
    """§4.1.1 from NCBI's own files: "A2M (IGHA2, human)", where the taxonomy is named as Table 11
    names species."""
    taxa = [
        ("9606", "human", "", "genbank common name"),
        ("9606", "Homo sapiens", "", "scientific name"),
        ("9913", "Bos taurus", "", "scientific name"),
        ("9913", "cattle", "", "genbank common name"),
        ("9913", "cow", "", "common name"),
    ]
    (tmp_path / "names.dmp").write_text("".join("\t|\t".join(cells) + "\t|\n" for cells in taxa))
    options = {"common_names": True} if common_names else {}
    taxonomy = build_ontology(tmp_path / "names.dmp", tmp_path / "taxonomy", **options)
    columns = [
        "#tax_id",
        "GeneID",
        "Symbol",
        "dbXrefs",
        "Synonyms",
        "description",
        "Other_designations",
    ]
    columns += ["Symbol_from_nomenclature_authority", "Full_name_from_nomenclature_authority"]
    genes = [
        ("9606", "2", "A2M", "-", "α2microglobulin", *"----"),
        ("9913", "513856", "A2M", "-", "α2microglobulin", *"----"),
        ("9606", "3494", "IGHA2", "-", "A2M", *"----"),
    ]
    table = "".join("\t".join(cells) + "\n" for cells in (columns, *genes))
    (tmp_path / "gene_info").write_text(table, encoding="utf8")
    store = build_ontology(
        tmp_path / "gene_info", tmp_path / "genes", disambiguate="shortest", taxonomy=taxonomy
    )
    human, cattle = ("human", "cattle") if common_names else ("Homo sapiens", "Bos taurus")
    assert {entity.id: (entity.name, *entity.aliases) for entity in store} == {
        "2": (f"A2M (α2microglobulin, {human})", f"α2microglobulin ({human})"),
        "513856": (f"A2M ({cattle})", f"α2microglobulin ({cattle})"),
        "3494": ("IGHA2", f"A2M (IGHA2, {human})"),
    }


def test_one_species_is_not_cross_species(names_of):
    """Appendix C: 81618 and 25798 are both human, whatever bears another name."""
    names, _ = names_of(
        Entity("81618", "ITM2C", ("BRI3",), species="human"),
        Entity("25798", "BRI3", ("I3",), species="human"),
        Entity("1", "other", species="mouse"),
    )
    assert names["81618"] == ("ITM2C", "BRI3 (ITM2C)") and names["25798"] == ("BRI3 (I3)", "I3")


def test_cross_species_homonyms_without_other_names_get_the_species(names_of):
    """Case c within a species: what one gene has as it is, has the species."""
    names, figures = names_of(
        Entity("1", "trnL", species="human"), Entity("2", "trnL", ("tl",), species="human"),
        Entity("3", "trnL", species="mouse"), Entity("4", "trnL"),
    )  # fmt: skip
    assert names == {
        "1": ("trnL (human)",),
        "2": ("trnL (tl, human)", "tl"),
        "3": ("trnL (mouse)",),
        "4": ("trnL",),
    }
    assert (figures["failures"], figures["unchanged"]) == (0, 1)
    names, figures = names_of(
        *(Entity(str(i), "trnL", species="human" if i else "mouse") for i in range(3))
    )
    assert names == {"0": ("trnL (mouse)",), "1": ("trnL (human)",), "2": ("trnL (human)",)}
    assert (figures["failures"], figures["success_rate"]) == (1, 0.0)


def test_species_of_only_some_entities_is_used_last(names_of):
    names, figures = names_of(
        Entity("1", "X", ("Y",), species="human"),
        Entity("2", "X", ("Y",)),
        Entity("3", "X", ("Y",)),
    )
    assert names == {
        "1": ("X (human)", "Y (human)"), "2": ("X (Y)", "Y (X)"), "3": ("X", "Y"),
    }  # fmt: skip
    assert figures["failures"] == 0
    names, _ = names_of(Entity("1", "X", species="human"), Entity("2", "X"))
    assert names == {"1": ("X (human)",), "2": ("X",)}


def test_species_ids_are_replaced_by_names_of_the_taxonomy(names_of, tmp_path):
    taxonomy = [
        Entity("NCBITaxon:9606", "Homo sapiens", ("human",)),
        Entity("NCBITaxon:9913", "Bos taurus"),
    ]
    write_store(taxonomy, tmp_path / "taxonomy")
    names, _ = names_of(
        Entity("1", "A2M", species="9606"),
        Entity("2", "A2M", species="NCBITaxID:9913"),
        taxonomy=tmp_path / "taxonomy",
    )
    assert names == {"1": ("A2M (Homo sapiens)",), "2": ("A2M (Bos taurus)",)}


def test_colliding_choices_are_resolved(names_of):
    """§5.2: the paper makes "Hydroxocobalamin (Aquacobalamin)" of both."""
    names, figures = names_of(
        Entity("C0003663", "Aquacobalamin", ("Hydroxocobalamin", "Aquocobalamin")),
        Entity("C0020316", "Hydroxocobalamin", ("Aquacobalamin", "Vitamin B12 alpha")),
    )
    assert names["C0003663"] == (
        "Aquacobalamin (Aquocobalamin)",
        "Hydroxocobalamin (Aquacobalamin)",
        "Aquocobalamin",
    )
    assert names["C0020316"] == (
        "Hydroxocobalamin (Vitamin B12 alpha)",
        "Aquacobalamin (Hydroxocobalamin)",
        "Vitamin B12 alpha",
    )
    assert (figures["second_choices"], figures["success_rate"]) == (1, 1.0)
    # Nothing but these two names: each keeps its own.
    names, figures = names_of(
        Entity("C0003663", "Aquacobalamin", ("Hydroxocobalamin",)),
        Entity("C0020316", "Hydroxocobalamin", ("Aquacobalamin",)),
    )
    assert names["C0003663"] == ("Aquacobalamin", "Hydroxocobalamin (Aquacobalamin)")
    assert names["C0020316"] == ("Hydroxocobalamin", "Aquacobalamin (Hydroxocobalamin)")
    assert (figures["second_choices"], figures["unchanged"], figures["success_rate"]) == (2, 2, 1.0)


def test_entity_with_more_names_gives_way(names_of):
    names, figures = names_of(
        Entity("1", "X", ("Y", "Long")), Entity("2", "X", ("Y",)), Entity("3", "X", ("Y", "Longer"))
    )
    assert [names[id_][0] for id_ in "123"] == ["X (Long)", "X (Y)", "X (Longer)"]
    assert figures["success_rate"] == 1.0


def test_names_of_other_entities_are_never_generated(names_of):
    """However they are punctuated."""
    names, figures = names_of(
        Entity("1", "a-B", ("X", "Second")),
        Entity("2", "Z", ("X",)),
        Entity("3", "other", ("x A/b",)),
    )
    assert names["1"] == ("a-B", "X (Second)", "Second") and names["2"] == ("Z", "X (Z)")
    assert figures["second_choices"] == 1
    # As a protein of UniProt is called after its species.
    names, _ = names_of(
        Entity("1", "A2M", ("one",), species="human"),
        Entity("2", "A2M", species="mouse"),
        Entity("3", "A2M_HUMAN"),
    )
    assert names == {"1": ("A2M (one, human)", "one"), "2": ("A2M (mouse)",), "3": ("A2M_HUMAN",)}
    names, _ = names_of(
        Entity("1", "A2M", species="human"),
        Entity("2", "A2M", species="mouse"),
        Entity("3", "A2M_HUMAN"),
    )
    assert names["1"] == ("A2M",)


def test_own_names_may_be_generated(names_of):
    names, figures = names_of(
        Entity("1", "Breast", ("X", "X, breast")), Entity("2", "Lung", ("X",))
    )
    assert names["1"] == ("Breast", "X (Breast)", "X, breast") and figures["second_choices"] == 0


def test_colliding_homonyms_are_resolved(names_of):
    """ "x (a b)" and "x a (b)" are read as one."""
    names, figures = names_of(
        Entity("1", "a b", ("x",)), Entity("2", "c", ("x",)),
        Entity("3", "b", ("x a",)), Entity("4", "d", ("x a", "long")),
    )  # fmt: skip
    assert figures["failures"] == 0 and figures["second_choices"] == 1
    # The homonym that is first by its text has its first choice.
    assert (
        names["1"] == ("a b", "x (a b)")
        and names["3"] == ("b", "x a")
        and names["4"][1] == "x a (d)"
    )


def test_equal_expansions_of_one_entity_are_no_failure(names_of):
    """Folded, "x (y, S)" and "x y (S)" are one name, and nothing else is left for the second."""
    names, figures = names_of(
        Entity("1", "x", ("x y", "y"), species="S"), Entity("2", "x", ("x y", "y"), species="S"),
        Entity("3", "y", ("x", "x y"), species="S"), Entity("4", "x", ("x y", "y"), species="T"),
    )  # fmt: skip
    assert names["3"][1:] == ("x (y, S)", "x y (S)") and figures["failures"] == 0


def test_expansion_that_folds_to_the_homonym_is_skipped(names_of):
    names, _ = names_of(
        Entity("1", "M.S.", ("M-S", "m s", "Multiple")), Entity("2", "Mitral", ("M S", "±"))
    )
    assert names["1"] == ("M.S. (Multiple)", "M-S (Multiple)", "m s (Multiple)", "Multiple")
    assert names["2"] == ("Mitral", "M S (Mitral)", "±")


def test_disambiguation_changes_only_homonyms(names_of, tmp_path):
    entities = [
        Entity(
            "1",
            "One",
            ("X", "", "X", "One"),
            ("T1",),
            ("C01",),
            "A definition.",
            ("UMLS:1",),
            "human",
            "src",
            ("A1",),
        ),
        Entity("2", "Two", ("X",)),
    ]
    write_store(entities, tmp_path / "in", info={"provenance": [{"source": "in.obo"}]})
    store = build_ontology(tmp_path / "in", tmp_path / "in", disambiguate="shortest")
    one = store.get("1")
    assert one.aliases == ("X (One)", "", "X (One)", "One")
    assert (one.types, one.tree_numbers, one.definition) == (("T1",), ("C01",), "A definition.")
    assert (one.xrefs, one.species, one.source, one.alt_ids) == (
        ("UMLS:1",),
        "human",
        "src",
        ("A1",),
    )
    assert store.manifest["info"]["provenance"] == [
        {"source": "in.obo", "settings": {"disambiguated": True}}
    ]
    # Disambiguated names stay as they are.
    assert list(build_ontology(store.path, tmp_path / "again", disambiguate="shortest")) == list(
        store
    )


def test_ontology_without_homonyms_is_unchanged(names_of):
    for entities in ([], [Entity("1", "One", ("Two",))]):
        names, figures = names_of(*entities)
        assert names == {entity.id: ("One", "Two") for entity in entities}
        assert (
            figures["success_rate"] is None
            and figures["failures"] == figures["second_choices"] == 0
        )


def test_disambiguation_is_a_step_of_building(tmp_path):
    write_store(
        [Entity("1", "One", ("X",), species="9606"), Entity("2", "Two", ("X",), species="9913")],
        tmp_path / "a",
    )
    write_store([Entity("3", "Three", ("x", "Y"))], tmp_path / "b")
    seen = []
    taxonomy = write_store(
        [Entity("9606", "human"), Entity("9913", "cattle")], tmp_path / "taxonomy"
    )
    store = build_ontology(
        [tmp_path / "a", tmp_path / "b"], tmp_path / "out", disambiguate="longest",
        taxonomy=taxonomy,
        inspect=lambda store: seen.append(store.find("X")),
    )  # fmt: skip
    assert [entity.aliases for entity in store] == [
        ("X (human)",),
        ("X (cattle)",),
        ("x (Three)", "Y"),
    ]
    assert seen == [["1", "2", "3"]]
    assert store.manifest["info"]["sources"] == ["a", "b"]
    assert store.manifest["info"]["disambiguated"]["order"] == "longest"
    # From a store as it is, without a copy, also in its place.
    build_ontology(
        tmp_path / "a",
        tmp_path / "a",
        disambiguate="shortest",
        inspect=lambda store: seen.append(store.path),
    )
    assert seen[1:] == [tmp_path / "a"]
    assert [entity.aliases for entity in OntologyStore(tmp_path / "a")] == [
        ("X (9606)",),
        ("X (9913)",),
    ]


def test_unknown_order_and_missing_store_raise(tmp_path):
    with pytest.raises(KrisselError, match="K006.*'cake'.*shortest, longest"):
        build_ontology("missing.obo", tmp_path / "out", disambiguate="cake")
    with pytest.raises(KrisselError, match="K101"):
        build_ontology(tmp_path / "missing", tmp_path / "out", disambiguate="shortest")
    assert not (tmp_path / "out").exists()


# Few letters, so that names meet each other and what is made of them; spellings that fold alike.
words = st.sampled_from(["a", "b", "A", "a b", "a-b", "b (a)", "c", "a c", "±", "c b a"])
species = st.sampled_from(["", "", "a", "B", "c", "?"])
entities = st.builds(
    Entity,
    st.just(""),
    words.filter(str.isascii),
    st.lists(words, max_size=3).map(tuple),
    species=species,
)
ontologies = st.lists(entities, max_size=9).map(
    lambda found: [
        Entity(f"E{i}", each.name, each.aliases, species=each.species)
        for i, each in enumerate(found)
    ]
)
wild = settings(
    deadline=None, max_examples=120, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def bearers_of(entities):
    """Folded homonym → the entities that bear it."""
    found = {}
    for entity in entities:
        for name in {fold_name(name) for name in entity.names}:
            found.setdefault(name, []).append(entity)
    return {name: bearers for name, bearers in found.items() if len(bearers) > 1}


def choices(entity, homonym, bearers, entities):
    """All folded names that this bearer may get, by the paper's rules written down once more,
    without an order."""
    says = lambda text: any(map(str.isalnum, text))  # noqa: E731
    spelt = next(name for name in entity.names if fold_name(name) == homonym)
    names = [name for name in entity.names if fold_name(name) != homonym and says(name)]
    of_species = Counter(fold_name(each.species) for each in bearers if says(each.species))
    own = entity.species if says(entity.species) else ""
    if len(of_species) > 1 and own:
        made = [f"{spelt} ({name}, {own})" for name in names] + [f"{spelt} ({own})"]
    else:
        made = [f"{spelt} ({name})" for name in names]
        if own and of_species.total() < len(bearers):
            made += [f"{spelt} ({own})", *(f"{spelt} ({name}, {own})" for name in names)]
    taken = {fold_name(name) for other in entities if other.id != entity.id for name in other.names}
    made = {fold_name(name) for name in made} - taken - {homonym}
    default = fold_name(f"{spelt} ({own})") if len(of_species) > 1 and own else homonym
    return made | ({default} if default in made else {homonym})


@pytest.mark.slow
@wild
@given(
    ontologies,
    st.sampled_from(["shortest", "longest"]),
    st.sampled_from([2**64, 1, 3]),
    st.randoms(),
)
def test_all_possible_homonyms_are_disambiguated(
    tmp_path, monkeypatch, entities, order, n_hashes, chance
):
    """No other choice of expansions tells more bearers apart; with the real hash, and where most
    hashes collide."""
    for each in (hashes, module):
        monkeypatch.setattr(each, "stable_hash", lambda text: stable_hash(text) % n_hashes)
    told_apart = Disambiguation(write_store(entities, tmp_path / "in"), order=order)
    store = write_store(told_apart, tmp_path / "out")
    homonyms = bearers_of(entities)
    assert told_apart.figures["before"]["homonyms"] == len(homonyms)
    renamed = list(store)
    assert [entity.id for entity in renamed] == [entity.id for entity in entities]
    for old, new in zip(entities, renamed, strict=True):
        for before, after in zip((old.name, *old.aliases), (new.name, *new.aliases), strict=True):
            is_homonym = fold_name(before) in homonyms
            assert after == before or (
                is_homonym and after.startswith(f"{before} (") and after.endswith(")")
            )
            if is_homonym:
                assert fold_name(after) in choices(
                    old, fold_name(before), homonyms[fold_name(before)], entities
                )
    # What is shared still, but for one entity each, is what no assignment could serve.
    bearers = [(homonym, entity) for homonym, found in homonyms.items() for entity in found]
    wanted = [choices(entity, homonym, homonyms[homonym], entities) for homonym, entity in bearers]
    numbers = {name: i for i, name in enumerate(sorted(set().union(*wanted)))}
    graph = np.zeros((len(bearers) + 1, len(numbers) + 1), dtype=np.uint8)
    for i, names in enumerate(wanted):
        graph[i, [numbers[name] for name in names]] = 1
    n_served = int((maximum_bipartite_matching(csr_array(graph), perm_type="column") >= 0).sum())
    left = bearers_of(renamed)
    assert sum(len(found) - 1 for found in left.values()) <= len(bearers) - n_served
    assert told_apart.figures["failures"] == len(left) == store.manifest["shared_names"]
    # In whatever order entities and aliases come.
    shuffled = [
        Entity(
            each.id,
            each.name,
            tuple(chance.sample(each.aliases, len(each.aliases))),
            species=each.species,
        )
        for each in chance.sample(entities, len(entities))
    ]
    again = list(Disambiguation(write_store(shuffled, tmp_path / "in"), order=order))
    assert {(e.id, e.name, tuple(sorted(e.aliases))) for e in again} == {
        (e.id, e.name, tuple(sorted(e.aliases))) for e in renamed
    }


def test_thousands_of_homonyms_are_disambiguated(tmp_path):
    """Thousands of bearers, of which some have a name of their own and the others the same few."""
    rng = random.Random(0)
    entities = [
        Entity(
            f"E{i:04}",
            "trn",
            (f"own {i}",) if i % 3 == 0 else (f"few {rng.randrange(50)}",),
            species=f"s{i % 2}",
        )
        for i in range(4000)
    ]
    told_apart = Disambiguation(write_store(entities, tmp_path / "in"))
    store = write_store(told_apart, tmp_path / "out")
    assert told_apart.figures["failures"] == store.manifest["shared_names"]
    # "few 7" and the like are homonyms as well.
    assert len(store.find("trn (s0)")) > 900 < len(store.find("trn (s1)"))
    assert all(len(store.find(f"trn (own {i}, s{i % 2})")) == 1 for i in range(0, 4000, 3))


def read_cellosaurus(path):
    """Entities from a table of name, id and species; the first name is taken for the preferred
    one."""
    names = {}
    with gzip.open(path, "rt", encoding="utf8") as file_:
        for line in file_:
            name, id_, of = line.rstrip("\n").split("\t")
            names.setdefault((id_, of), []).append(name)
    for (id_, of), (name, *aliases) in names.items():
        yield Entity(id_, name, tuple(aliases), species=of)


@pytest.mark.data
@pytest.mark.filterwarnings("ignore:.*KW103")
@pytest.mark.parametrize(
    "name, n_homonyms, failures",
    # Most cell lines that fail have one name, and in it other punctuation or capitals than another:
    # FAK+/+ and FAK-/-.
    [
        ("medic_06Jul2012.txt", 1014, (0, [])),
        nightly("taxslim_2022-10-06.obo", 194, (0, [])),
        nightly("Cellosaurus.tsv.gz", 562, (21, ["A4.951", "MM-1", "S1A"])),
    ],
)
def test_real_ontologies_are_disambiguated(data_dir, tmp_path, name, n_homonyms, failures):
    path = data_dir / "ontologies" / name
    is_table = name.endswith(".tsv.gz")
    store = write_store(
        read_cellosaurus(path) if is_table else read_ontology(path), tmp_path / "store"
    )
    apart = build_ontology(store.path, tmp_path / "disambiguated", disambiguate="shortest")
    figures = apart.manifest["info"]["disambiguated"]
    assert figures["before"]["homonyms"] == store.manifest["shared_names"] == n_homonyms
    assert list(apart.ids) == list(store.ids) and apart.manifest["names"] == store.manifest["names"]
    bearers = {}
    for row, spelt, _ in apart.names():
        bearers.setdefault(spelt, set()).add(row)
    spelt_alike = sorted(spelt for spelt, rows in bearers.items() if len(rows) > 1)
    assert (figures["failures"], spelt_alike) == failures and apart.manifest[
        "shared_names"
    ] == failures[0]

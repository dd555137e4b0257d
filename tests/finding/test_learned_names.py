"""Names learned from annotated texts, and names that are added by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_krissel.finding.common import bundled_general_words
from spacy_krissel.finding.finder import NameFinder
from spacy_krissel.finding.learning import names_to_add, names_to_leave_out
from spacy_krissel.finding.table import NameBags
from spacy_krissel.lexical.ngrams import canonical_form


def bags(names):
    rows = {}
    pairs = [(name, rows.setdefault(id_, len(rows))) for name, id_ in names.items()]
    return NameBags.of(pairs, rows, substitutes=False)


FINDER = NameFinder(bags({"fall": "F", "anemia": "A", "cleft palate": "C"}))


def learned(*texts):
    """texts: with the gold mentions as [mention|ids]. RETURNS: the names to add and to leave
    out."""
    plain, gold = [], []
    for text in texts:
        parts, spans, written = text.split("["), {}, ""
        written = parts[0]
        for part in parts[1:]:
            marked, _, after = part.partition("]")
            mention, *ids = marked.split("|")
            spans[len(written), len(written) + len(mention)] = tuple(ids)
            written += mention + after
        plain.append(written)
        gold.append(spans)
    found = FINDER.find(plain)
    return names_to_add(plain, found, gold), names_to_leave_out(found, gold)


@pytest.mark.parametrize(
    "texts, added",
    [
        (["A [nosebleed|N]."], {"nosebleed": "N"}),
        # In the spelling that is most frequent.
        (["A [nosebleed|N], [Nosebleed|N], a [nosebleed|N]."], {"nosebleed": "N"}),
        # Found already, in another spelling too.
        (["An [anaemia|A]."], {}),
        # Found as another entity.
        (["An [anemia|B]."], {"anemia": "B"}),
        # Several entities, one at a time or together.
        (["A [nosebleed|N].", "A [nosebleed|M]."], {}),
        (["A [nosebleed|N|M]."], {}),
        (["A [nosebleed|N] and [nosebleed|N], no [nosebleed|M]."], {"nosebleed": "N"}),
        # Punctuation is no name.
        (["A [.|N]"], {}),
        (["Nothing."], {}),
    ],
)
def test_annotated_names_are_added_unless_found_or_ambiguous(texts, added):
    assert learned(*texts)[0] == added


@pytest.mark.parametrize(
    "texts, left_out",
    [
        (["A fall."], []),
        (["A fall.", "No fall."], ["fall"]),
        (["A fall.", "No Fall.", "Fall."], ["Fall"]),
        (["A [fall|F].", "A fall.", "A fall."], []),
        (["A [fall|F].", *["A fall."] * 4], ["fall"]),
        # Annotated as another entity, or with more words.
        (["A [fall|G].", "A [fall|G]."], []),
        (["A [bad fall|G].", "A [bad fall|G]."], ["fall"]),
        (["A cleft lip and palate.", "A cleft lip and palate."], []),
    ],
)
def test_names_of_which_few_mentions_are_annotated_are_left_out(texts, left_out):
    assert learned(*texts)[1] == left_out


@given(st.lists(st.tuples(st.sampled_from(["fall", "Falls", "anemia"]), st.booleans()), max_size=9))
def test_learning_is_monotonic_in_the_annotations(mentions):
    """A name is left out only if it was found twice or more and is less often annotated than
    not."""
    texts = [f"A [{name}|X]." if is_gold else f"A {name}." for name, is_gold in mentions]
    forms = [(canonical_form(name), is_gold) for name, is_gold in mentions]
    for name in learned(*texts)[1]:
        own = [is_gold for form, is_gold in forms if form == canonical_form(name)]
        assert len(own) > 1 and sum(own) < len(own) / 2


ADDED = [
    ("the disease", "disease"),
    ("an MS", "MS"),
    ("an X", "X"),
    ("with it", "with"),
    ("two bruises", "bruise"),
]


@pytest.mark.parametrize("text, name", ADDED)
def test_added_name_is_found_as_its_entity(text, name):
    table, general = bags({"disease": "D", "MS": "M", "its title": "N"}), bundled_general_words()
    (found,) = NameFinder(table, added=bags({name: "N"}), common=general).find([text])[0]
    # The linker looks for a name that it knows.
    assert found.named[:2] == ("its title", ("N",))


@pytest.mark.parametrize("stopped", ["disease", "Diseases"])
def test_stop_name_wins_over_an_added_one(stopped):
    finder = NameFinder(bags({}), added=bags({"disease": "N"}), stopped=[stopped])
    assert len(finder.find(["Disease, diseases."])[0]) == 1


def test_name_as_written_wins_over_another_form_of_an_added_one():
    finder = NameFinder(bags({"colds": "C"}), added=bags({"cold": "A"}))
    found = finder.find(["A cold, two colds."])[0]
    assert [each.named.ids for each in found] == [("A",), ("C",)]

from spacy_krissel.mining.name_table import AMBIGUOUS, search_names


def names_and_counts(ontology, aliases=True):
    counts = {}
    return list(search_names(ontology, counts, aliases)), counts


def test_names_are_searched_or_counted_as_left_out(ontology):
    names, counts = names_and_counts(ontology)
    assert counts == {"searched": 16, "ambiguous": 4, "too_short": 2, "number": 1, "stop_word": 1}
    rows = {name.text: name.row for name in names}
    assert rows["Lung Cancer"] == rows["cancer, lung"] == 0
    # Cold and COLD are one name to the ontology, whatever the case of the search.
    assert {text for text, row in rows.items() if row == AMBIGUOUS} == {
        "Cold", "COLD", "Chronic Lung Cancer", "chronic lung cancer",
    }  # fmt: skip
    assert not {"7", "B", "12-5", "Was"} & set(rows)


def test_the_preferred_name_comes_first(ontology):
    names, _ = names_and_counts(ontology)
    assert (
        next(name.text for name in names if name.row == 2) == "Acquired Immunodeficiency Syndrome"
    )


def test_without_aliases_only_preferred_names_are_searched(ontology):
    """An alias is not searched, and a preferred name that is another entity's alias stays
    ambiguous."""
    names, counts = names_and_counts(ontology, aliases=False)
    everything, _ = names_and_counts(ontology)
    preferred = {name for _, name, is_preferred in ontology.names() if is_preferred}
    assert names == [name for name in everything if name.text in preferred]
    assert 0 < len(names) < len(everything) and counts["searched"] < 16
    assert "cancer, lung" not in {name.text for name in names}

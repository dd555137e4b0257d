from spacy_krissel.ontology.shared_names import HomonymMember, SpeciesUse, expand


def bearer(*names, homonym, **settings):
    others = tuple(name for name in names if name != homonym)
    return HomonymMember("E1", (homonym,), names[0], others, **settings)


def test_expansions_start_with_the_preferred_name():
    each = bearer(
        "Patient Discharge", "Discharge", "Leaving", "Discharge from hospital", homonym="Discharge"
    )
    assert list(each.expansions("shortest")) == [
        ("Patient Discharge",),
        ("Leaving",),
        ("Discharge from hospital",),
    ]
    assert list(each.expansions("longest")) == [
        ("Patient Discharge",),
        ("Discharge from hospital",),
        ("Leaving",),
    ]
    assert each.defaults() == ((),)


def test_preferred_homonym_expands_with_its_other_names():
    each = bearer("MS", "bb", "aa", "c", homonym="MS")
    # Of one length in the order of their text.
    assert list(each.expansions("shortest")) == [("c",), ("aa",), ("bb",)]
    assert list(each.expansions("longest")) == [("aa",), ("bb",), ("c",)]
    assert list(bearer("MS", homonym="MS").expansions("shortest")) == []


def test_symbols_are_not_used_for_expansion():
    assert list(bearer("±", "X", "-", "Y", homonym="X").expansions("shortest")) == [("Y",)]


def test_species_is_used_as_configured():
    names, more = ("IGHA2", "A2M", "x"), {"homonym": "A2M", "species": "human"}
    alone = bearer(*names, use=SpeciesUse.ALONE, **more)
    assert list(alone.expansions("shortest")) == [("human",), ("IGHA2", "human"), ("x", "human")]
    shared = bearer(*names, use=SpeciesUse.SHARED, **more)
    assert list(shared.expansions("shortest")) == [("IGHA2", "human"), ("x", "human")]
    assert alone.defaults() == shared.defaults() == (("human",), ())
    spare = bearer(*names, use=SpeciesUse.SPARE, **more)
    assert list(spare.expansions("shortest")) == [
        ("IGHA2",),
        ("x",),
        ("human",),
        ("IGHA2", "human"),
        ("x", "human"),
    ]
    never = bearer(*names, use=SpeciesUse.NEVER, **more)
    assert list(never.expansions("shortest")) == [
        ("IGHA2",),
        ("x",),
    ] and never.defaults() == spare.defaults() == ((),)


def test_expansions_are_written_in_brackets():
    assert expand("A2M", ("IGHA2", "human")) == "A2M (IGHA2, human)"
    assert expand("A2M ", (" human ",)) == "A2M (human)"
    assert expand("A2M ", ()) == "A2M "

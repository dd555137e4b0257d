from spacy_krissel.ontology.shared_names import Bearer, SpeciesUse, expand


def bearer(*names, homonym, **settings):
    others = tuple(name for name in names if name != homonym)
    return Bearer("E1", (homonym,), names[0], others, **settings)


def test_preferred_name_and_then_the_others_in_order():
    each = bearer("Patient Discharge", "Discharge", "Leaving", "Discharge from hospital", homonym="Discharge")
    assert list(each.expansions("shortest")) == [("Patient Discharge",), ("Leaving",), ("Discharge from hospital",)]
    assert list(each.expansions("longest")) == [("Patient Discharge",), ("Discharge from hospital",), ("Leaving",)]
    assert each.defaults() == ((),)


def test_other_names_of_a_preferred_one():
    each = bearer("MS", "bb", "aa", "c", homonym="MS")
    # Of one length in the order of their text.
    assert list(each.expansions("shortest")) == [("c",), ("aa",), ("bb",)]
    assert list(each.expansions("longest")) == [("aa",), ("bb",), ("c",)]
    assert list(bearer("MS", homonym="MS").expansions("shortest")) == []


def test_symbols_say_nothing():
    assert list(bearer("±", "X", "-", "Y", homonym="X").expansions("shortest")) == [("Y",)]


def test_species():
    names, more = ("IGHA2", "A2M", "x"), {"homonym": "A2M", "species": "human"}
    alone = bearer(*names, use=SpeciesUse.ALONE, **more)
    assert list(alone.expansions("shortest")) == [("human",), ("IGHA2", "human"), ("x", "human")]
    shared = bearer(*names, use=SpeciesUse.SHARED, **more)
    assert list(shared.expansions("shortest")) == [("IGHA2", "human"), ("x", "human")]
    assert alone.defaults() == shared.defaults() == (("human",), ())
    spare = bearer(*names, use=SpeciesUse.SPARE, **more)
    assert list(spare.expansions("shortest")) == [("IGHA2",), ("x",), ("human",), ("IGHA2", "human"), ("x", "human")]
    never = bearer(*names, use=SpeciesUse.NEVER, **more)
    assert list(never.expansions("shortest")) == [("IGHA2",), ("x",)] and never.defaults() == spare.defaults() == ((),)


def test_written():
    assert expand("A2M", ("IGHA2", "human")) == "A2M (IGHA2, human)"
    assert expand("A2M ", (" human ",)) == "A2M (human)"
    assert expand("A2M ", ()) == "A2M "

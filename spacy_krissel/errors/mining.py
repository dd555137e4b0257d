"""Messages of `mining` (K3xx, KW3xx)."""


class MiningErrors:
    K301 = (
        "[K301] The ontology '{path}' has no name to search for: it holds {entities} entities, and of their names "
        "{skipped}. Expected at least one name that only one entity bears. Check the file the ontology was made from."
    )
    K302 = (
        "[K302] An interrupted mining run in '{path}' was started with other input: {difference}. Expected the same "
        "settings, ontology and texts. Run it again as it was started to go on, or start over with restart=True "
        "(--restart)."
    )
    K303 = (
        "[K303] A mining process ended without an answer ({problem}), most often because memory ran out. What was "
        "mined so far is kept: run it again to go on, with fewer processes (n_process is {n_process})."
    )


class MiningWarnings:
    KW301 = (
        "[KW301] None of the {names} names of the ontology '{ontology}' was found in {texts} texts: '{path}' holds no "
        "mention. Check that the texts are of the ontology's field and language, or try case='fold'."
    )
    KW302 = (
        "[KW302] {count} of {texts} texts were left out, because their id was read before or PubMed deleted it (the "
        "first: {first})."
    )

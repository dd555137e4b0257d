"""Messages of `mining` (K3xx, KW3xx)."""


class MiningErrors:
    K301 = (
        "[K301] The ontology '{path}' has no name to search for: it has {entities} entities, and of their names "
        "{skipped}. Expected at least one name of exactly one entity. Check the file the ontology was made from."
    )
    K302 = (
        "[K302] An interrupted mining run in '{path}' was started with other input: {difference}. "
        "Expected the same settings, ontology and texts. Use the same arguments to resume it, or "
        "start over with restart=True (--restart)."
    )
    K303 = (
        "[K303] A mining process died ({problem}), most often because memory ran out. Finished work is kept: run the "
        "command again to resume, with fewer processes (n_process is {n_process})."
    )


class MiningWarnings:
    KW301 = (
        "[KW301] None of the {names} names of the ontology '{ontology}' was found in {texts} texts: '{path}' has no "
        "mention. Check that the texts fit the ontology's field and language, or try case='fold'."
    )
    KW302 = (
        "[KW302] {count} of {texts} texts were skipped, because their id was read before or deleted by PubMed (first: "
        "{first})."
    )

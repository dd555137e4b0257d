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
    K304 = (
        "[K304] A sample of {found} mentions was asked for. Expected a number from 1 to {available}, the number of "
        "mentions in '{path}'."
    )
    K305 = (
        "[K305] Ray is not installed, and mining with it was asked for. Expected it on every machine of the cluster: "
        "install spacy-krissel[ray], or mine with the processes of this machine (n_process)."
    )
    K306 = (
        "[K306] There is no Ray cluster at '{address}' to mine with: {problem}. Expected the address of one that runs "
        "(host:port, or 'auto' on one of its machines); start it with `ray start --head`, or name none for this "
        "machine alone."
    )
    K307 = (
        "[K307] Ray could not mine a chunk of the texts, after {retries} retries ({problem}), most often because "
        "memory ran out. What was mined so far is kept: run it again to go on, with fewer workers a machine."
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

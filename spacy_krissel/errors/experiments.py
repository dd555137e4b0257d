"""Messages of `experiments` (K9xx, KW9xx)."""


class ExperimentErrors:
    K901 = (
        "[K901] '{path}' does not describe an ablation: {problem}. Expected the keys that are explained in "
        "spacy_krissel/experiments/settings.py and shown in configs/ablation-small.yml."
    )
    K902 = "[K902] There is no row '{name}' in this ablation. Expected one of: {known}."
    K903 = (
        "[K903] '{path}' was made with other settings or files: {problem}. A row is not made again where its results "
        "are; remove that folder, or choose another output."
    )
    K904 = (
        "[K904] Two rows were measured on other mentions: {n} are in one of them alone, the first is {first}. Expected "
        "the same gold corpus for both; remove the older row's folder and run the command again."
    )
    K905 = (
        "[K905] {n} entities of '{path}' have {names} names that they share with none. Expected at least {entities}; "
        "ask for fewer entities or names."
    )


class ExperimentWarnings:
    KW901 = (
        "[KW901] Nothing was drawn: matplotlib is not installed. Install spacy-krissel[plots] and run the command "
        "again (an ablation's values are in ablation.json, and no row is run anew for it)."
    )

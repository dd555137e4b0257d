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


class ExperimentWarnings:
    KW901 = (
        "[KW901] The curves were not drawn: matplotlib is not installed. Their values are in ablation.json. Install "
        "spacy-krissel[plots] and run the command again; no row is run anew for it."
    )

"""Messages of pipes, objectives and training (K6xx, KW6xx)."""


class PipelineErrors:
    K601 = (
        "[K601] InfoNCE got {found} vectors. Expected pairs, that is an even number of rows with rows 2k and 2k+1 of one "
        "entity. Use the batcher 'spacy-krissel.PairBatcher.v1' in [training.batcher]."
    )
    K602 = (
        "[K602] A training batch of {found} examples holds no entity twice, so there is nothing to contrast. Expected "
        "at least two linked mentions of an entity in a batch: use 'spacy-krissel.PairBatcher.v1' in [training.batcher], "
        "leave training.accumulate_gradient at 1, and check that the examples carry kb_id_ on their entities."
    )
    K603 = (
        "[K603] '{name}' has no knowledge base to link to. Add prototypes with `python -m spacy krissel prototypes`, set "
        "`kb_path`, or give `dev_kb` in [initialize.components.{name}] for training."
    )
    K604 = (
        "[K604] '{name}' is not initialized: its encoder has no weights. Train it with `spacy train`, load a trained "
        "pipeline with `spacy.load`, or call `nlp.initialize()`."
    )
    K605 = "[K605] No training example carries a linked entity. Expected `doc.ents` with kb_id_ in {where}. {todo}"
    K606 = (
        "[K606] p_replace is {found} but the objective knows no names to replace mentions with. Set `ontology` in "
        "[initialize.components.krissel_linker], or set p_replace = 0."
    )
    K607 = (
        "[K607] '{name}' has no setting '{setting}'. Settings that can be changed on a loaded pipeline are: {known}."
    )
    K608 = (
        "[K608] The self-supervised corpus found no example in split '{split}' of '{path}'. {todo}"
    )
    K609 = "[K609] Type filter: there is no entity of type {types} in the knowledge base. Known types include: {known}."
    K610 = (
        "[K610] The pipeline has no krissel_linker called '{name}'; it has: {found}. Give the component's name, or add one "
        "with nlp.add_pipe('krissel_linker')."
    )


class PipelineWarnings:
    KW601 = (
        "[KW601] {count} of {total} entities have a single view (name or mention) and cannot form a pair; they are left "
        "out of training, the first being {first}."
    )

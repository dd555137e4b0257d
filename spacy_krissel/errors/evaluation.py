"""Messages of `evaluation` (K7xx, KW7xx)."""


class EvaluationErrors:
    K701 = (
        "[K701] There is nothing to evaluate: {source} holds {n_docs} document(s) and no mention with a gold "
        "id{detail}. Expected entities (or spans of the key that is evaluated) that carry a `kb_id_`. Check the "
        "file, `spans_key` and `labels`."
    )
    K703 = (
        "[K703] The pipeline has no component that writes links (found: {pipes}). Expected one that assigns "
        "`token.ent_kb_id`, such as 'krissel_linker'. Add it, or load a pipeline that has it."
    )
    K704 = (
        "[K704] '{path}', line {line}, is not a link record: {problem}. Expected one JSON object a line, as written "
        "beside the report; write the file again with: python -m spacy krissel evaluate"
    )
    K705 = (
        "[K705] '{name}' cannot be compared with the evaluated system: {n_missing} of {n} mentions are not in it, the "
        "first is {first}. Expected the same documents and the same kind of mentions (gold or predicted) for both."
    )
    K711 = (
        "[K711] No threshold for NIL can be fitted: none of the {n} mentions is NIL. Expected some whose gold id is "
        "'NIL', '-1' or '-' among those with an entity. Annotate them so, or make the corpus with `python -m spacy "
        "krissel convert --unknown-as-nil` and an ontology that lacks their entities."
    )
    K712 = (
        "[K712] No threshold for NIL can be fitted: all {n} mentions are NIL, and any that is high enough would do. "
        "Expected some with an entity among them; use a corpus that has both, in about the proportion that is to be "
        "linked later."
    )
    K713 = (
        "[K713] No threshold calls NIL with a precision of {wanted}. The best that can be reached is {highest}, at a "
        "recall of {recall}. Ask for that or less, or leave the precision out for the best F1."
    )
    K714 = (
        "[K714] The top score of {n} of {total} mentions {what}, so that no threshold can be put to it. Expected a "
        "score for some mentions at least, and a number for each. Check the knowledge base, and `types` and "
        "`types_by_label` of the linker."
    )
    K721 = (
        "[K721] No entity can be called seen by {source}: it holds {n_docs} document(s) and no mention with a gold id. "
        "Expected the gold documents that were trained on, with `kb_id_`. Check the file and `spans_key`."
    )


class EvaluationWarnings:
    KW701 = (
        "[KW701] {n} of {total} gold mentions were no longer in the documents after the pipeline had run, so they "
        "count as missing (first: {places}). A component changes the entities; name it in `disable`."
    )
    KW702 = (
        "[KW702] {n} of {total} gold mentions name an id that the ontology does not hold, so no prediction can be "
        "right for them (first: {places}). Check that the corpus and the ontology use the same ids."
    )
    KW703 = (
        "[KW703] {count} gold prototypes were left out while these {n_docs} documents were evaluated, because they are "
        "of the same documents. A mention must not be linked by its own annotation; the knowledge base keeps them."
    )
    KW711 = (
        "[KW711] {n} of {total} gold mentions name an id that the knowledge base does not hold (first: {places}). They "
        "count as mentions with an entity, for which no link is right, and not as NIL. Write 'NIL' in the place of "
        "such ids (`python -m spacy krissel convert --unknown-as-nil`) if they are to be NIL."
    )
    KW712 = (
        "[KW712] The threshold that fits best calls all {n} mentions NIL: the scores do not tell those without an "
        "entity from the others. State a precision, or train the encoder further before the pipeline is used so."
    )
    KW720 = (
        "[KW720] None of {n} mentions was linked by {pipes}: all figures are those of no answer. Check that these "
        "components have a knowledge base, and that their `spans_key`, `types` and `labels` fit the mentions."
    )

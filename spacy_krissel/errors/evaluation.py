"""Messages of `evaluation` (K7xx, KW7xx)."""


class EvaluationErrors:
    K701 = (
        "[K701] There is nothing to evaluate: {source} holds {n_docs} document(s) and no mention with a gold "
        "id{detail}. Expected entities (or spans of the key that is evaluated) that carry a `kb_id_`. Check the file, "
        "`spans_key` and `labels`."
    )
    K703 = (
        "[K703] The pipeline has no component that writes links (found: {pipes}). Expected one that assigns "
        "`token.ent_kb_id`, such as 'krissel_linker'. Add it, or load a pipeline that has it."
    )
    K704 = (
        "[K704] '{path}', line {line}, is not a link record: {problem}. Expected one JSON object "
        "per line, as written with the report; create the file again with: python -m spacy "
        "krissel evaluate"
    )
    K705 = (
        "[K705] '{name}' cannot be compared with the evaluated system: {n_missing} of {n} "
        "mentions are missing from it, the first is {first}. Expected the same documents and the "
        "same kind of mentions (gold or predicted) for both."
    )
    K706 = (
        "[K706] None of the ids of {n} gold mentions is in the ontology '{path}' (first: "
        "{first}), so no link could be correct. Expected the ontology that the corpus was "
        "annotated with; check both."
    )
    K711 = (
        "[K711] No threshold for NIL can be fitted: none of the {n} mentions is NIL. Expected some whose gold id is "
        "'NIL', '-1' or '-'. Annotate them so, or create the corpus with `python -m spacy krissel convert "
        "--unknown-as-nil` and an ontology that lacks their entities."
    )
    K712 = (
        "[K712] No threshold for NIL can be fitted: all {n} mentions are NIL. Expected some with an entity; use a "
        "corpus with both, in about the proportion of later texts."
    )
    K713 = (
        "[K713] No threshold reaches a precision of NIL of {wanted}. The highest is {highest}, at a recall of "
        "{recall}. Give that or less, or omit the precision to fit the best F1."
    )
    K714 = (
        "[K714] The top score of {n} of {total} mentions {what}, so no threshold can be fitted. Expected scores for "
        "some mentions at least, all of them numbers. Check the knowledge base, and `types` and `types_by_label` of "
        "the linker."
    )
    K715 = (
        "[K715] The confidence of '{name}' cannot be fitted: its knowledge base has no names and no mentions, but "
        "{kinds}. Expected prototypes of these kinds; make it with names (`krissel prototypes`)."
    )
    K721 = (
        "[K721] No entity is seen in {source}: it has {n_docs} document(s) and no mention with a gold id. Expected "
        "the gold documents used in training, with `kb_id_`. Check the file and `spans_key`."
    )


class EvaluationWarnings:
    KW701 = (
        "[KW701] {n} of {total} gold mentions were no longer in the documents after the pipeline "
        "ran, so they count as missing (first: {examples}). A component changes the entities; "
        "name it in `disable`."
    )
    KW702 = (
        "[KW702] {n} of {total} gold mentions have an id that is not in the ontology, so no "
        "prediction can be correct (first: {examples}). Check that the corpus and the ontology "
        "use the same ids."
    )
    KW703 = (
        "[KW703] {count} gold prototypes were not used to evaluate these {n_docs} documents, "
        "because they are from the same documents: a mention must not be linked by its own "
        "annotation. The knowledge base keeps them."
    )
    KW711 = (
        "[KW711] {n} of {total} gold mentions have an id that is not in the knowledge base "
        "(first: {examples}). They count as mentions with an entity, for which no link is "
        "correct, not as NIL. Replace such ids by 'NIL' (`python -m spacy krissel convert "
        "--unknown-as-nil`) if they are NIL."
    )
    KW712 = (
        "[KW712] The best threshold makes all {n} mentions NIL: scores of mentions with and without an entity do not "
        "differ enough. Give a precision, or train the encoder further."
    )
    KW720 = (
        "[KW720] None of {n} mentions was linked by {pipes}, so all of them count as missing "
        "predictions. Check that these components have a knowledge base, and that their "
        "`spans_key`, `types` and `labels` fit the mentions."
    )

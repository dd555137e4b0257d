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

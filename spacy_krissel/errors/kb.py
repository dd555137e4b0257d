"""Messages of `index` and `kb` (K5xx, KW5xx)."""


class KBErrors:
    # Index.
    K501 = (
        "[K501] The '{kind}' index needs FAISS, which is not installed. Install one of the extras, never both: pip "
        "install 'spacy-krissel[cpu]' or pip install 'spacy-krissel[gpu]'. Without FAISS, use "
        "spacy-krissel.ExactIndex.v1."
    )
    K502 = (
        "[K502] Index setting 'device' is '{device}', but {problem}. Set it to 'cpu', or run where the device is and "
        "its library is installed ({library})."
    )
    K503 = (
        "[K503] Expected {what} as a float array of shape ({rows}, {width}), found {found}. Use the encoder that the "
        "vectors in the index were made with."
    )
    K504 = (
        "[K504] {count} of {total} {what} have values that are not finite (first: row {first}). Expected finite "
        "vectors; check the encoder's weights, which are NaN or infinite after a diverged training."
    )
    K505 = (
        "[K505] Expected the 'allowed' mask as a boolean array of shape ({n},), one value per "
        "{what}, found {found}. Create it with kb.entity_mask(...)."
    )
    K506 = (
        "[K506] The index in '{path}' cannot be used: {problem}. Expected an index of {rows} vectors of width "
        "{width}. Create the knowledge base again with: python -m spacy krissel prototypes"
    )
    K507 = (
        "[K507] The knowledge base was saved with an index of kind '{kind}', and no installed package has that kind "
        "(found: {known}). Install the package that adds it, by convention spacy-krissel-{kind}; or set another index "
        "([components.krissel_linker.generate_empty_kb.index]), or read it with from_disk(path, exclude=['index'])."
    )
    K508 = "[K508] The index is empty. Expected vectors; call build() before searching or saving it."
    K509 = (
        "[K509] FAISS is installed but cannot be loaded: {problem}. Install the libraries that it "
        "names (faiss-gpu needs those of its CUDA version), or replace it: pip uninstall "
        "faiss-gpu, then pip install 'spacy-krissel[cpu]'. Without FAISS, use spacy-krissel.ExactIndex.v1."
    )
    # Knowledge base: its content.
    K510 = (
        "[K510] {count} of {total} prototypes name an entity that the knowledge base does not have (first: "
        "'{entity}', number {first}). Add all entities with set_entities(...) first, or drop these prototypes."
    )
    K511 = "[K511] Expected one vector per prototype, found {prototypes} prototypes and {vectors} vectors."
    K512 = "[K512] Prototype {first} (entity '{entity}') is of kind '{kind}'. Expected one of: {known}."
    K513 = (
        "[K513] {count} entity ids occur more than once (first: '{entity}'). Expected unique ids; merge the records, "
        "or read them through an ontology store, which merges them."
    )
    K514 = "[K514] Entity number {first} ('{name}') has an empty id. Expected an id for every entity."
    K515 = (
        "[K515] {count} entities that have prototypes are missing from the new entities (first: '{entity}'). Keep "
        "them, or start from an empty knowledge base."
    )
    # Knowledge base: its use.
    K520 = (
        "[K520] The knowledge base is empty ({entities} entities, {prototypes} prototypes), so "
        "nothing can be linked. Build one with: python -m spacy krissel prototypes, then load it "
        "with kb.from_disk(path) or name its path in the linker's config."
    )
    K521 = (
        "[K521] The knowledge base has no encoder to search with. Attach one with kb.attach_encoder(encode), where "
        "encode takes a list of views and returns their vectors (krissel_linker does this), or use kb.search(vectors, "
        "k)."
    )
    K522 = (
        "[K522] The knowledge base was created with encoder {expected}, but this encoder is {found}: their vectors "
        "cannot be compared. Use the encoder it was created with, or create it again with: python -m spacy krissel "
        "prototypes"
    )
    K523 = (
        "[K523] The knowledge base in '{path}' has vectors of width {found}, expected {expected} as the encoder "
        "gives. Use the encoder it was created with, or create it again with: python -m spacy krissel prototypes"
    )
    K524 = (
        "[K524] The knowledge base in '{path}' is damaged: {problem}. Create it again with: python -m spacy krissel "
        "prototypes"
    )
    K525 = (
        "[K525] {count} of the given {what} are not in the knowledge base (first: '{first}'). It has {total}, such "
        "as: {known}."
    )
    K526 = (
        "[K526] The knowledge base was sent to this process as the folder '{path}', but that folder {problem} since. "
        "Leave the folder alone while processes use it."
    )
    K527 = "[K527] Expected the bytes of a knowledge base (made by PrototypeKB.to_bytes), but they {problem}."
    K528 = (
        "[K528] The knowledge base has vectors of width {expected}, but the encoder gives width {found}. Use the "
        "encoder that made it, or make the knowledge base again with: python -m spacy krissel prototypes"
    )
    K529 = (
        "[K529] An interrupted run left vectors in '{path}' from other input: {difference}. "
        "Expected the same pipeline, ontology, mentions and settings. Use the same arguments to "
        "resume it, or start over with restart=True (--restart)."
    )
    # Knowledge base: references.
    K531 = "[K531] Expected one vector per reference, found {entities} entities and {vectors} vectors."
    K532 = (
        "[K532] {count} of {total} references are of entities missing from the knowledge base (first: '{entity}'). "
        "Add all entities with set_entities(...) first, or drop these references."
    )
    K533 = (
        "[K533] {count} of {total} gold mentions have an id that the knowledge base lacks (first: "
        "{examples}), so none was added. Check the ids, or leave these mentions out with "
        "skip_unknown=True."
    )
    K534 = (
        "[K534] No entity of the knowledge base has the id or name {found!r}. Expected an id in any usual spelling, or "
        "a name. Similar names: {similar}."
    )
    K560 = (
        "[K560] The re-ranker's table of candidates was sent to this process as the folder '{path}', but that folder "
        "{problem} since. Leave the folder alone while processes use it, or pickle the pipeline again."
    )


class KBWarnings:
    KW501 = (
        "[KW501] {count} of {total} gold mentions did not become prototypes, because the "
        "knowledge base lacks their id (first: {examples}). Check that the corpus and the "
        "ontology use the same ids."
    )
    KW502 = (
        "[KW502] None of the {spans} gold mentions has an id, so no prototype was added. Expected `span.kb_id_` on the "
        "mentions of docs, in doc.ents or in doc.spans[spans_key]."
    )
    KW503 = (
        "[KW503] Index setting 'device' is '{device}', but {problem}: the index searches on the "
        "CPU. Expected a device that this machine and its libraries offer. Set 'device' to 'cpu' to "
        "silence this warning."
    )

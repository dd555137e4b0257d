"""Messages of pipes, objectives and training (K6xx, KW6xx)."""


class PipelineErrors:
    K601 = (
        "[K601] A loss got {found}. Expected scores, positives and negatives of one shape, (queries, keys), with at "
        "least one query, and no pair both positive and negative."
    )
    K603 = (
        "[K603] '{name}' has no knowledge base to link to. Add prototypes with `python -m spacy krissel prototypes`, "
        "set `kb_path`, or give `dev_kb` in [initialize.components.{name}] for training."
    )
    K604 = (
        "[K604] '{name}' is not initialized: its encoder has no weights. Make a linker with `krissel build`, train one "
        "with `spacy train`, or load one with `spacy.load` and add it with `source=`. `nlp.initialize()` gives it "
        "untrained weights, but resets every other component too: call it in a blank pipeline only."
    )
    K605 = (
        "[K605] '{name}' cannot be loaded from {source}: {problem}. Expected what nlp.to_disk or nlp.to_bytes wrote, "
        "whole, and a config with the encoder it was saved with. Save the pipeline again, or undo the config's "
        "overrides in [components.{name}.model]."
    )
    K607 = "[K607] '{name}' has no setting '{setting}'. Settings that can be changed on a loaded pipeline are: {known}."
    K608 = "[K608] The training corpus found no linked mention in split '{split}' of '{path}'. {todo}"
    K610 = (
        "[K610] The pipeline has no krissel_linker called '{name}'; it has: {found}. Give the component's name, or "
        "add one with nlp.add_pipe('krissel_linker')."
    )
    K611 = (
        "[K611] No pipeline can be loaded from '{path}': {problem}. Expected a directory as `spacy train` or "
        "nlp.to_disk writes it, or the name of an installed pipeline package."
    )
    K614 = (
        "[K614] {problem}. Expected an ontology (--ontology), to create a knowledge base; or gold mentions (--gold) "
        "only, to add them to the pipeline's knowledge base."
    )
    K615 = (
        "[K615] '{name}' is not initialized: it has no candidate texts and no temperature. Train it with `spacy "
        "train`, load a trained pipeline with `spacy.load`, or call `nlp.initialize()`."
    )
    K616 = (
        "[K616] '{name}' has no ontology to describe candidates. Set `ontology` in [initialize.components.{name}], "
        "with `@misc = spacy-krissel.OntologyFromDisk.v1`."
    )
    K617 = (
        "[K617] '{name}' is trained on the candidates of '{linker}', which has no knowledge base. Source a linker "
        "that has one (`python -m spacy krissel prototypes`), freeze it, and name it in `linker`."
    )
    K618 = (
        "[K618] '{name}' has lost the pipeline with its linker '{linker}': it was copied, or its pipeline was "
        "deleted. Call nlp.get_pipe('{name}').learn_from(nlp) before training."
    )
    K619 = (
        "[K619] Gold mentions of '{path}' cannot be added under the source '{source}': {problem}. Expected each file "
        "once, under its name without suffix. {todo}."
    )
    K632 = (
        "[K632] The encoder of '{name}' cannot be exported as a transformer: {problem}. Expected a trained pipeline "
        "whose linker has a transformer; {todo}."
    )
    K633 = (
        "[K633] The linker of '{name}' has another kind of encoder than the one initialized from it. Expected a "
        "transformer for a transformer, a small encoder for a small one. Choose another pipeline, or change "
        "[components.krissel_linker.model]."
    )
    K634 = (
        "[K634] No batch could be made of {found} {what} pairs. Expected pairs of at least two entities that share no "
        "name, each with two {what}s. Check the ontology, the corpus, and `pairs` in [training.batcher]."
    )
    K636 = (
        "[K636] The objective compares mentions with references, and the model encodes mentions alone. Use the "
        "architecture 'spacy-krissel.ReferencedEncoder.v1' in [components.krissel_linker.model], or, to train on "
        "mentions alone, 'spacy-krissel.ContrastiveObjective.v1' without a `reference_loss`."
    )
    K637 = (
        "[K637] Adversarial examples need the input embeddings of a transformer, and the model that reads entities "
        "has none. Use 'spacy-krissel.TransformerEncoder.v1' (`reference` of a linker's model) or "
        "'spacy-krissel.CrossEncoder.v1' (a re-ranker's), or set `fgsm_weight` to 0."
    )
    K639 = (
        "[K639] The objective has no entities to compare mentions with: {problem}. Expected an ontology with the "
        "entity of each linked mention. {todo}."
    )
    K641 = (
        "[K641] An encoding process died ({problem}), most often because memory ran out. Finished work is kept: run "
        "the command again to resume, with fewer processes (n_process is {n_process})."
    )
    K642 = (
        "[K642] The knowledge base in '{path}' was being replaced when the process was killed. Run the command again, "
        "or rename the backup folder '{aside}' there to 'kb'."
    )
    K645 = (
        "[K645] The process that reads the corpus ahead ended, most often because memory ran out. "
        "Expected memory for one more process and, in your own script, training code under `if "
        "__name__ == '__main__':`. See its message above, or set `read_ahead` of the corpus to 0."
    )
    K651 = (
        "[K651] {count} processes cannot train '{name}': it is not a component of spacy-krissel, so each process "
        "would train its own copy. Train it in one process, and name it in training.frozen_components here."
    )
    K652 = (
        "[K652] {count} processes cannot train one model without a seed. Expected a number for training.seed (or "
        "system.seed), so that all draw the same batches."
    )
    K653 = (
        "[K653] The {count} processes of this training start with different weights of '{name}'. Expected the same: "
        "use the same encoder, ontology and corpus on each machine, and seeded initial weights."
    )
    K660 = (
        "[K660] '{name}' has a knowledge base that is not the one in its kb_path, '{path}': it was changed after "
        "loading, comes from elsewhere, or the folder is gone. The pipeline saves the path only, so it would be lost. "
        "Save it first: nlp.get_pipe('{name}').kb.to_disk('{path}')"
    )
    K661 = (
        "[K661] Setting '{setting}' of '{name}' cannot be removed. Expected a value: set "
        "cfg['{setting}'] to another one."
    )
    K662 = (
        "[K662] '{name}' cannot have the term '{term}': {problem}. Expected, in [components.{name}.terms.{term}], an "
        "object of a subclass of spacy_krissel.Term, under a name that candidates do not have yet."
    )
    K663 = "[K663] The term '{term}' {what} {found}. Expected {expected}. Correct the term's class."
    K680 = (
        "[K680] '{path}' holds the work of another build: {difference}. Expected the same "
        "arguments: use them to continue that build, or discard its work (--restart)."
    )
    K681 = (
        "[K681] '{path}' cannot hold corrections: {problem}. Expected a new file, or one written "
        "by `krissel serve` that no other service uses."
    )
    K682 = (
        "[K682] {what} {problem}. Expected texts, mentions and settings as described in /openapi.json of the service."
    )
    K683 = (
        "[K683] The service would accept requests from other machines on {host} without "
        "authentication. Expected an API key in the environment variable {variable}, or a "
        "loopback address (--host 127.0.0.1), with a proxy in front of it for other machines."
    )
    K684 = "[K684] {what} is not installed. Expected the extra of the service: pip install spacy-krissel[serve]"
    K685 = (
        "[K685] A linking process ended, most often because memory ran out, and could not be "
        "replaced: {problem}. Expected a process that loads the pipeline, as at the start. With "
        "`--corrections`, accepted corrections are kept: start the service again."
    )
    K675 = (
        "[K675] GPU {gpu_id} cannot be used: {problem}. Expected the number of a GPU that PyTorch and CuPy see, or -1 "
        "for the CPU."
    )
    K676 = (
        "[K676] No component of this pipeline finds mentions in text, so nothing would be linked: it has {found}. "
        "Expected one that sets {where} (such as ner or entity_ruler) and is enabled, or docs with mentions (.spacy)."
    )
    K677 = (
        "[K677] '{path}' is not a config for training: {problem}. Expected a complete one, as `spacy init "
        "fill-config` writes it, and data at its paths."
    )
    K678 = (
        "[K678] There is nothing to review in '{path}': none of the {n_mentions} mention(s) in its {n_docs} doc(s) is "
        "linked to an entity. Expected links: check the texts, the component that finds mentions, and the linker's "
        "settings for NIL."
    )
    K686 = (
        "[K686] {n} prototypes of '{name}' are references, which a small encoder cannot read. Expected names and "
        "mentions alone: make the knowledge base without `--reference-prototypes` and `--mentions-only`."
    )
    K687 = (
        "[K687] '{reranker}' was trained on the scores of '{name}', which another encoder would "
        "change. Expected a linker without a re-ranker: distill it, then train a re-ranker on its "
        "scores."
    )
    K688 = (
        "[K688] The linker '{name}' has no transformer to quantize. Expected one: a small encoder "
        "is fast without quantization."
    )
    K691 = (
        "[K691] There is nothing to render: the document has no `doc.spans['{key}']`; its keys are: {keys}. Name one "
        "of them, or run the component that writes it."
    )
    K692 = (
        "[K692] The request has {n:,} {what}, but the limit is {limit:,} ({setting}). Expected "
        "fewer: split the request, or start the service with a higher limit."
    )
    K693 = (
        "[K693] The service cannot listen on {host}, port {port}: {problem}. Expected a free "
        "port, and an address of this machine: choose others (--port, --host), or stop the "
        "program that uses the port."
    )


class PipelineWarnings:
    KW601 = (
        "[KW601] The encoder of '{name}' has new weights, so its knowledge base of {entities} entities no longer fits "
        "and was dropped. Create it again with `python -m spacy krissel prototypes` after training."
    )
    KW602 = (
        "[KW602] {alone} of the {found} examples of a training batch have an entity that occurs "
        "only once in the batch, and are skipped. Expected two mentions of each entity: leave "
        "training.accumulate_gradient at 1, since a divided batch loses pairs, and use "
        "'spacy-krissel.PairBatcher.v1' in [training.batcher]. Shown once."
    )
    KW603 = (
        "[KW603] {count} of {total} linked mentions of '{path}' have an id that is not in the "
        "ontology, and are treated as unlinked. Check that the corpus and the ontology use the "
        "same ids."
    )
    KW613 = (
        "[KW613] {count} of {total} entries of `doc._.abbreviations` cannot be read and are skipped (first: {first}). "
        "Expected what scispaCy's abbreviation_detector writes: spans with `span._.long_form`, or dictionaries with "
        "'short_text' and 'long_text'. If another component uses the name, set `use_abbreviations = false` to read no "
        "abbreviations at all."
    )
    KW614 = (
        "[KW614] '{name}' has nothing to re-rank in doc.{own}: the linker '{linker}' writes its candidates to "
        "doc.{other}. Set the same `spans_key` for both."
    )
    KW615 = (
        "[KW615] '{name}' re-ranks up to {wanted} candidates of a mention, and mentions have {found} at most. Set "
        "`n_candidates` of '{linker}' to {wanted}."
    )
    KW620 = (
        "[KW620] {count} of {total} texts are longer than the pipeline's limit of {limit} characters and were skipped "
        "(first: {first}). Split them, or raise `nlp.max_length` where memory allows."
    )
    KW621 = (
        "[KW621] No mention was found in {n_docs} docs, so nothing was linked. Expected mentions in {where}: check "
        "the component that sets them (the pipeline holds {found})."
    )
    KW622 = (
        "[KW622] '{name}' got a document without mentions, and no component has set {where}, so nothing is linked. "
        "Expected a component before it that finds mentions (such as ner or entity_ruler). Shown once."
    )
    KW625 = (
        "[KW625] {skipped} of {batches} training batches so far had no {missing}, and were skipped with a loss of 0. "
        "{todo}. Shown at 1, 10, 100 and so on."
    )
    KW626 = (
        "[KW626] p_replace is {found}, but there is no ontology whose names could replace mentions: none is replaced. "
        "Set `ontology` in [initialize.components], or p_replace = 0."
    )
    KW681 = (
        "[KW681] The last line of '{path}' was cut off: its {n} bytes were written by a service that was stopped "
        "before it accepted the correction."
    )
    KW682 = (
        "[KW682] {n} of {total} corrections are ignored, because the knowledge base lacks their "
        "entities. The first such entity: {first}. They stay in the file, and can be undone."
    )
    KW683 = (
        "[KW683] '{path}' was moved or removed while the service ran. It was written again, with all corrections that "
        "the service accepted. Stop the service before you move the file."
    )
    KW684 = (
        "[KW684] '{path}' cannot hold the vectors of corrections: {problem}. The service encodes "
        "them again. Free disk space, or remove the file; the next start writes it again."
    )
    KW680 = (
        "[KW680] {n} mentions were mined, fewer than {fewest}, so the encoder is not trained on "
        "them. Give more text, or text that mentions entities of the ontology."
    )

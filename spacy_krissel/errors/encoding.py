"""Messages of `encoding` (K4xx, KW4xx)."""


class EncodingErrors:
    K401 = (
        "[K401] There is no transformer at '{name}'. Expected the name of a model on the Hugging Face hub, or a "
        "directory with its config.json, tokenizer and weights; found: {problem}. Check the name, or the network if it "
        "is a hub name."
    )
    K402 = (
        "[K402] '{name}' is not a whole transformer. Expected a directory with config.json, tokenizer files and "
        "model.safetensors, as save_pretrained writes it; found: {problem}. Download or write it again."
    )
    K403 = (
        "[K403] The tokenizer of '{name}' has no {missing}. Expected a fast tokenizer (tokenizer.json) of an encoder "
        "such as BERT, with tokens for the beginning, the end and the padding of its input. Choose another model, or "
        "correct 'tokenizer_config'."
    )
    K404 = (
        "[K404] Setting 'window' is {window}, but the transformer reads at most {limit} pieces. Set 'window' to at "
        "most {limit}, or choose another transformer."
    )
    K405 = (
        "[K405] The transformer encoder has no weights yet. Expected an encoder that was initialized or loaded. Call "
        "nlp.initialize() or model.initialize(), or load a saved pipeline."
    )
    K406 = (
        "[K406] The saved transformer cannot be read: {problem}. Expected config, tokenizer and weights as "
        "spacy-krissel saves them; the pipeline's model file was cut short, changed, or written by another "
        "architecture. Save it again."
    )
    K407 = (
        "[K407] A view is masked, but the transformer's tokenizer has no mask token. Switch mention masking off "
        "(p_mask = 0), or name a 'mask_token' in 'tokenizer_config'."
    )
    K408 = (
        "[K408] The saved table of the small encoder has (rows, width) {found}, but the config says {expected}. Set "
        "'rows', 'context_rows' and 'width' as they were when it was trained, or train it anew."
    )
    K409 = (
        "[K409] The tables of the small encoder are trained by Adam alone, row by row. Expected 'Adam.v1' with beta1 "
        "and beta2 above 0, found {found}. Change [training.optimizer], or the optimizer given as `sgd`."
    )
    K410 = (
        "[K410] The encoders of mentions and of references give vectors of different widths ({found}). Expected one "
        "width, since the vectors are compared and added: set 'width' alike, or choose transformers of one size."
    )
    K411 = (
        "[K411] The small encoder to start from has (width, hidden) {found}, but the config says {expected}. Set "
        "'width' and 'hidden' alike."
    )
    K412 = (
        "[K412] Adapters (adapter_rank above 0) need the library peft. Install it with: pip install "
        "'spacy-krissel[adapters]'"
    )
    K413 = (
        "[K413] The weights of '{name}' cannot be averaged with those of the encoder: {problem}. Expected the "
        "transformer that the encoder was trained from."
    )
    K414 = (
        "[K414] The tokenizer of the encoder does not know the separator '{separator}'. Expected an encoder that was "
        "made with it: leave the setting `separator` as it was when the encoder was trained."
    )
    K415 = (
        "[K415] The transformer {name} brings Python code that would have to be run (auto_map in its config or its "
        "tokenizer's). Code of a model's own never runs here, whatever `trust_remote_code` says. Expected an "
        "architecture of the transformers library, such as BERT; choose another encoder."
    )


class EncodingWarnings:
    KW401 = (
        "[KW401] The optimizer keeps averages of the weights, but there are none of the small encoder's tables: with "
        "the averages, an evaluated or saved encoder would be a mixture. Set training.optimizer.use_averages = false "
        "(in code: Adam(..., use_averages=False))."
    )

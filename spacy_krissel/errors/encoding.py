"""Messages of `encoding` (K4xx, KW4xx)."""


class EncodingErrors:
    K401 = (
        "[K401] There is no transformer at '{name}'. Expected the name of a model on the Hugging Face hub, or a "
        "directory with its config.json, tokenizer and weights; found: {problem}. Check the name, or the network if "
        "it is a hub name."
    )
    K402 = (
        "[K402] '{name}' is not a complete transformer. Expected a directory with config.json, tokenizer files and "
        "model.safetensors, as save_pretrained writes it; found: {problem}. Download or write it again."
    )
    K403 = (
        "[K403] The tokenizer of '{name}' has no {missing}. Expected a fast tokenizer (tokenizer.json) of an encoder "
        "such as BERT, with [CLS], [SEP] and padding tokens. Choose another model, or correct 'tokenizer_config'."
    )
    K404 = (
        "[K404] Setting 'window' is {window}, but the transformer reads at most {limit} pieces. Set 'window' to at "
        "most {limit}, or choose another transformer."
    )
    K405 = (
        "[K405] The transformer encoder has no weights. Expected an initialized or loaded encoder. Call "
        "nlp.initialize() or model.initialize(), or load a saved pipeline."
    )
    K406 = (
        "[K406] The saved transformer cannot be read: {problem}. Expected config, tokenizer and weights as "
        "spacy-krissel saves them; the pipeline's model file was truncated, changed, or written by another "
        "architecture. Save it again."
    )
    K407 = (
        "[K407] A mention is masked, but the transformer's tokenizer has no mask token. Expected one; switch masking "
        "off (p_mask = 0), or set 'mask_token' in 'tokenizer_config'."
    )
    K408 = (
        "[K408] The saved table of the small encoder has (rows, width) {found}, but the config says {expected}. Set "
        "'rows', 'context_rows' and 'width' as in its training, or train it again."
    )
    K409 = (
        "[K409] The tables of the small encoder are trained row by row, which only Adam supports. Expected 'Adam.v1' "
        "with beta1 and beta2 above 0, found {found}. Change [training.optimizer], or the optimizer given as `sgd`."
    )
    K410 = (
        "[K410] The encoders of mentions and of references have different widths ({found}). Expected one width, since "
        "their vectors are compared and added: set the same 'width', or choose transformers of one size."
    )
    K411 = (
        "[K411] The small encoder to start from has (width, hidden) {found}, but the config says {expected}. Set the "
        "same 'width' and 'hidden'."
    )
    K413 = (
        "[K413] The weights of '{name}' cannot be averaged with the encoder's: {problem}. Expected the transformer "
        "that the encoder was trained from."
    )
    K415 = (
        "[K415] The transformer {name} needs Python code of its own (auto_map in its config or its tokenizer's), "
        "which is never run, whatever `trust_remote_code` says. Expected an architecture of the transformers library, "
        "such as BERT; choose another encoder."
    )
    K416 = (
        "[K416] The transformer's tokenizer has no token '{marker}'. Expected both tokens of "
        "setting 'markers': set the markers that the encoder was initialized with."
    )
    K417 = (
        "[K417] A transformer in 8-bit integers needs ONNX Runtime, which is not installed. Install it: pip install "
        "'spacy-krissel[onnx]'."
    )
    K418 = (
        "[K418] The transformer cannot be quantized: {problem}. Expected one that torch exports "
        "to ONNX, such as BERT, on the CPU; its architecture, or this version of torch, is not "
        "supported. Link without `krissel quantize`."
    )
    K419 = (
        "[K419] The transformer is quantized and cannot be trained. Train the pipeline that it "
        "was made from, then quantize the result."
    )


class EncodingWarnings:
    KW401 = (
        "[KW401] The optimizer averages weights, except those of the small encoder's tables, so an evaluated or saved "
        "encoder would be a mixture. Set training.optimizer.use_averages = false (in code: Adam(..., "
        "use_averages=False))."
    )

"""The commands of `python -m spacy krissel`; importing them hangs them on `app.krissel`."""

from . import (  # noqa: F401
    ablation,
    calibrate,
    convert,
    encoder,
    evaluate,
    evaluate_spans,
    extract,
    few_shot,
    link,
    mine,
    ontology,
    out_of_kb,
    projection,
    prototypes,
    psytar_names,
    sample,
    text_labels,
    text_split,
    train,
    zero_shot,
)

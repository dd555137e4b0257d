"""Mentions per second of an encoder as large as PubMedBERT over millions of prototypes, end to end
and by part.

The encoder is a BERT of that shape with random weights, mentions are read in windows of 64 pieces,
and the knowledge base is that of `kb_at_size.py` with vectors as wide as the encoder's. `nlp.pipe`
over tokenized documents is timed, and encoding and searching of the same mentions alone.
Utilisation is their number of operations divided by the maker's bf16 rate of the card.

    python benchmarks/linking_rate.py --device cuda:0
    python benchmarks/linking_rate.py --size tiny --entities 300 --prototypes 1000 --mentions 200
"""

import json
import os
import platform
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Annotated, Any, NamedTuple

import spacy
import typer
from kb_at_size import MadeSource, Vectors
from spacy.tokens import Doc, Span

from spacy_krissel.building.fill import fill_kb
from spacy_krissel.mentions.contexts import mention_views

RESULT = Path(__file__).parent / "results" / "linking_rate.json"
WINDOW = 64
PAPER = 91  # mentions per second, KRISSBERT's paper
N_WORDS = 3000
# Dense bf16 TFLOPS by the makers' data sheets.
PEAKS = {"H100": 989.4, "H200": 989.4, "A100": 312.0}


class Size(NamedTuple):
    hidden: int
    layers: int
    heads: int
    inner: int

    def arithmetic(self, pieces: int) -> float:
        """Return the floating point operations of one window: projections, feed-forward layers,
        attention."""
        each = 8 * self.hidden**2 + 4 * self.hidden * self.inner + 4 * pieces * self.hidden
        return float(self.layers * pieces * each)


SIZES = {"base": Size(768, 12, 12, 3072), "tiny": Size(32, 2, 4, 64)}


def main(
    size: Annotated[
        str, typer.Option(help="Size of the encoder: base, as PubMedBERT, or tiny")
    ] = "base",
    entities: Annotated[int, typer.Option(help="Number of entities")] = 3_500_000,
    prototypes: Annotated[int, typer.Option(help="Number of prototypes")] = 10_000_000,
    mentions: Annotated[int, typer.Option(help="Number of mentions, ten per document")] = 50_000,
    device: Annotated[str, typer.Option(help="cpu, cuda:0, cuda:1, …")] = "cpu",
    batch_size: Annotated[int, typer.Option(help="Documents per batch")] = 512,
    passes: Annotated[int, typer.Option(help="Timed passes of each part; the best counts")] = 3,
    peak: Annotated[
        float | None, typer.Option(help="The card's bf16 rate in TFLOPS, if it is not known here")
    ] = None,
    seed: Annotated[int, typer.Option()] = 0,
    folder: Annotated[Path | None, typer.Option(help="Folder for temporary files")] = None,
    output: Annotated[Path, typer.Option(help="Result (JSON)")] = RESULT,
) -> None:
    """Make an encoder, a knowledge base and documents, link them, and print the costs."""
    shape = SIZES[size]
    if device != "cpu":
        spacy.require_gpu(int(device.partition(":")[2] or 0))
    with TemporaryDirectory(prefix="krissel-", dir=folder) as temporary:
        words = save_encoder(Path(temporary) / "encoder", shape, seed)
        nlp = make_pipeline(Path(temporary) / "encoder", device)
        pipe: Any = nlp.get_pipe("krissel_linker")
        source = MadeSource(entities, prototypes)
        kb = pipe.new_kb()
        kb.scratch = Path(temporary)
        # Vectors are synthetic, so that the encoder need not read ten million windows first.
        fill_kb(kb, source, Vectors(source, shape.hidden, seed).encode, encoder=pipe.fingerprint())  # type: ignore[arg-type]
        pipe.set_kb(kb)
        docs = make_docs(nlp, mentions, words, seed)
        views = [
            view
            for doc in docs
            for view in mention_views(
                doc, list(doc.ents), context="window", use_abbreviations=False
            )
        ]
        vectors = pipe.encode(views[: 8 * batch_size])
        seconds = {
            "linking": best_of(lambda: link(nlp, docs, batch_size), passes),
            "encoding": best_of(lambda: pipe.encode(views), passes),
            "searching": best_of(lambda: kb.search(vectors, 16), passes)
            * len(views)
            / len(vectors),
        }
    rate = {part: len(views) / taken for part, taken in seconds.items()}
    work = {"encoding": shape.arithmetic(WINDOW), "searching": 2.0 * prototypes * shape.hidden}
    work["linking"] = work["encoding"] + work["searching"]
    card = card_name(device)
    known = next((value for name, value in PEAKS.items() if name in card), None)
    share = (
        {part: rate[part] * work[part] / (1e12 * limit) for part in rate}
        if (limit := peak or known)
        else {}
    )
    result = {
        "command": " ".join(["python", *sys.argv]),
        "mentions_per_second": rate,
        "of_the_paper": rate["linking"] / PAPER,
        "share_of_bf16": share,
        "setup": {
            "size": shape._asdict(),
            "window": WINDOW,
            "entities": entities,
            "prototypes": prototypes,
            "mentions": len(views),
            "device": card or device,
            "peak_tflops": limit,
            "batch_size": batch_size,
            "passes": passes,
            "seed": seed,
            "versions": {
                name: version(name) for name in ("spacy", "numpy", "torch", "transformers")
            },
            "python": platform.python_version(),
            "cpus": os.cpu_count(),
        },
    }
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps(result, indent=2) + "\n", encoding="utf8")
    print("| | mentions per second | fraction of the card's bf16 rate |\n| --- | ---: | ---: |")
    for part in ("linking", "encoding", "searching"):
        print(f"| {part} | {rate[part]:,.0f} | {f'{share[part]:.1%}' if share else '–'} |")
    print(
        "\n"
        f"{card or device}: {result['of_the_paper']:.1f} times the paper's {PAPER} mentions per "
        "second"
    )


def save_encoder(path: Path, shape: Size, seed: int) -> list[str]:
    """Save a BERT with random weights, as `save_pretrained` writes it. RETURNS: the words that it
    reads as one piece."""
    import torch
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
    from transformers import BertConfig, BertModel, BertTokenizerFast

    draw = Random(seed)
    letters = "abcdefghijklmnopqrstuvwxyz"
    words = sorted({"".join(draw.choices(letters, k=draw.randint(3, 9))) for _ in range(N_WORDS)})
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    singles = letters + "0123456789.,"
    pieces = [*special, *words, *singles, *(f"##{letter}" for letter in singles)]
    vocabulary = {piece: number for number, piece in enumerate(dict.fromkeys(pieces))}
    tokenizer: Any = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    ends = [(each, vocabulary[each]) for each in ("[CLS]", "[SEP]")]
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=ends
    )
    BertTokenizerFast(tokenizer_object=tokenizer, model_max_length=512).save_pretrained(path)
    torch.manual_seed(seed)
    config = BertConfig(
        vocab_size=max(30_522, len(vocabulary)) if shape.hidden > 100 else len(vocabulary),
        hidden_size=shape.hidden,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        intermediate_size=shape.inner,
    )
    BertModel(config).save_pretrained(path)
    return words


def make_pipeline(encoder: Path, device: str) -> Any:
    nlp = spacy.blank("en")
    model = {
        "@architectures": "spacy-krissel.TransformerEncoder.v1",
        "name": str(encoder),
        "window": WINDOW,
        "pooling": "cls",
        "mixed_precision": True,
    }
    index = {"@misc": "spacy-krissel.ExactIndex.v1", "device": device}
    empty = {"@misc": "spacy-krissel.EmptyKB.v1", "index": index, "dtype": "float16"}
    settings = {
        "model": model,
        "generate_empty_kb": empty,
        "use_abbreviations": False,
        "lexical_weight": 0.0,
    }
    pipe: Any = nlp.add_pipe("krissel_linker", config=settings)
    pipe.model.initialize()
    return nlp


def make_docs(nlp: Any, mentions: int, words: list[str], seed: int) -> list[Doc]:
    """Make documents of 400 words with ten mentions of two words each, so that windows are full."""
    draw = Random(seed)
    docs = []
    for _ in range(-(-mentions // 10)):
        doc = Doc(nlp.vocab, words=draw.choices(words, k=400))
        doc.ents = [Span(doc, start, start + 2, label="ENTITY") for start in range(10, 400, 40)]
        docs.append(doc)
    return docs


def link(nlp: Any, docs: list[Doc], batch_size: int) -> None:
    for _ in nlp.pipe(docs, batch_size=batch_size):
        pass


def best_of(function: Callable[[], Any], passes: int) -> float:
    """Return seconds of the fastest pass, after a warm-up."""
    seconds = []
    for _ in range(passes + 1):
        start = time.perf_counter()
        function()
        seconds.append(time.perf_counter() - start)
    return min(seconds[1:])


def card_name(device: str) -> str:
    if device == "cpu":
        return ""
    import torch

    return str(torch.cuda.get_device_name(device))


if __name__ == "__main__":
    typer.run(main)

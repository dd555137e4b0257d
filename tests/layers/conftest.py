"""A BERT small enough to be made on the spot."""

import string

import pytest

WORDS = "the patient had acute lung injury and cold with fever in of a discharge was ms multiple sclerosis".split()


@pytest.fixture(scope="session")
def tiny_bert(tmp_path_factory):
    """A directory with a BERT of width 32, two layers and 64 positions, as `save_pretrained` writes it."""
    torch = pytest.importorskip("torch")
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
    from transformers import BertConfig, BertModel, BertTokenizerFast

    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    letters = list(string.ascii_lowercase + string.digits + ".,-")
    pieces = special + WORDS + letters + ["##" + letter for letter in letters]
    vocab = {piece: i for i, piece in enumerate(dict.fromkeys(pieces))}
    tokenizer = Tokenizer(models.WordPiece(vocab, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", vocab["[CLS]"]), ("[SEP]", vocab["[SEP]"])]
    )
    # Settings that a saved tokenizer may bring along, and that must not touch the pieces of a view.
    tokenizer.enable_truncation(5)
    tokenizer.enable_padding(length=9)
    path = tmp_path_factory.mktemp("tiny_bert")
    fast = BertTokenizerFast(tokenizer_object=tokenizer, model_max_length=64)
    fast.save_pretrained(path)
    (path / "vocab.txt").write_text("\n".join(vocab) + "\n", encoding="utf8")  # what a slow tokenizer reads
    config = BertConfig(
        vocab_size=len(vocab),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=48,
        max_position_embeddings=64,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = BertModel(config)
        for parameter in model.parameters():  # away from the tiny initial values, so that differences show
            torch.nn.init.normal_(parameter, std=0.2)
        model.save_pretrained(path)
    return path


@pytest.fixture
def no_network(monkeypatch):
    """Any attempt to open a connection fails."""
    import socket

    def refuse(*args, **kwargs):
        raise AssertionError("a connection was attempted")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "create_connection", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)

"""`krissel_linker`: encode mentions in context, search the knowledge base, write `kb_id_`."""

import warnings
from itertools import islice
from pathlib import Path
from typing import Any, Callable, Dict, Iterable, List, Optional, Sequence, Tuple, Union

import numpy as np
import srsly
from spacy import util
from spacy.language import Language
from spacy.tokens import Doc, Span
from spacy.training import Example, validate_examples, validate_get_examples
from spacy.vocab import Vocab
from thinc.api import Model, Optimizer, set_dropout_rate
from thinc.types import Floats2d

from ..errors import Errors, KrisselError, KrisselWarning, Warnings
from ..kb.build import fill_kb
from ..kb.prototype_kb import PrototypeKB
from ..kb.sources import PrototypeSource
from ..layers.fingerprint import fingerprint
from ..layers.gradients import gradient_norm
from ..layers.referenced import reference_parts
from ..objectives.protocol import Objective
from ..ontology.names import fold_name
from ..ontology.spelling import american
from ..ontology.store import OntologyStore
from ..sampling.linked import linked_mentions
from ..views import AnyParts, View, name_view, reference_view, with_mentions
from .annotations import NIL, SpanLink, register_extensions, spans_of, write_links
from .decide import decide
from .mention_views import mention_views
from .pipe import KrisselPipe
from .settings import LinkerSettings, LiveSettings
from .species import NOTHING, Keys, assigned_species, species_key

# Views given to the encoder's initialisation: enough for document frequencies, few enough to take a second.
INIT_VIEWS = 20_000


class KrisselLinker(KrisselPipe):
    """Link the entities or the spans of a doc to the entities of a `PrototypeKB`.

    The score of an entity is the inner product of the mention's vector with the entity's nearest prototype (KRISSBERT
    eq. 3), or with the sum of that prototype and the entity's reference (eq. 6), and what spelling adds to it where the
    settings say so. Made by the factory `krissel_linker`; all of its parts come from the config.
    """

    def __init__(
        self,
        vocab: Vocab,
        model: Model[List[View], Floats2d],
        name: str = "krissel_linker",
        *,
        objective: Optional[Objective],
        generate_empty_kb: Callable[[Vocab, int], PrototypeKB],
        settings: LinkerSettings,
        kb_path: Optional[str] = None,
        scorer: Optional[Callable] = None,
    ) -> None:
        """
        model: views → vectors (n, width).
        objective: what `update` does with a batch; needed for training alone.
        generate_empty_kb: makes the knowledge base that `from_disk` fills.
        settings: see `LinkerSettings`; the live ones are in `self.cfg` and are saved with the pipe.
        kb_path: a knowledge base directory outside the pipeline's folder; it is then not copied into it.
        """
        self.vocab = vocab
        self.model = model
        self.name = name
        self.objective = objective
        self.scorer = scorer
        self.generate_empty_kb = generate_empty_kb
        self.kb_path = kb_path
        self.cfg = LiveSettings(name, settings)
        self._kb: Optional[PrototypeKB] = None
        self._dev: Optional[PrototypeSource] = None
        self._dev_kb: Optional[PrototypeKB] = None
        self._fingerprint: Optional[str] = None
        # Of the last training step: "loss" and, while `log_gradients`, "gradient_norm".
        self.last_step: Dict[str, float] = {}
        self.log_gradients = False
        self._loss = 0.0
        register_extensions()
        vocab.strings.add(NIL)

    # Knowledge base ------------------------------------------------------------------------------------------------

    @property
    def kb(self) -> PrototypeKB:
        """The knowledge base; empty until it is set, or loaded with the pipeline."""
        if self._kb is None:
            self._kb = self.new_kb()
        # Lent at each turn, since a knowledge base that was sent to another process left its encoder behind.
        self._kb.lend_encoder(self.encode)
        return self._kb

    def new_kb(self, index: Optional[Callable] = None) -> PrototypeKB:
        """An empty knowledge base that fits the encoder, with the config's index or with `index`."""
        kb = self.generate_empty_kb(self.vocab, self._width())
        if index is not None:
            kb.use_index(index)
        return kb

    def set_kb(self, kb: PrototypeKB) -> None:
        """Link to `kb` from now on. Raises KrisselError when another encoder made it, or its vectors do not fit."""
        kb.check_encoder(self.fingerprint(), self._width())
        kb.lend_encoder(self.encode)
        self._kb = kb

    def fingerprint(self) -> str:
        """What identifies the encoder: a hash of its weights and settings."""
        if self._fingerprint is None:
            self._fingerprint = fingerprint(self.model)
        return self._fingerprint

    def reference_parts(self) -> Optional[AnyParts]:
        """What stands in the references that the encoder was made for; None for an encoder of mentions alone."""
        return reference_parts(self.model)

    def encode(self, views: Sequence[View]) -> np.ndarray:
        """views → (n, width) float32 on the CPU. Raises KrisselError K604 when the encoder has no weights."""
        self.require_weights()
        if not views:
            return np.zeros((0, self._width()), dtype=np.float32)
        if self.cfg["american_spelling"]:
            views = [with_mentions(view, american) for view in views]
        return self.model.ops.to_numpy(self.model.predict(list(views))).astype(np.float32, copy=False)

    # Linking -------------------------------------------------------------------------------------------------------

    def predict(self, docs: Iterable[Doc]) -> List[List[SpanLink]]:
        """The link of every span of every doc, without writing any."""
        docs = list(docs)
        views: List[View] = []
        kinds: List[Tuple[str, Keys]] = []
        counts: List[int] = []
        for doc in docs:
            spans = spans_of(doc, self.cfg["spans_key"])
            views.extend(self.views(doc, spans))
            kinds.extend(zip((span.label_ for span in spans), self._species(doc, spans)))
            counts.append(len(spans))
        links = iter(self._link(views, kinds, counts) if views else ())
        return [list(islice(links, count)) for count in counts]

    def set_annotations(self, docs: Iterable[Doc], links: List[List[SpanLink]]) -> None:
        """Write the links that `predict` found to the docs."""
        key, overwrite = self.cfg["spans_key"], self.cfg["overwrite"]
        for doc, doc_links in zip(docs, links):
            if doc_links:
                write_links(doc, spans_of(doc, key), doc_links, spans_key=key, overwrite=overwrite)

    def views(self, doc: Doc, spans: Sequence[Span]) -> List[View]:
        """What the encoder sees of each span: its context, and the span with its abbreviations written out."""
        context = self.cfg["context"] if self.cfg["use_context"] else None
        return mention_views(doc, spans, context=context, use_abbreviations=self.cfg["use_abbreviations"])

    def _species(self, doc: Doc, spans: Sequence[Span]) -> List[Keys]:
        """The species that each span may be of; nothing where that is not asked, and for mentions of species."""
        label = self.cfg["species_label"]
        if not label:
            return [NOTHING] * len(spans)
        found = assigned_species(doc, spans, [ent for ent in {*doc.ents, *spans} if ent.label_ == label])
        return [NOTHING if span.label_ == label else keys for span, keys in zip(spans, found)]

    def _link(self, views: List[View], kinds: List[Tuple[str, Keys]], counts: List[int]) -> List[SpanLink]:
        """The links of mentions with these views, labels and species, of docs with so many mentions each."""
        kb = self._searched_kb()
        if kb is None:
            raise KrisselError(Errors.K603.format(name=self.name))
        vectors = self.encode(views)
        texts = [view.mention for view in views]
        names = self._names(kb, views)
        docs = np.repeat(np.arange(len(counts)), counts).tolist()
        forms = [(doc, fold_name(text)) for doc, text in zip(docs, texts)] if self.cfg["consistency"] else docs
        links: List[Optional[SpanLink]] = [None] * len(views)
        for rows, mask in self._masks(kb, kinds):
            part = [texts[row] for row in rows], [forms[row] for row in rows]
            asked = None if names is None else names[rows]
            for row, link in zip(rows, decide(kb, vectors[rows], *part, self.cfg, mask, asked)):
                links[row] = link
        return [link for link in links if link is not None]

    def _names(self, kb: PrototypeKB, views: List[View]) -> Optional[np.ndarray]:
        """The vectors of the views' mentions alone, where gold mentions are prototypes and names are to count."""
        if not (self.cfg["gold_name_weight"] and self.cfg["use_context"] and kb.has_gold):
            return None
        names = [name_view(view.mention) for view in views]
        distinct = {name: row for row, name in enumerate(dict.fromkeys(names))}
        return self.encode(list(distinct))[[distinct[name] for name in names]]

    def _masks(self, kb: PrototypeKB, kinds: List[Tuple[str, Keys]]) -> List[Tuple[List[int], Optional[np.ndarray]]]:
        """(rows of the batch, entities they may link to), by the type filter of each label, and by species."""
        everywhere: Optional[List[str]] = self.cfg["types"]
        by_label: Dict[str, List[str]] = self.cfg["types_by_label"]
        groups: Dict[Tuple[Optional[Tuple[str, ...]], Keys], List[int]] = {}
        for row, (label, species) in enumerate(kinds):
            types = by_label.get(label, everywhere)
            groups.setdefault((tuple(types) if types else None, species), []).append(row)
        known = kb.entity_species() if any(species for _, species in groups) else []
        masks = []
        for (types, species), rows in groups.items():
            mask = kb.entity_mask(types=types) if types else None
            theirs = [each for each in known if species_key(each) in species]
            if theirs:
                narrower = kb.entity_mask(types=types, species=theirs)
                # A species of none of these types says nothing about them.
                mask = narrower if narrower.any() else mask
            masks.append((rows, mask))
        return masks

    def _searched_kb(self) -> Optional[PrototypeKB]:
        if self._kb is not None and not self._kb.is_empty():
            return self._kb
        if self._dev is None:
            return None
        if self._dev_kb is None:
            self._dev_kb = self._build_dev_kb(self._dev)
        return self._dev_kb

    # Training ------------------------------------------------------------------------------------------------------

    def initialize(
        self,
        get_examples: Callable[[], Iterable[Example]],
        *,
        nlp: Optional[Language] = None,
        ontology: Optional[Callable[[], OntologyStore]] = None,
        dev_kb: Optional[Callable[[], PrototypeSource]] = None,
        encoder: Optional[Callable[[Model[List[View], Floats2d]], None]] = None,
    ) -> None:
        """Give the encoder its weights, and training its ontology and its development knowledge base.

        ontology: loads the names that replace mentions and what stands in references
            (`spacy-krissel.OntologyFromDisk.v1`).
        dev_kb: prototypes of a bounded knowledge base that is encoded afresh whenever development accuracy is measured
            (`spacy-krissel.PrototypeSource.v1`).
        encoder: gives the encoder the weights of a trained one to start from (`spacy-krissel.EncoderFromPipeline.v1`).
        """
        validate_get_examples(get_examples, "KrisselLinker.initialize")
        sample: List[View] = []
        for example in get_examples():
            sample.extend(view for _, view in linked_mentions(example.reference, self.cfg["spans_key"]))
            if len(sample) >= INIT_VIEWS:
                break
        if not sample:
            sample = [name_view("mention")]
        store = ontology() if ontology is not None else None
        parts = self.reference_parts()
        if parts is not None and store is not None:
            sample.extend(reference_view(entity, parts) for entity in islice(store, INIT_VIEWS))
        self.model.initialize(X=sample)
        if encoder is not None:
            encoder(self.model)
        self._weights_changed()
        if self.objective is not None and store is not None:
            self.objective.initialize(store)
        self._dev = dev_kb() if dev_kb is not None else None

    def update(
        self,
        examples: Iterable[Example],
        *,
        drop: float = 0.0,
        sgd: Optional[Optimizer] = None,
        losses: Optional[Dict[str, float]] = None,
    ) -> Dict[str, float]:
        """One training step, as the objective defines it."""
        losses = {} if losses is None else losses
        losses.setdefault(self.name, 0.0)
        examples = list(examples)
        validate_examples(examples, "KrisselLinker.update")
        if not examples or self.objective is None:
            return losses
        self.require_weights()
        set_dropout_rate(self.model, drop)
        loss = self.objective.update(self.model, examples)
        losses[self.name] += loss
        self._loss += loss
        if sgd is not None:
            self.finish_update(sgd)
        return losses

    def finish_update(self, sgd: Optimizer) -> None:
        self.last_step, self._loss = {"loss": self._loss}, 0.0
        if self.log_gradients:
            self.last_step["gradient_norm"] = gradient_norm(self.model)
        self.model.finish_update(sgd)
        self._weights_changed()

    def _weights_changed(self) -> None:
        """Drop the vectors made by the old weights; the development KB is encoded again when it is next searched.

        Warns KW601 when a knowledge base was in use: it would link wrongly, and refuse to be loaded with these weights.
        """
        self._fingerprint = None
        self._dev_kb = None
        if self._kb is not None and self._kb.encoder != self.fingerprint():
            if not self._kb.is_empty():
                message = Warnings.KW601.format(name=self.name, entities=self._kb.n_entities)
                warnings.warn(message, KrisselWarning, stacklevel=3)
            self._kb = None

    def _build_dev_kb(self, source: PrototypeSource) -> PrototypeKB:
        return fill_kb(self.new_kb(), source, self.encode, references=self.reference_parts())

    def require_weights(self) -> None:
        """Raise KrisselError K604 unless the encoder was initialized or loaded."""
        # A transformer has no parameter of thinc's, but knows its width from its weights.
        missing = self.model.has_dim("nO") is None
        for node in self.model.walk():
            missing |= any(node.has_param(param) is None for param in node.param_names)
        if missing:
            raise KrisselError(Errors.K604.format(name=self.name))

    def _width(self) -> int:
        return self.model.get_dim("nO") if self.model.has_dim("nO") else 0

    # Serialisation -------------------------------------------------------------------------------------------------

    def to_bytes(self, *, exclude: Iterable[str] = ()) -> bytes:
        """All of the pipe, the knowledge base included (held twice in memory); `exclude=["kb"]` leaves it out."""
        serialize: Dict[str, Callable[[], bytes]] = {
            "cfg": lambda: srsly.json_dumps(self.cfg.saved(), sort_keys=True).encode("utf8"),
            "model": self.model.to_bytes,
        }
        if self._carries_kb():
            serialize["kb"] = self.kb.to_bytes
        return util.to_bytes(serialize, exclude)

    def from_bytes(self, bytes_data: bytes, *, exclude: Iterable[str] = ()) -> "KrisselLinker":
        deserialize: Dict[str, Callable[[bytes], Any]] = {
            "cfg": lambda data: self.cfg.restore(srsly.json_loads(data)),
            "model": self._load_model,
            "kb": lambda data: self.set_kb(self.new_kb().from_bytes(data)),
        }
        with self._coded("bytes"):
            util.from_bytes(bytes_data, deserialize, exclude)
        self._open_kb_path(exclude)
        return self

    def to_disk(self, path: Union[str, Path], *, exclude: Iterable[str] = ()) -> None:
        serialize: Dict[str, Callable[[Path], Any]] = {
            "cfg": lambda p: srsly.write_json(p, self.cfg.saved()),
            "model": lambda p: p.write_bytes(self.model.to_bytes()),
        }
        if self._carries_kb():
            serialize["kb"] = lambda p: self.kb.to_disk(p)
        util.to_disk(path, serialize, exclude)

    def from_disk(self, path: Union[str, Path], *, exclude: Iterable[str] = ()) -> "KrisselLinker":
        path = util.ensure_path(path)
        deserialize: Dict[str, Callable[[Path], Any]] = {
            "cfg": lambda p: self.cfg.restore(srsly.read_json(p)),
            "model": lambda p: self._load_model(p.read_bytes()),
        }
        if (path / "kb").exists() and not self.kb_path:
            deserialize["kb"] = self._load_kb
        with self._coded(path):
            util.from_disk(path, deserialize, exclude)
        self._open_kb_path(exclude)
        return self

    def _carries_kb(self) -> bool:
        # Not the development KB, which training replaces at every evaluation, nor one that lives elsewhere.
        return not self.kb_path and self._kb is not None and not self._kb.is_empty()

    def _load_model(self, data: bytes) -> None:
        self.model.from_bytes(data)
        self._weights_changed()

    def _load_kb(self, path: Path) -> None:
        self.set_kb(self.new_kb().from_disk(path))

    def _open_kb_path(self, exclude: Iterable[str]) -> None:
        if self.kb_path and "kb" not in exclude:
            self._load_kb(Path(self.kb_path))

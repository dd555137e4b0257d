"""`krissel_reranker`: score the linker's candidates again, and reorder them."""

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from spacy import util
from spacy.language import Language
from spacy.tokens import Doc, Span
from spacy.training import Example
from spacy.vocab import Vocab

from ..errors import Errors, KrisselError, KrisselWarning, Warnings, wrong_setting
from ..kb.candidate_columns import CandidateTable
from ..kb.candidates import VERDICT
from ..kb.prototype_kb import PrototypeKB
from ..kb.ties import TIE
from ..layers.ranked import RankedMention, Reranker, list_lengths, with_nil
from ..mentions.annotations import NIL, SpanLink, spans_of, write_links
from ..mentions.contexts import mention_views
from ..ontology.store import OntologyStore
from ..training.objectives.reranking import LinkerCandidates, RerankObjective
from ..util.lock import WeakReference
from ..views import CandidateView, View, candidate_view
from .linker.component import KrisselLinker
from .linker.unseen import folded, unseen_candidates
from .pipe import KrisselPipe, check_examples
from .pipeline_io import find_linker
from .settings import LINKER, RerankerSettings

# Number of examples that the temperature is fitted to, and that initialize the sizes of the model's
# layers.
FIT_EXAMPLES, INIT_EXAMPLES = 512, 8
ENTITIES = "entities"


def reorder(
    candidates: Sequence[dict[str, Any]], ties: Sequence[str], corrections: np.ndarray
) -> SpanLink:
    """Add corrections to the scores of the first candidates, and sort by the sums.

    candidates: best first, at least one; their dicts are not changed.
    ties: ids that the linker could not disambiguate; those that still share the best score stay
        tied.
    corrections: (k,) in the unit of the scores. Candidates after the first k keep their order and
        follow the others; their scores are lowered to the lowest of the others' if higher.

    Candidates with equal sums keep their order, so that corrections of zero change nothing. No
    candidate keeps its confidence, which applied to the linker's scores.
    """
    k = len(corrections)
    scores = [
        candidate["score"] + float(change)
        for candidate, change in zip(candidates[:k], corrections, strict=True)
    ]
    order = sorted(range(k), key=lambda i: -scores[i])
    kept = [
        {key: value for key, value in each.items() if key != "confidence"} for each in candidates
    ]
    new: list[dict[str, Any]] = [{**kept[i], "score": scores[i]} for i in order]
    lowest = new[-1]["score"]
    new += [{**candidate, "score": min(candidate["score"], lowest)} for candidate in kept[k:]]
    best = new[0]["score"]
    at_top = {
        candidate["id"]
        for candidate in new
        if best - candidate["score"] <= TIE * max(1.0, abs(best))
    }
    left = [id_ for id_ in ties if id_ in at_top] if new[0]["id"] in ties else []
    return SpanLink(new[0]["id"], new, left if len(left) > 1 else [])


def relative_to_nil(corrections: np.ndarray) -> np.ndarray:
    """Return the corrections of the candidates (k,) minus that of NIL, the last of (k + 1,).
    NIL's own score then stays constant, and one threshold on the final scores decides.
    """
    return corrections[:-1] - corrections[-1]


def apply_nil(link: SpanLink, nil_score: float) -> SpanLink:
    """Return the link, or NIL if its best candidate scores less than NIL. Candidates stay in either
    case."""
    return link._replace(kb_id=NIL) if link.candidates[0]["score"] < nil_score else link


class KrisselReranker(KrisselPipe):
    """Re-rank `span._.krissel_candidates`, and link to the first (KRISSBERT §3.6).

    The final score of a candidate is the linker's plus `weight · temperature · correction`; with
    `weight = 0` it is the linker's. If the model has a bound, scores stay comparable with the
    linker's, and a candidate that leads by more than twice the bound keeps its lead. Without a
    bound (`CrossEncoder`, `bound = null`, as in the paper), the corrections subtract the linker's
    log-odds: the final score is `temperature` times the model's at weight 1, and a weighted mean of
    both below 1. Mentions that the linker wrote as "NIL" are left unchanged, candidates included:
    they depend on the linker's threshold alone. With a `nil_score`, NIL is a candidate too, scored
    by the model as the others are. A mention whose best final score is below NIL's becomes "NIL".

    Only links to the first candidate, as the linker writes them, are changed; a link corrected by
    hand stays. Candidates are scored once and marked (`span._.krissel_reranked_by`) until the
    linker writes new ones.

    The texts of candidates come from a table of the pipe's own, which `initialize` fills and the
    pipe saves. Neither the ontology nor the linker is needed at run time. Made by the factory
    `krissel_reranker`.
    """

    cfg: RerankerSettings

    def __init__(
        self,
        vocab: Vocab,
        model: Reranker,
        name: str = "krissel_reranker",
        *,
        objective: RerankObjective | None,
        settings: RerankerSettings,
        nlp: Language | None = None,
        linker: str = LINKER,
        max_names: int,
        tree_numbers: bool,
        scorer: Callable[..., Any] | None = None,
    ) -> None:
        """
        model: mentions with their candidates → corrections.
        nlp: the pipeline that holds the linker, referenced weakly (`learn_from`); needed for
            training only.
        linker: name of the pipe whose candidates are learned from; needed for training only.
        max_names: number of names in a candidate's text.
        tree_numbers: whether a candidate's text includes its position in the ontology.
        The rest as in `KrisselPipe`.
        """
        super().__init__(vocab, model, name, objective=objective, settings=settings, scorer=scorer)
        if max_names < 1:
            raise wrong_setting("max_names", max_names, "at least 1")
        self.linker_name = linker
        self.max_names = max_names
        self.tree_numbers = tree_numbers
        self._table: CandidateTable | None = None
        self._nlp: WeakReference[Language] = WeakReference(nlp)
        # Found while the pipeline is there: a pipe that is sourced into another may outlive its
        # own, next to its linker.
        self._linker: WeakReference[KrisselLinker] = WeakReference()
        self._look_for_linker()

    # Re-ranking -----------------------------------------------------------------------------------

    def predict(self, docs: Iterable[Doc]) -> list[list[SpanLink | None]]:
        """Return the new link of every span of every doc, None for a span that is left unchanged;
        write nothing."""
        docs = list(docs)
        if self._linker() is None:
            self._look_for_linker()
        links: list[list[SpanLink | None]] = [
            [None] * len(spans_of(doc, self.cfg.spans_key)) for doc in docs
        ]
        if not self.cfg.weight:
            return links
        positions: list[tuple[int, int]] = []
        mentions: list[RankedMention] = []
        spans: list[Span] = []
        for i, doc in enumerate(docs):
            for j, span, mention in self._ranked(doc):
                positions.append((i, j))
                spans.append(span)
                mentions.append(mention)
        if not mentions:
            self._check_key(docs)
            return links
        self._check_number(spans)
        scale = self.cfg.weight * self._temperature()
        corrections = self.model.ops.to_numpy(self.model.predict(mentions)) * np.float32(scale)
        ends = np.cumsum(list_lengths(mentions))[:-1]
        nil_score = self.cfg.nil_score
        for (i, j), span, changes in zip(
            positions, spans, np.split(corrections, ends), strict=True
        ):
            if nil_score is not None:
                changes = relative_to_nil(changes)
            link = reorder(span._.krissel_candidates, span._.krissel_ties, changes)
            links[i][j] = link if nil_score is None else apply_nil(link, nil_score)
        return links

    def set_annotations(self, docs: Iterable[Doc], links: list[list[SpanLink | None]]) -> None:
        """Write the links that `predict` found to the docs."""
        key = self.cfg.spans_key
        for doc, doc_links in zip(docs, links, strict=True):
            if any(doc_links):
                write_links(doc, spans_of(doc, key), doc_links, spans_key=key, reranker=self.name)

    def _ranked(self, doc: Doc) -> Iterator[tuple[int, Span, RankedMention]]:
        """Yield the spans of a doc whose order can change, with their index and the model's
        input."""
        nil_score = self.cfg.nil_score
        min_candidates = 2 if nil_score is None else 1
        spans = [
            (j, span)
            for j, span in enumerate(spans_of(doc, self.cfg.spans_key))
            if len(span._.krissel_candidates[: self.cfg.top_k]) >= min_candidates
            and self._is_linkers(span)
        ]
        views = self._views(doc, [span for _, span in spans])
        for (j, span), view in zip(spans, views, strict=True):
            candidates = span._.krissel_candidates[: self.cfg.top_k]
            scores = np.array([candidate["score"] for candidate in candidates], dtype=np.float32)
            named = [(candidate["id"], candidate["name"]) for candidate in candidates]
            mention = self._mention(view, named, scores, hidden=False)
            yield (
                j,
                span,
                mention
                if nil_score is None
                else with_nil(mention, nil_score / self._temperature()),
            )

    def _views(self, doc: Doc, spans: Sequence[Span]) -> list[View]:
        """Return the model's input for mentions, in training and in use."""
        key, abbreviations = self.cfg.spans_key, bool(self.cfg.use_abbreviations)
        return mention_views(
            doc, spans, context="window", use_abbreviations=abbreviations, spans_key=key
        )

    def _check_number(self, spans: Sequence[Span]) -> None:
        """Warn KW615 if the linker kept fewer candidates than the pipe reads."""
        # The pipe does not know the linker of a pipeline other than its own.
        linker = self._linker() if spans[0].vocab is self.vocab else None
        found = max(len(span._.krissel_candidates) for span in spans)
        wanted = min(self.cfg.top_k, 0 if self._table is None else len(self._table))
        if found < wanted and (linker is None or linker.n_candidates_kept() < wanted):
            message = Warnings.KW615.format(
                name=self.name, wanted=wanted, found=found, linker=self.linker_name
            )
            warnings.warn(message, KrisselWarning, stacklevel=3)

    def _check_key(self, docs: Sequence[Doc]) -> None:
        """Warn KW614 if the candidates are on other spans."""
        linker = self._linker()
        if linker is None:
            return
        own, other = self.cfg.spans_key, linker.cfg["spans_key"]
        if own != other and any(
            span._.krissel_candidates for doc in docs for span in spans_of(doc, other)
        ):
            positions = [f"spans['{key}']" if key else "ents" for key in (own, other)]
            message = Warnings.KW614.format(
                name=self.name, own=positions[0], linker=self.linker_name, other=positions[1]
            )
            warnings.warn(message, KrisselWarning, stacklevel=3)

    def _is_linkers(self, span: Span) -> bool:
        """Return whether this pipe should score a span with candidates.
        True if the link is the linker's own, not written by hand since, not NIL, and not yet scored
        by this pipe. A correction that decided the link stays.
        """
        return (
            span._.krissel_candidates[0]["kind"] != VERDICT
            and span.kb_id_ == span._.krissel_candidates[0]["id"]
            and self.name not in span._.krissel_reranked_by
        )

    def _mention(
        self, view: View, named: Sequence[tuple[str, str]], scores: np.ndarray, *, hidden: bool
    ) -> RankedMention:
        """named: id and name of each candidate. hidden: candidates do not show the mention's own
        name."""
        if self._table is None:
            raise KrisselError(Errors.K615.format(name=self.name))
        found = self._table.get([id_ for id_, _ in named])
        candidates = []
        for id_, name in named:
            entity = found.get(id_)
            if entity is None:
                # The knowledge base is newer than the table.
                candidates.append(CandidateView((name,), (name,)))
                continue
            without = (
                [each for each in entity.names if folded(each) == folded(view.mention)]
                if hidden
                else ()
            )
            n, numbers = self.max_names, self.tree_numbers
            candidates.append(
                candidate_view(entity, max_names=n, tree_numbers=numbers, without=without)
            )
        return RankedMention(view, tuple(candidates), scores / np.float32(self._temperature()))

    def _temperature(self) -> float:
        if self.cfg.temperature is None:
            raise KrisselError(Errors.K615.format(name=self.name))
        return self.cfg.temperature

    # Training -------------------------------------------------------------------------------------

    def initialize(
        self,
        get_examples: Callable[[], Iterable[Example]],
        *,
        nlp: Language | None = None,
        ontology: Callable[[], OntologyStore] | None = None,
    ) -> None:
        """Fill the table of candidates, initialize the model, and fit the temperature to the
        linker's scores.

        ontology: loads the entities that describe candidates (`spacy-krissel.OntologyFromDisk.v1`).
            Entities in the linker's knowledge base are kept, or all if it holds most of them.
        Raises KrisselError K610 (no such linker), K616 (no ontology).
        """
        check_examples(get_examples, "KrisselReranker.initialize")
        if ontology is None:
            raise KrisselError(Errors.K616.format(name=self.name))
        if nlp is not None:
            self.learn_from(nlp)
        linker = self._training_linker()
        self.describe_candidates(ontology(), linker.kb)
        if self.cfg.use_abbreviations is None:
            self.cfg.use_abbreviations = linker.cfg.use_abbreviations
        examples = list(islice(get_examples(), FIT_EXAMPLES))
        fits = self.cfg.temperature is None
        if fits:
            self.cfg.temperature = 1.0
        mentions: list[RankedMention] = []
        if self.objective is not None:
            self.objective.initialize(None)
            key = self.cfg.spans_key
            if fits:
                self.cfg.temperature = self.objective.temperature(
                    examples, key, self._training_candidates()
                )
            if self.cfg.nil_score is None:
                self.cfg.nil_score = self.objective.nil_score(
                    examples, key, self._training_candidates()
                )
            mentions, _ = self.objective.mentions(
                examples[:INIT_EXAMPLES], key, self._training_candidates()
            )
        self.model.initialize(X=mentions)

    def describe_candidates(self, ontology: OntologyStore, kb: PrototypeKB) -> None:
        """Describe candidates by these entities from now on, those of the linker's knowledge
        base."""
        self._table = CandidateTable.of(ontology, kb)

    def _learn(self, objective: RerankObjective, examples: list[Example]) -> float:
        """Train on the linker's candidates for the linked mentions of the examples' references.
        Candidates are searched here, not read from the annotated docs: there a mention has met its
        own prototype (`RerankObjective`).
        """
        return objective.update(
            self.model, examples, self.cfg.spans_key, self._training_candidates()
        )

    def learn_from(self, nlp: Language) -> None:
        """Use the candidates of this pipeline's linker in training from now on.

        `initialize` calls this; a pipe that was made or loaded with its linker does not need it.
        The pipeline is referenced weakly, and not by copies of the pipe. Raises KrisselError K610
        (no such linker).
        """
        find_linker(nlp, self.linker_name)
        self._nlp = WeakReference(nlp)
        self._look_for_linker()

    def _training_linker(self) -> KrisselLinker:
        self._look_for_linker()
        linker = self._linker()
        if linker is None:
            raise KrisselError(Errors.K618.format(name=self.name, linker=self.linker_name))
        if linker.kb.is_empty():
            raise KrisselError(Errors.K617.format(name=self.name, linker=self.linker_name))
        return linker

    def _look_for_linker(self) -> None:
        nlp = self._nlp()
        if nlp is not None and self.linker_name in nlp.component_names:
            linker = find_linker(nlp, self.linker_name)
            linker.register_reranker(self.cfg)
            self._linker = WeakReference(linker)

    def _training_candidates(self) -> LinkerCandidates:
        linker = self._training_linker()
        weight = linker.cfg.lexical_weight
        return LinkerCandidates(
            linker.kb,
            linker.views,
            self._views,
            lambda views, hidden, k: unseen_candidates(
                linker.kb, views, linker.encode(views), hidden, k, weight
            ),
            self._mention,
            self._temperature(),
            self.cfg.nil_score,
        )

    # Serialisation --------------------------------------------------------------------------------

    def to_bytes(self, *, exclude: Iterable[str] = ()) -> bytes:
        table = {} if self._table is None else {ENTITIES: self._table.to_bytes}
        return util.to_bytes({**self._files(), **table}, exclude)

    def from_bytes(self, bytes_data: bytes, *, exclude: Iterable[str] = ()) -> "KrisselReranker":
        readers = {ENTITIES: lambda data: setattr(self, "_table", CandidateTable.from_bytes(data))}
        self._read_bytes(bytes_data, readers, exclude)
        return self

    def to_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> None:
        path = util.ensure_path(path)
        self._write_files(path, exclude)
        if self._table is not None and ENTITIES not in exclude:
            self._table.to_disk(path / ENTITIES)

    def from_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> "KrisselReranker":
        path = util.ensure_path(path)
        self._read_files(path, exclude)
        if (path / ENTITIES).exists() and ENTITIES not in exclude:
            with self._coded(path):
                self._table = CandidateTable(path / ENTITIES)
        return self

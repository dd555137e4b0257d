"""Adapters of pipes to systems for `evaluate_spans`."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import spacy
from spacy.language import Language
from spacy.tokens import Doc

from spacy_krissel.evaluation.tables import check_report
from spacy_krissel.mentions.gold_mentions import gold_mentions, split_gold
from spacy_krissel.ontology.store import OntologyStore
from spacy_krissel.pipeline.extractor import KrisselSpanExtractor
from spacy_krissel.pipeline.linker.component import KrisselLinker
from spacy_krissel.pipeline.pipeline_io import load_pipeline
from spacy_krissel.util.settings import Count
from spacy_krissel.views import name_view

from ..errors import Errors, KrisselError
from ..named_paths import name_path_pairs
from .baselines import BiEncoder, FuzzyMatch, RuleMatch
from .evaluate import SpanReport, evaluate_spans, linked_texts
from .systems import SpanSystem

Pieces = tuple[tuple[int, int], ...]


class ExtractorSystem:
    """A span extractor: the spans of given entities, whatever their probability, and the
    probability of each entity."""

    def __init__(self, extractor: KrisselSpanExtractor) -> None:
        self.extractor = extractor

    def spans(self, doc: Doc, entity_ids: Sequence[str]) -> Mapping[str, Pieces]:
        return {
            id_: found.fragments for id_, found in self.extractor.extract(doc, entity_ids).items()
        }

    def scores(self, docs: Sequence[Doc], entity_ids: Sequence[str]) -> np.ndarray:
        return self.extractor.scores(docs, entity_ids)


class GoldSpanSystem:
    """Span extractor with the gold tokens of a text's own entities: their names attend to these
    tokens alone, all others to the whole text (OSLAT's row GT)."""

    def __init__(self, extractor: KrisselSpanExtractor) -> None:
        self.extractor = extractor

    def scores(self, docs: Sequence[Doc], entity_ids: Sequence[str]) -> np.ndarray:
        found = self.extractor.scores(docs, entity_ids)
        columns = {id_: column for column, id_ in enumerate(entity_ids)}
        for row, doc in enumerate(docs):
            tokens: dict[str, set] = {}
            for mention in gold_mentions(doc):
                for id_ in split_gold(mention.kb_id, self.extractor.kb):
                    if id_ in columns:
                        tokens.setdefault(id_, set()).update(mention.tokens)
            for id_, score in self.extractor.scores_at(doc, tokens).items():
                found[row, columns[id_]] = score
        return found


class _LinkerVectors:
    """The encoder of a linker, for texts as for names."""

    def __init__(self, linker: KrisselLinker) -> None:
        self._linker = linker

    def encode_names(self, texts: Sequence[str]) -> np.ndarray:
        return self._linker.encode([name_view(text) for text in texts])

    encode_texts = encode_names


def pipe_systems(
    nlp: Language,
    store: OntologyStore,
    *,
    name: str,
    with_gold_spans: bool = False,
    source: str | Path = "",
) -> dict[str, SpanSystem]:
    """Return the systems of `nlp`, called `name`: its span extractor, with its row GT if requested,
    or else its linker as a bi-encoder of texts and of the names of `store`.

    Raises KrisselError K738 for a pipeline with neither.
    """
    pipes = [nlp.get_pipe(each) for each in nlp.pipe_names]
    for pipe in pipes:
        if isinstance(pipe, KrisselSpanExtractor):
            told: dict[str, SpanSystem] = (
                {f"{name}, gold spans": GoldSpanSystem(pipe)} if with_gold_spans else {}
            )
            return {name: ExtractorSystem(pipe), **told}
    for pipe in pipes:
        if isinstance(pipe, KrisselLinker):
            return {name: BiEncoder(store, _LinkerVectors(pipe))}
    raise KrisselError(
        Errors.K738.format(path=source or name, found=", ".join(nlp.pipe_names) or "nothing")
    )


def evaluate_pipelines(
    pipeline: str | Path,
    gold: Path,
    ontology: Path,
    output: Path = Path("metrics"),
    *,
    name: str = "spans",
    train: Sequence[Path] = (),
    rank: Sequence[Path] = (),
    compare: Sequence[str] = (),
    baselines: bool = True,
    gold_spans: bool = False,
    seed: Count = 0,
    command: str = "",
) -> SpanReport:
    """Evaluate on OSLAT's two tasks: the tokens of the entities of a text, and its entities.

    pipeline: pipeline with a span extractor and its knowledge base
    gold: .spacy file with entities as categories, and gold spans where known
    ontology: ontology store: the entities that are ranked, and the baselines' names
    output: folder for the .json and .md report
    name: name of the report
    train: texts that were trained on, for seen and unseen
    rank: rank only the entities of these texts, as the paper does; without it, all of the ontology
    compare: name=path of another pipeline: an extractor, or a linker as bi-encoder; several seeds
        have one name
    baselines: add rule-based and fuzzy match (the extra 'fuzzy')
    gold_spans: add the pipeline with the gold spans instead of its attention
    seed: random seed of the bootstrap
    command: command line shown in the report

    Raises KrisselError K006 (`compare`), those of `check_report`, `load_pipeline`, `pipe_systems`,
    `linked_texts` and `evaluate_spans`.
    """
    check_report(output, name)
    others = name_path_pairs("compare", compare)
    store = OntologyStore(ontology)
    systems: dict[str, list[SpanSystem]] = {}
    for title, path in [(name, str(pipeline)), *others]:
        told = gold_spans and title == name
        made = pipe_systems(
            load_pipeline(path), store, name=title, with_gold_spans=told, source=path
        )
        for each, system in made.items():
            systems.setdefault(each, []).append(system)
    if baselines:
        systems.update({"rule": [RuleMatch(store)], "fuzzy": [FuzzyMatch(store)]})
    vocab = spacy.blank("en").vocab
    return evaluate_spans(
        systems,
        gold,
        store,
        output,
        name=name,
        entities=sorted(linked_texts(rank, vocab)) if rank else None,
        seen=linked_texts(train, vocab) if train else None,
        seed=seed,
        command=command,
    )


def show_evaluate_pipelines(report: SpanReport, output: Path, name: str) -> str:
    return f"{report.to_markdown()}\nReport: {output / name}.json, .md"

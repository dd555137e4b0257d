"""Text annotator for the Ontology Access Kit (OAK): `get_adapter("krissel:PIPELINE")`. Needs the
extra `oak`.

OAK imports this module whenever it looks for any adapter, so heavy imports are deferred until one
is made.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from oaklib.datamodels.text_annotator import TextAnnotation, TextAnnotationConfiguration
from oaklib.interfaces import TextAnnotatorInterface

from ..ontology.entity import canonical_id

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.tokens import Doc


@dataclass
class KrisselImplementation(TextAnnotatorInterface):
    """Annotator of texts by a pipeline with a linker.

    nlp: the pipeline; None for the directory or package named after `krissel:`.

    Raises KrisselError K611 (no pipeline), K610 (no linker).
    """

    nlp: Language | None = None

    def __post_init__(self) -> None:
        from ..pipeline.pipeline_io import find_linker, load_pipeline

        self._nlp = self.nlp or load_pipeline(str(self.resource.slug))
        linker = find_linker(self._nlp)
        self._key = linker.cfg["spans_key"]
        if linker.name not in self._nlp.pipe_names:
            self._nlp.enable_pipe(linker.name)

    def annotate_text(
        self, text: str, configuration: TextAnnotationConfiguration | None = None
    ) -> Iterator[TextAnnotation]:
        """Yield each link, with offsets from 1, `subject_end` inclusive, as in OAK. `confidence` is
        the link's, if the linker has one; `info` is its score and match. With `matches_whole_text`,
        the text is one mention. Mentions without an entity, and those in `token_exclusion_list`,
        are left out."""
        from ..render.formats.mentions import linked_mentions, short_facts

        configuration = configuration or TextAnnotationConfiguration()
        for each in linked_mentions(
            self._linked(text, bool(configuration.matches_whole_text)), self._key
        ):
            if each.id and each.text not in configuration.token_exclusion_list:
                yield TextAnnotation(
                    object_id=canonical_id(each.id),
                    object_label=each.name,
                    object_categories=[each.label] if each.label else [],
                    confidence=each.confidence,
                    info=short_facts(score=each.score, match=each.match) or None,
                    match_string=each.text,
                    matches_whole_text=(each.start, each.end) == (0, len(text)),
                    subject_start=each.start + 1,
                    subject_end=each.end,
                    subject_label=each.text,
                )

    def _linked(self, text: str, whole: bool) -> Doc:
        from spacy.tokens import Span

        from ..mentions.annotations import set_spans
        from ..pipeline.pipeline_io import mention_setters

        doc = self._nlp.make_doc(text)
        if not whole or not text.strip():
            return self._nlp(doc)
        set_spans(doc, [Span(doc, 0, len(doc), label="MENTION")], self._key)
        with self._nlp.select_pipes(disable=mention_setters(self._nlp)):
            return self._nlp(doc)

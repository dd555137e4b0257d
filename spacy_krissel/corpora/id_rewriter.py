"""The ids of mentions in the form that an ontology uses."""

from dataclasses import replace
from typing import Optional, Set

from ..mentions.gold_ids import NIL, Resolver, add_prefix, map_ids, split_ids, strip_prefix, to_kb_id
from .readers.annotation import AnnotatedText, Mention
from .report import CorpusReport


class IdRewriter:
    """Gives the ids of mentions the form that an ontology uses, and counts the ids that it does not hold."""

    def __init__(self, ontology: Optional[Resolver], prefixes: Set[str], prefix: str, unknown_as_nil: bool) -> None:
        self.ontology = ontology
        self.prefixes = prefixes
        self.prefix = prefix
        self.unknown_as_nil = unknown_as_nil

    def __call__(self, mention: Mention, annotated: AnnotatedText, report: CorpusReport) -> Mention:
        kb_id = map_ids(mention.kb_id, self._rewrite)
        if kb_id != to_kb_id(mention.kb_id):
            report.count("rewritten_ids")
        if self.ontology is not None:
            concepts = split_ids(kb_id)
            unknown = [concept for concept in concepts if self.ontology.resolve(concept) is None]
            if unknown and self.unknown_as_nil and len(unknown) == len(concepts):
                report.count("unknown_as_nil")
                kb_id = NIL
            elif unknown:
                report.blemish("unknown_ids", annotated.file_of(mention), mention.line, ", ".join(unknown))
        return replace(mention, kb_id=kb_id)

    def _rewrite(self, concept: str) -> str:
        concept = add_prefix(strip_prefix(concept, self.prefixes), self.prefix)
        if self.ontology is None or self.ontology.resolve(concept) is not None:
            return concept
        bare = concept.partition(":")[2]
        return bare if bare and self.ontology.resolve(bare) is not None else concept

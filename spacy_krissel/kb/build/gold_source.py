"""A knowledge base whose prototypes are gold mentions alone: "supervised only"."""

from functools import partial
from pathlib import Path
from typing import Callable, Iterator

from spacy.vocab import Vocab

from ...corpora.doc_bins import GoldSplit, read_doc_bins
from ...errors import Errors, KrisselError
from ...ontology.store import OntologyStore
from ..prototype_table import Prototype
from .gold_prototypes import gold_prototypes
from .sources import PrototypeSource


class GoldSource(PrototypeSource):
    """All entities of an ontology, and the linked mentions of a .spacy file as their only prototypes.

    part: which documents. per_entity, surface_forms: see `gold_prototypes`.
    """

    def __init__(
        self,
        ontology: OntologyStore,
        path: Path,
        *,
        part: GoldSplit,
        spans_key: str = "",
        per_entity: int = 0,
        surface_forms: bool = True,
    ) -> None:
        super().__init__(ontology, None, names=False, mentions_per_entity=0, seed=part.seed)
        self.path = Path(path)
        self.part = part
        self.spans_key = spans_key
        self.per_entity = per_entity
        self.surface_forms = surface_forms

    def prototypes(self) -> Iterator[Prototype]:
        found, counts = gold_prototypes(
            (doc for doc in read_doc_bins(self.path, Vocab()) if self.part(doc)),
            self.ontology,
            source=self.path.stem,
            spans_key=self.spans_key,
            per_entity=self.per_entity,
            surface_forms=self.surface_forms,
            seed=self.seed,
        )
        counts.warn()
        return iter(found)


def make_gold_source(
    path: Path,
    ontology: Path,
    split: str = "train",
    dev_share: float = 0.1,
    spans_key: str = "",
    per_entity: int = 0,
    surface_forms: bool = True,
    seed: int = 0,
) -> Callable[[], GoldSource]:
    """Registered in misc as `spacy-krissel.GoldPrototypeSource.v1`; see `GoldSource`.

    split, dev_share, seed: as in `spacy-krissel.GoldCorpus.v1`, so that what is scored is not among the prototypes.
    Raises KrisselError K006 for settings that make no sense.
    """
    part = GoldSplit(split, dev_share, seed)
    if per_entity < 0:
        raise KrisselError(Errors.K006.format(setting="per_entity", found=per_entity, expected="0 or more"))
    settings = {"spans_key": spans_key, "per_entity": per_entity, "surface_forms": surface_forms}
    return partial(open_gold_source, path, ontology, part=part, **settings)


def open_gold_source(path: Path, ontology: Path, **settings) -> GoldSource:
    return GoldSource(OntologyStore(ontology), path, **settings)

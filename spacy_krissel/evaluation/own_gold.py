"""No mention is linked by its own annotation: gold prototypes of evaluated documents are left out."""

import warnings
from contextlib import ExitStack, contextmanager
from typing import Iterator, List, Sequence

from spacy.language import Language

from ..errors import KrisselWarning, Warnings
from ..kb.prototype_kb import PrototypeKB
from ..mentions.gold_mentions import document_id, text_hash
from .gold import GoldDoc


@contextmanager
def without_own_gold(nlp: Language, gold: Sequence[GoldDoc]) -> Iterator[int]:
    """Within, the linkers of `nlp` do without the gold prototypes of the documents in `gold`; how many is given.

    All of a document's prototypes, not only those at the offsets of the mention in question: one sentence further the
    same name stands again. Documents are known by their id and by their text, so that one whose id was lost on the way,
    or is another one, is known too. Warns KW703 when there were any.
    """
    docs = {known for item in gold for known in (document_id(item.doc), text_hash(item.doc))}
    with ExitStack() as stack:
        count = sum(stack.enter_context(kb.without_prototypes(kind="gold", docs=docs)) for kb in _knowledge_bases(nlp))
        if count:
            warnings.warn(Warnings.KW703.format(count=count, n_docs=len(gold)), KrisselWarning, stacklevel=4)
        yield count


def _knowledge_bases(nlp: Language) -> List[PrototypeKB]:
    found = (getattr(pipe, "kb", None) for _, pipe in nlp.pipeline)
    return [kb for kb in found if isinstance(kb, PrototypeKB)]

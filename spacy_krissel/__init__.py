"""Link biomedical mentions to a knowledge base by context and lexical similarity, as a spaCy
component.

The names in `__all__` are the public API. Each is imported on first use, since spaCy imports this
package in every `spacy.blank`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .about import __version__ as __version__

if TYPE_CHECKING:
    from .building.gold_prototypes import add_gold
    from .building.sources import PrototypeSource
    from .commands.build_linker import build
    from .commands.build_prototypes import build_prototypes
    from .commands.link_texts import link
    from .commands.update_linker import update
    from .corpora.convert import convert
    from .errors import KrisselError, KrisselWarning
    from .evaluation.calibrate import calibrate
    from .evaluation.confidence import fit_confidence
    from .evaluation.evaluate import evaluate
    from .kb.prototype_kb import PrototypeKB, add_corrections, add_rejections
    from .mining.mine import mine
    from .ontology.build import build_ontology
    from .ontology.entity import Entity
    from .ontology.store import OntologyStore
    from .pipeline.card import update_card
    from .pipeline.ground import Grounding, ground
    from .pipeline.linker.terms.term import Term
    from .views import View

__all__ = [
    "Entity",
    "Grounding",
    "KrisselError",
    "KrisselWarning",
    "OntologyStore",
    "PrototypeKB",
    "PrototypeSource",
    "Term",
    "View",
    "add_corrections",
    "add_gold",
    "add_rejections",
    "build",
    "build_ontology",
    "build_prototypes",
    "calibrate",
    "convert",
    "evaluate",
    "fit_confidence",
    "ground",
    "link",
    "mine",
    "update",
    "update_card",
]
_MODULES = {
    "Entity": "ontology.entity",
    "Grounding": "pipeline.ground",
    "KrisselError": "errors",
    "KrisselWarning": "errors",
    "OntologyStore": "ontology.store",
    "PrototypeKB": "kb.prototype_kb",
    "PrototypeSource": "building.sources",
    "Term": "pipeline.linker.terms.term",
    "View": "views",
    "add_corrections": "kb.prototype_kb",
    "add_gold": "building.gold_prototypes",
    "add_rejections": "kb.prototype_kb",
    "build": "commands.build_linker",
    "build_ontology": "ontology.build",
    "build_prototypes": "commands.build_prototypes",
    "calibrate": "evaluation.calibrate",
    "convert": "corpora.convert",
    "evaluate": "evaluation.evaluate",
    "fit_confidence": "evaluation.confidence",
    "ground": "pipeline.ground",
    "link": "commands.link_texts",
    "mine": "mining.mine",
    "update": "commands.update_linker",
    "update_card": "pipeline.card",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(f".{_MODULES[name]}", __name__), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

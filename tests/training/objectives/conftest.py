import numpy as np
import pytest
from thinc.api import Adam

from spacy_krissel.views import View, name_view


@pytest.fixture(scope="session")
def views():
    """Eight views of four entities, pairs adjacent."""
    return [
        View("relapses of ", "multiple sclerosis", " in a patient"),
        View("the patient had ", "ms", " with fever"),
        View("the ", "common cold", " was caught"),
        name_view("acute coryza"),
        View("", "lung injury", " of a patient in acute care, with fever and a cold"),
        View("acute ", "injury of the lung", "", masked=True),
        name_view("discharge"),
        View("a discharge from hospital, that is ", "the discharge", " of a patient"),
    ]


@pytest.fixture(scope="session")
def take_step():
    """Updates a copy of a model with what `accumulate` leaves in it. RETURNS: its weights before
    and after, by name.

    With an eps far above any gradient, Adam's first step goes along the gradient itself, so that
    two steps are equal only where the gradients are.
    """

    def weights(model):
        found = {}
        for i, node in enumerate(model.walk()):
            for name in node.param_names:
                found[f"{i} {name}"] = node.get_param(name).copy()
            for shim in node.shims:
                if hasattr(shim, "table"):
                    found[f"{i} table"] = shim.table.copy()
                else:
                    state = shim.transformer.state_dict()
                    found.update(
                        {f"{i} {name}": value.numpy().copy() for name, value in state.items()}
                    )
        return found

    def step(model, accumulate):
        model = model.copy()
        before = weights(model)
        accumulate(model)
        model.finish_update(Adam(1e6, L2=0.0, grad_clip=0.0, eps=1e5, use_averages=False))
        return before, weights(model)

    return step


@pytest.fixture(scope="session")
def small_encoder(views):
    """A small encoder with no weight at zero, as it is after some training."""
    from spacy_krissel.layers.small import SmallEncoder

    model = SmallEncoder(width=6, rows=512, context_rows=256, hidden=5)
    model.initialize(X=views)
    random = np.random.default_rng(0)
    for node in model.walk():
        for name in node.param_names:
            shape = node.get_param(name).shape
            node.set_param(name, random.normal(scale=0.5, size=shape).astype("float32"))
    return model

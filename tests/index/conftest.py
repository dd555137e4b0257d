import numpy as np
import pytest


@pytest.fixture(scope="session")
def clustered():
    """Makes unit vectors (n, width) float32 in clusters of ten, as the prototypes of entities
    are."""

    def make(n, width):
        rng = np.random.default_rng(0)
        centres = rng.standard_normal((n // 10, width))
        points = centres[np.arange(n) % (n // 10)] + 0.3 * rng.standard_normal((n, width))
        return (points / np.linalg.norm(points, axis=1, keepdims=True)).astype(np.float32)

    return make

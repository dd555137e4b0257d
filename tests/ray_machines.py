"""Two machines of a Ray cluster, with a processor each, as two sets of processes on this one."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def two_machines() -> Iterator[tuple[Any, Callable[[], None]]]:
    """The module `ray`, connected to them, and a function that ends all processes of the second
    one."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    import ray
    from ray.cluster_utils import Cluster

    cluster = Cluster(
        initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False}
    )
    try:
        second = cluster.add_node(num_cpus=1)
        ray.init(address=cluster.address, log_to_driver=False)
        yield ray, lambda: cluster.remove_node(second, allow_graceful=False)
    finally:
        ray.shutdown()
        cluster.shutdown()

"""Hashed embedding bags, whose table is updated only in the rows used by a batch."""

import warnings
from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np
import srsly
from thinc.api import Model, Ops, get_array_module, get_current_ops, torch2xp, xp2torch
from thinc.model import Shim
from thinc.types import Floats2d

from ..distributed.processes import sum_over_processes
from ..errors import Errors, KrisselError, KrisselWarning, Warnings
from .features import Bags, WordBags

NAME = "hashed_bags"
# Maximum of a signed byte.
MAX_STEP = 127


class HashedTable(Shim):
    """The table, with Adam applied only to the rows with a gradient.

    A dense optimizer would visit all 2^17 rows for the few thousand of a batch. It is a shim, since
    thinc updates its own parameters whole. torch's `EmbeddingBag(sparse=True)` with `SparseAdam`
    takes 1.3 times as long (benchmarks/small_encoder_parts.py), and has neither L2 nor gradient
    clipping.
    """

    def __init__(self, rows: int, width: int) -> None:
        super().__init__(None, None, None)
        self.rows = rows
        self.width = width
        self._set(None)
        self._gradients: list[tuple[np.ndarray, np.ndarray]] = []
        self._warned = False

    def _set(self, table: np.ndarray | None, steps: np.ndarray | None = None) -> None:
        self.table = table
        # Distance between the values of each row of a rounded table (rows, 1).
        self._rounded_to = steps
        self._moments: tuple[np.ndarray, np.ndarray] | None = None
        self._steps = 0

    def initialize(self, seed: int, scale: np.ndarray | None = None) -> None:
        """Fill the table with normal noise, rows of length about 1.

        scale: (rows,) factors, if given.
        """
        random = np.random.default_rng(seed)
        table = random.standard_normal((self.rows, self.width), dtype=np.float32) / np.float32(
            np.sqrt(self.width)
        )
        if scale is not None:
            table *= scale[:, None].astype(np.float32)
        self._set(cast(Any, get_current_ops()).asarray(table))

    def round(self) -> None:
        """Round each row to 255 values, so that the table is saved in a quarter of the bytes.

        Training ends this.
        """
        table = self._on_cpu()
        assert table is not None
        steps = np.abs(table).max(axis=1, keepdims=True) / np.float32(MAX_STEP)
        steps[steps == 0] = 1
        self._set(cast(Any, get_current_ops()).asarray(np.rint(table / steps) * steps), steps)

    def accumulate(self, rows: np.ndarray, gradient: np.ndarray) -> None:
        """Accumulate the gradient (n, width) of distinct `rows` (n,) for the next update."""
        self._gradients.append((rows, gradient))

    def squared_gradient(self) -> Any:
        """Return the sum of squares of the accumulated gradient, on the device."""
        return (self._summed()[1] ** 2).sum() if self._gradients else 0.0

    def scale_gradients(self, factor: Any) -> None:
        self._gradients = [(rows, factor * gradient) for rows, gradient in self._gradients]

    def _summed(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the distinct rows with a gradient, and their gradients."""
        if len(self._gradients) == 1:
            return self._gradients[0]
        xp = get_array_module(self.table)
        rows, inverse = xp.unique(
            xp.concatenate([rows for rows, _ in self._gradients]), return_inverse=True
        )
        gradient = xp.zeros((len(rows), self.width), dtype="f")
        ops = get_current_ops()
        ops.scatter_add(
            gradient, inverse.reshape(-1), xp.concatenate([g for _, g in self._gradients])
        )
        return rows, gradient

    def sum_gradients(self) -> None:
        """Replace the accumulated gradient by its sum over all processes."""
        assert self.table is not None
        xp = get_array_module(self.table)
        rows, gradient = (
            self._summed() if self._gradients else (xp.zeros(0, dtype="int64"), self.table[:0])
        )
        # One more for the number of passes: a pass without rows is a step too.
        touched = xp.zeros(self.rows + 1, dtype="int32")
        touched[rows] = 1
        touched[-1] = len(self._gradients)
        sum_over_processes([touched])
        (everywhere,) = xp.nonzero(touched[:-1])
        whole = xp.zeros((len(everywhere), self.width), dtype="f")
        whole[xp.searchsorted(everywhere, rows)] = gradient
        sum_over_processes([whole])
        self._gradients = [(everywhere, whole)] if touched[-1] else []

    def finish_update(self, optimizer: Any) -> None:
        """Apply the accumulated gradient with the settings of a thinc Adam.

        L2 applies only to the rows of this update. Raises KrisselError K409 for another kind of
        optimizer; warns KW401 if it averages weights, since the table has no averages.
        """
        if not self._gradients:
            return
        assert self.table is not None
        self._check(optimizer)
        self._rounded_to = None
        xp = get_array_module(self.table)
        rows, gradient = self._summed()
        self._gradients = []
        if optimizer.L2 and not optimizer.L2_is_weight_decay:
            gradient = gradient + float(optimizer.L2) * self.table[rows]
        if optimizer.grad_clip:
            # Kept on the device: the host would wait for a GPU.
            norm = xp.linalg.norm(gradient)
            gradient = gradient * (optimizer.grad_clip / xp.maximum(norm, optimizer.grad_clip))
        if self._moments is None:
            self._moments = (xp.zeros_like(self.table), xp.zeros_like(self.table))
        first, second = self._moments
        self._steps += 1
        b1, b2 = float(optimizer.b1), float(optimizer.b2)
        m = first[rows]
        m *= b1
        m += (1 - b1) * gradient
        first[rows] = m
        v = second[rows]
        v *= b2
        v += (1 - b2) * gradient * gradient
        second[rows] = v
        learn_rate = float(optimizer.learn_rate)
        rate = learn_rate * np.sqrt(1 - b2**self._steps) / (1 - b1**self._steps)
        xp.sqrt(v, out=v)
        v += float(optimizer.eps)
        m /= v
        m *= rate
        self.table[rows] -= m
        if optimizer.L2 and optimizer.L2_is_weight_decay:
            self.table[rows] *= 1 - learn_rate * float(optimizer.L2)

    def _check(self, optimizer: Any) -> None:
        if optimizer.use_radam or not (optimizer.b1 > 0 and optimizer.b2 > 0):
            found = (
                "RAdam"
                if optimizer.use_radam
                else f"beta1 = {optimizer.b1}, beta2 = {optimizer.b2}"
            )
            raise KrisselError(Errors.K409.format(found=found))
        if optimizer.averages is not None and not self._warned:
            self._warned = True
            warnings.warn(Warnings.KW401, KrisselWarning, stacklevel=2)

    def to_device(self, device_type: str, device_id: int) -> None:
        table = self._on_cpu()
        if table is not None and device_type == "gpu":
            import cupy

            table = cupy.asarray(table)
        self._set(table, self._rounded_to)

    def _on_cpu(self) -> np.ndarray | None:
        table: Any = self.table
        return table if table is None or isinstance(table, np.ndarray) else table.get()

    def to_bytes(self) -> bytes:
        table, steps = self._on_cpu(), self._rounded_to
        message: dict[str, Any] = {"rows": self.rows, "width": self.width}
        if table is None or steps is None:
            message["table"] = None if table is None else np.ascontiguousarray(table).tobytes()
        else:
            message["table"] = np.rint(table / steps).astype(np.int8).tobytes()
            message["steps"] = steps.tobytes()
        return srsly.msgpack_dumps(message)

    def from_bytes(self, bytes_data: bytes) -> "HashedTable":
        """Load the table. Raises KrisselError K408 if its size differs, since features would get
        wrong rows.
        """
        message = srsly.msgpack_loads(bytes_data)
        found = (message["rows"], message["width"])
        if found != (self.rows, self.width):
            raise KrisselError(Errors.K408.format(found=found, expected=(self.rows, self.width)))
        table, steps = self.table, None
        if message["table"] is not None:
            read: Any = np.frombuffer(
                message["table"], dtype=np.int8 if "steps" in message else np.float32
            )
            read = read.reshape(self.rows, self.width)
            if "steps" in message:
                steps = np.frombuffer(message["steps"], dtype=np.float32).reshape(self.rows, 1)
            table = cast(Any, get_current_ops()).asarray(
                read.copy() if steps is None else read * steps
            )
        self._set(table, steps)
        self._gradients = []
        return self


def round_tables(model: Model[Any, Any]) -> None:
    """Round every hashed table of a model (`HashedTable.round`), leaving other layers unchanged."""
    for node in model.walk():
        for shim in node.shims:
            if isinstance(shim, HashedTable):
                shim.round()


def average_weights(models: Sequence[Model[Any, Any]], weights: Sequence[float]) -> None:
    """Give the first of several models of the same sizes the weighted mean of all of them.

    A model that is averaged with its start forgets less of it (Wortsman et al. 2022).
    """
    for i, (model, weight) in enumerate(zip(models, weights, strict=True)):
        for node, other in zip(models[0].walk(), model.walk(), strict=True):
            for table, theirs in zip(_tables(node), _tables(other), strict=True):
                table[:] = weight * theirs + (table if i else 0)
            for name in filter(node.has_param, node.param_names):
                theirs = weight * other.get_param(name)
                node.set_param(name, theirs + (node.get_param(name) if i else 0))


def _tables(node: Model[Any, Any]) -> list[np.ndarray]:
    shims = (shim for shim in node.shims if isinstance(shim, HashedTable))
    return [shim.table for shim in shims if shim.table is not None]


def HashedBags(
    rows: int,
    width: int,
    features: Callable[..., Bags],
    by_words: Callable[..., WordBags] | None = None,
    *,
    seed: int = 0,
) -> Model[Any, Floats2d]:
    """Return a layer for the mean of the table rows of each bag: n views to (n, width).

    An empty bag gives zeros.

    features: views → `Bags` over rows of the table (a function that can be pickled).
    by_words: views → the same as `WordBags`, for predictions.
    """
    attrs: dict[str, Any] = {"features": features, "seed": seed, "dropout_rate": 0.0}
    if by_words is not None:
        # Set only if given: None would be saved, and change the fingerprint.
        attrs["by_words"] = by_words
    return Model(
        NAME,
        _forward,
        init=_init,
        dims={"nO": width},
        attrs=attrs,
        shims=[HashedTable(rows, width)],
    )


def _init(model: Model[Any, Any], X: Any = None, Y: Any = None) -> Model[Any, Any]:
    shim = cast(HashedTable, model.shims[0])
    scale = None
    if X:
        # Rare features are more informative: start with IDF weights.
        bags = model.attrs["features"](X)
        documents = np.bincount(
            np.unique(bags.rows * np.int64(len(X)) + bags.bags) // len(X), minlength=shim.rows
        )
        scale = 1.0 + np.log((1.0 + len(X)) / (1.0 + documents))
        scale /= scale.max()
    shim.initialize(model.attrs["seed"], scale)
    return model


def _forward(model: Model[Any, Any], X: Any, is_train: bool) -> tuple[Floats2d, Callable[..., Any]]:
    shim = cast(HashedTable, model.shims[0])
    by_words = None if is_train else model.attrs.get("by_words")
    if by_words is not None and len(X):
        # Nothing asks for this gradient; with dropout it is that of another pass.
        return _word_means(model.ops, shim.table, by_words(X)), lambda dY: _forward(model, X, True)[
            1
        ](dY)
    bags = model.attrs["features"](X)
    rate = model.attrs["dropout_rate"]
    if is_train and rate:
        # Dropout of features; the mean over the rest needs no rescaling.
        kept = np.random.random(len(bags.rows)) >= rate
        bags = Bags(bags.rows[kept], bags.bags[kept])
    if (bags.bags[1:] < bags.bags[:-1]).any():
        # Stable, so that the order of a bag's features does not depend on the batch.
        order = np.argsort(bags.bags, kind="stable")
        bags = Bags(bags.rows[order], bags.bags[order])
    counts = np.bincount(bags.bags, minlength=len(X))
    Y = _means(model.ops, shim.table, bags.rows, counts)

    def backprop(dY: Floats2d) -> list[Any]:
        shim.accumulate(*_row_gradients(model.ops, bags, counts, dY))
        return []

    return Y, backprop


def _means(ops: Ops, table: Any, rows: np.ndarray, counts: np.ndarray) -> Floats2d:
    """Return the means of `counts[i]` consecutive `rows`, zeros for none: (len(counts), width)."""
    return cast(Floats2d, torch2xp(_of_bags(xp2torch(table), rows, counts, "mean"), ops=ops))


def _word_means(ops: Ops, table: Any, bags: WordBags) -> Floats2d:
    """Return the means of the rows of the words of each text, zeros for none: (n, width)."""
    import torch

    words = _of_bags(xp2torch(table), bags.rows, bags.n_rows, "sum")
    texts = _of_bags(words, bags.words, bags.n_words, "sum")
    # Number of rows of the texts.
    before = np.concatenate(([0], np.cumsum(bags.n_rows[bags.words])))
    ends = np.cumsum(bags.n_words)
    counts = before[ends] - before[ends - bags.n_words]
    texts /= torch.from_numpy(np.maximum(counts, 1)).to(texts)[:, None]
    return cast(Floats2d, torch2xp(texts, ops=ops))


def _of_bags(table: Any, rows: np.ndarray, counts: np.ndarray, mode: str) -> Any:
    """Return the sums or means of `counts[i]` consecutive `rows` of a tensor.

    torch's kernel is ten times as fast here as a sparse matrix product, and uses all cores.
    """
    import torch

    # In one copy to a GPU.
    both = torch.from_numpy(np.concatenate((rows, np.cumsum(counts) - counts))).to(table.device)
    with torch.no_grad():
        return torch.nn.functional.embedding_bag(
            both[: len(rows)], table, both[len(rows) :], mode=mode
        )


def _row_gradients(ops: Ops, bags: Bags, counts: np.ndarray, dY: Any) -> tuple[Any, Any]:
    """Return the distinct rows of the bags, and their gradients.

    counts: (n,) the number of rows in each bag; the rows of a bag are consecutive.
    dY: (n, width) the gradient of the bags' means.
    """
    rows, inverse = np.unique(bags.rows, return_inverse=True)
    inverse = inverse.reshape(-1)
    if isinstance(dY, np.ndarray):
        from scipy import sparse

        starts = np.concatenate(([0], np.cumsum(counts)))
        values = np.repeat((1.0 / np.maximum(counts, 1)).astype(np.float32), counts)
        means = sparse.csr_matrix((values, inverse, starts), shape=(len(counts), len(rows)))
        return rows, means.T @ dY
    # CuPy's sparse product waits for the device. Here there is one copy, and no wait.
    packed = cast(Any, ops).asarray(
        np.concatenate((rows, inverse, bags.bags, np.maximum(counts, 1)))
    )
    n, m = len(rows), len(inverse)
    weighted = dY / packed[n + 2 * m :, None].astype("float32")
    gradient = ops.alloc2f(n, dY.shape[1])
    ops.scatter_add(gradient, packed[n : n + m], weighted[packed[n + m : n + 2 * m]])
    return packed[:n], gradient

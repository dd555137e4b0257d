"""Operations on arrays and models in processes that train together."""

import random
import sys

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from thinc.api import Linear, Model, chain

from spacy_krissel.distributed import processes
from spacy_krissel.distributed.processes import (
    all_equal,
    begin_shared,
    broadcast_from_rank_zero,
    local_gpu,
    make_shared,
    n_processes,
    per_process_draws,
    process_group,
    process_rank,
    sum_gradients,
    sum_over_processes,
)
from spacy_krissel.errors import KrisselError
from spacy_krissel.layers.hashed_bags import HashedTable

SIZES = [5, 1, 9, 2, 2, 7, 3]


def share(sizes, rows):
    """Items that make rows of their numbers; the gradient of the whole array is its own rows'
    numbers."""
    asked, learnt = [], []

    def begin(own):
        asked.extend(own)
        numbers = np.array([[row] for i in own for row in (rows[i] if rows else [i])], dtype="f")
        return numbers.reshape(-1, 1) * 10, learnt.append

    whole, backprop = begin_shared(begin, sizes, rows)
    backprop(whole / 10)
    return asked, whole, learnt[0]


@pytest.mark.slow
def test_a_batch_is_divided_by_size(two_processes):
    first, second = two_processes(share, SIZES, None)
    # From the largest down: 9, 5, 2, 1 and 7, 3, 2.
    assert first[0] == [2, 0, 3, 1] and second[0] == [5, 6, 4]
    for asked, whole, learnt in (first, second):
        assert_array_equal(whole[:, 0], 10 * np.arange(7))
        assert_array_equal(learnt[:, 0], asked)


@pytest.mark.slow
def test_items_of_several_rows_are_kept_together(two_processes):
    rows = [[3, 0], [], [1], [2, 5, 4]]
    found = two_processes(share, [1, 1, 1, 1], rows)
    assert [asked for asked, *_ in found] == [[0, 2], [1, 3]]
    for asked, whole, learnt in found:
        assert_array_equal(whole[:, 0], 10 * np.arange(6))
        assert_array_equal(learnt[:, 0], [row for i in asked for row in rows[i]])


@pytest.mark.slow
def test_a_process_without_items_has_zero_gradients(two_processes):
    """The second process reads the one item too, and nothing of it counts."""
    first, second = two_processes(share, [4], None)
    for _, whole, _ in (first, second):
        assert_array_equal(whole, [[0]])
    first, second = two_processes(share, [4], [[0, 1]])
    for _, whole, _ in (first, second):
        assert_array_equal(whole, [[0], [10]])
    assert_array_equal(first[2], [[0], [1]])
    assert_array_equal(second[2], [[0], [0]])


def nothing():
    return begin_shared(lambda own: (np.zeros((len(own), 2)), "backprop"), [])[1]


@pytest.mark.slow
def test_an_empty_batch_works_in_every_process(two_processes):
    assert two_processes(nothing) == ["backprop"] * 2 and nothing() == "backprop"


def test_a_single_process_does_all_work():
    assert n_processes() == 1 and process_rank() == 0
    asked, whole, learnt = share(SIZES, None)
    assert asked == list(range(7))
    assert_array_equal(learnt, whole / 10)
    assert all_equal(1) and broadcast_from_rank_zero(lambda: "made") == "made"
    with process_group(-1, timeout=1):
        assert n_processes() == 1


def made():
    return make_shared(
        lambda own: np.array([[10 * i, process_rank()] for i in own]), [[1], [0], [2]]
    )


@pytest.mark.slow
def test_rows_made_by_one_process_are_gathered_in_all(two_processes):
    for found in two_processes(made):
        assert_array_equal(found, [[10, 1], [0, 0], [20, 0]])


def other_batch():
    return share([1, 2, 3 + process_rank()], None)


@pytest.mark.slow
def test_different_batches_per_process_raise(two_processes):
    assert all("[K021]" in found for found in two_processes(other_batch))


def draws():
    random.seed(1)
    np.random.seed(1)
    import torch

    torch.manual_seed(1)

    def draw():
        return random.random(), np.random.random(), float(torch.rand(()))

    before = draw()
    with per_process_draws():
        own = draw()
        if process_rank():
            draw()
    with per_process_draws():
        again = draw()
    return before, own, again, draw()


@pytest.mark.slow
def test_processes_draw_different_numbers_and_shuffle_the_same_way(two_processes):
    (before, own, again, after), (other_before, other_own, _, other_after) = two_processes(draws)
    assert before == other_before and after == other_after
    assert all(mine != others for mine, others in zip(own, other_own, strict=True))
    assert all(mine != next_one for mine, next_one in zip(own, again, strict=True))
    # What is shuffled with Python's `random` is what one process would have.
    random.seed(1)
    random.random()
    assert after[0] == random.random()


def only_the_first():
    return broadcast_from_rank_zero(lambda: {"score": 0.5, "by": process_rank()})


@pytest.mark.slow
def test_only_the_first_process_computes_scores(two_processes):
    assert two_processes(only_the_first) == [{"score": 0.5, "by": 0}] * 2


def one_ends():
    if process_rank():
        raise KrisselError("a mistake")
    return all_equal(1)


@pytest.mark.slow
def test_a_process_that_ends_raises_in_the_others(two_processes):
    first, second = two_processes(one_ends)
    assert "[K020]" in first and "Process 0 of 2" in first and second == "a mistake"


def one_stands_still():
    import time

    if process_rank():
        time.sleep(2)
        return "late"
    return all_equal(1)


@pytest.mark.slow
def test_a_process_that_hangs_raises_in_the_others(two_processes):
    first, second = two_processes(one_stands_still, timeout=1 / 60)
    assert "[K020]" in first and second == "late"


def model_gradients(held):
    """held: of each weight of a thinc layer, a torch layer and a table, the gradient in both
    processes, or None."""
    import torch
    from thinc.api import PyTorchWrapper

    linear = Linear(2, 2)
    linear.initialize()
    torch_layer = torch.nn.Linear(2, 3)
    table = HashedTable(6, 2)
    table.initialize(0)
    bags = Model("table", lambda model, X, is_train: (X, lambda dX: dX), shims=[table])
    model = chain(linear, PyTorchWrapper(torch_layer), bags)
    own = held[process_rank()]
    if own["b"] is not None:
        linear.set_grad("b", np.full(2, own["b"], dtype="f"))
    if own["weight"] is not None:
        torch_layer.weight.grad = torch.full((3, 2), own["weight"])
    for rows in own["rows"]:
        table.accumulate(np.array(rows), np.array([[row, 1] for row in rows], dtype="f"))
    sum_gradients(model)
    found = table._summed() if table._gradients else None
    return {
        "W": linear.maybe_get_grad("W"),
        "b": linear.maybe_get_grad("b"),
        "weight": None if torch_layer.weight.grad is None else torch_layer.weight.grad.numpy(),
        "bias": torch_layer.bias.grad,
        "rows": found,
    }


@pytest.mark.slow
def test_gradients_are_summed(two_processes):
    held = [
        {"b": 1.0, "weight": 2.0, "rows": [[1, 4], [4, 5]]},
        {"b": 10.0, "weight": 20.0, "rows": [[0, 4]]},
    ]
    for found in two_processes(model_gradients, held):
        assert_array_equal(found["b"], [11, 11])
        assert_array_equal(found["weight"], np.full((3, 2), 22))
        rows, gradient = found["rows"]
        assert rows.tolist() == [0, 1, 4, 5]
        assert gradient.tolist() == [[0, 1], [1, 1], [12, 3], [5, 1]]
        # Without one in any process: its moments do not age.
        assert found["W"] is None and found["bias"] is None


@pytest.mark.slow
def test_gradients_of_only_one_process_are_summed(two_processes):
    held = [{"b": None, "weight": 2.0, "rows": []}, {"b": 10.0, "weight": None, "rows": [[3]]}]
    for found in two_processes(model_gradients, held):
        assert_array_equal(found["b"], [10, 10])
        assert_array_equal(found["weight"], np.full((3, 2), 2))
        assert found["rows"][0].tolist() == [3] and found["rows"][1].tolist() == [[3, 1]]
    held = [{"b": None, "weight": None, "rows": []}] * 2
    assert (
        two_processes(model_gradients, held)
        == [dict.fromkeys(("W", "b", "weight", "bias", "rows"))] * 2
    )


def test_each_local_process_gets_its_own_gpu(monkeypatch):
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 3)
    assert local_gpu(0) == 0 and local_gpu(7) == 7 and local_gpu(-1) == -1
    for name, value in {"WORLD_SIZE": "4", "RANK": "3", "LOCAL_RANK": "1"}.items():
        monkeypatch.setenv(name, value)
    assert local_gpu(0) == 1 and local_gpu(1) == 2 and local_gpu(-1) == -1
    with pytest.raises(KrisselError, match=r"K022.*process 3 is to use GPU 3, and torch finds 3"):
        local_gpu(2)


def test_an_incomplete_launcher_environment_raises(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    for name in ("RANK", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(KrisselError, match="K022.*RANK"), process_group(-1, timeout=1):
        pass


def test_torch_distributed_is_not_imported_in_a_single_process(monkeypatch):
    monkeypatch.delitem(sys.modules, "torch.distributed", raising=False)
    assert processes.n_processes() == 1 and "torch.distributed" not in sys.modules


def summed():
    array, number = np.arange(3.0) + process_rank(), np.array([1])
    sum_over_processes([array, number])
    return array, number


@pytest.mark.slow
def test_arrays_are_summed_over_processes(two_processes):
    for array, number in two_processes(summed):
        assert array.tolist() == [1, 3, 5] and number.tolist() == [2]

"""Expressions about arrays, and what CuPy does with each: an error, or copies and waits.

`a` is an array of four floats on the device, `i` of three integers, `m` a mask of four; `n` is a
NumPy array of four floats, `k` of two integers. `t` is `a` as torch's tensor.
"""

RULES: dict[str, str] = {
    # Operands are the device's or scalars.
    "a + a * 2.0": "",
    "numpy.float32(2) * a": "",
    "a + n": "TypeError",
    "n + a": "TypeError",
    "cupy.add(a, n)": "TypeError",
    "cupy.where(m, a, n)": "TypeError",
    "cupy.concatenate([a, n])": "TypeError",
    "cupy.maximum(a, [1.0])": "TypeError",
    "cupy.sum(n)": "TypeError",
    "a.dot(n)": "TypeError",
    # NumPy's functions of an array are CuPy's.
    "type(numpy.exp(a)) is cupy.ndarray": "",
    "type(numpy.concatenate([a, a])) is cupy.ndarray": "",
    "numpy.linalg.norm(a)": "",
    # To the host: by `get` alone, which waits, or a value at a time.
    "numpy.asarray(a)": "TypeError",
    "numpy.array([a[0], a[1]])": "TypeError",
    "a.get()": "to_host",
    "cupy.asnumpy(a)": "to_host",
    "float(a.sum())": "waits",
    "int(i[0])": "waits",
    "bool(m.any())": "waits",
    "a.tolist()": "waits",
    "a[0].item()": "waits",
    "[each for each in a]": "",
    "len(a)": "",
    # To the device: whatever is made of host data, indices too.
    "cupy.asarray(n)": "to_device",
    "cupy.array([1, 2])": "to_device",
    "cupy.asarray(a)": "",
    "cupy.array([a, a])": "",
    "cupy.zeros(3), cupy.arange(3), cupy.full(2, 1.0)": "",
    "cupy.asarray(['text'])": "ValueError",
    "cupy.asarray([object()])": "ValueError",
    "a[[0, 1]]": "to_device",
    "a[k]": "to_device",
    "a[i]": "",
    "a[1:3], a[0], a[None], a[...]": "",
    "a[n]": "IndexError to_device",
    "a.__setitem__(slice(2), n[:2])": "TypeError",
    "a.__setitem__(slice(2), 1.0)": "",
    "a.__setitem__(i, n[:3])": "to_device",
    "cupy.add.at(a, [0, 0], a[:2])": "to_device",
    "cupyx.scatter_add(i, i, i)": "TypeError",
    # A result as long as its values say is waited for.
    "a[m]": "waits",
    "a.__setitem__(m, 0.0)": "to_device waits",
    "cupy.nonzero(a)": "waits",
    "cupy.where(m)": "waits",
    "cupy.unique(i)": "waits",
    "cupy.bincount(i)": "waits waits",
    "cupy.searchsorted(a, a)": "",
    "cupy.split(a, [1, 3])": "",
    # Names that CuPy has not.
    "cupy.vectorised": "AttributeError",
    "cupy.char": "AttributeError",
    "cupy.add.accumulate": "AttributeError",
    # torch's tensors share the memory, and are the device's.
    "(t.mul_(2.0), float(a[0]))[1] == 2.0": "waits",
    "type(torch2xp(t)) is cupy.ndarray": "",
    "torch2xp(t.view(2, 2)).__iadd__(1.0)": "",
    "t.cpu()": "to_host",
    "float(t.sum())": "waits",
    "t.tolist()": "waits",
    "t[t > 0]": "waits",
    "t.nonzero()": "waits",
    "torch.from_numpy(n)": "",
    "torch.from_numpy(n).to(t.device)": "to_device",
    "torch.from_numpy(n).to(t.device) + t": "to_device",
    "torch.from_numpy(n).pin_memory": "",
    "torch.from_numpy(n).float().numpy()": "",
    "torch.tensor([1], device=t.device)": "to_device",
    "t + torch.from_numpy(n)": "RuntimeError",
    "t[torch.from_numpy(k)]": "to_device",
}


def outcomes() -> dict[str, str]:
    """Return what the stand-ins do with each expression, in the words of `RULES`."""
    import cupy
    import cupyx
    import numpy
    import torch
    from thinc.api import torch2xp, xp2torch
    from traffic import KINDS, counted, totals

    found = {}
    for rule in RULES:
        a = cupy.ones(4, dtype="float32")
        names = {
            "a": a,
            "i": cupy.arange(3),
            "m": a > 0,
            "n": numpy.ones(4, dtype="float32"),
            "k": numpy.array([0, 1]),
            "t": xp2torch(a),
            **{"cupy": cupy, "cupyx": cupyx, "numpy": numpy, "torch": torch, "torch2xp": torch2xp},
        }
        words = []
        with counted() as events:
            try:
                if eval(rule, names) is False:
                    words.append("False")
            except Exception as error:
                words.append(type(error).__name__)
        numbers = totals(events)
        found[rule] = " ".join(words + [kind for kind in KINDS for _ in range(numbers[kind])])
    return found

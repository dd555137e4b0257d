"""The cells of a record batch, read straight from its buffers: several times as fast as by pyarrow's scalars."""

from typing import Any, Dict, Tuple

import pyarrow as pa


class TextCells:
    """A column of texts without nulls; indexed by place in the batch."""

    __slots__ = ("_data", "_ends")

    def __init__(self, array: pa.StringArray) -> None:
        _, ends, data = array.buffers()
        self._ends, self._data = _ends(ends), _bytes(data)

    def __getitem__(self, i: int) -> str:
        return str(self._data[self._ends[i] : self._ends[i + 1]], "utf8")


class ListCells:
    """A column of lists of texts, without nulls."""

    __slots__ = ("_ends", "_items")

    def __init__(self, array: pa.ListArray) -> None:
        self._ends = _ends(array.buffers()[1])
        self._items = TextCells(array.values)

    def __getitem__(self, i: int) -> Tuple[str, ...]:
        start, end = self._ends[i], self._ends[i + 1]
        return tuple([self._items[item] for item in range(start, end)]) if end > start else ()

    def item(self, i: int, place: int) -> str:
        """One of the texts of a list. Raises IndexError when there is no such place."""
        start, end = self._ends[i], self._ends[i + 1]
        if not 0 <= place < end - start:
            raise IndexError(place)
        return self._items[start + place]


def cells_of(batch: pa.RecordBatch) -> Dict[str, Any]:
    """The cells of each column, by its name."""
    kinds = {
        name: ListCells if pa.types.is_list(batch.schema.field(name).type) else TextCells for name in batch.schema.names
    }
    return {name: kind(batch.column(name)) for name, kind in kinds.items()}


def _ends(buffer: pa.Buffer) -> Any:
    return memoryview(buffer).cast("i") if buffer is not None and buffer.size else memoryview(bytes(4)).cast("i")


def _bytes(buffer: pa.Buffer) -> Any:
    return memoryview(buffer if buffer is not None else b"")

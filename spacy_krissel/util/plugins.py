"""Parts by name, of this package and of other distributions."""

import warnings
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Any, TypeVar

from ..errors import Errors, KrisselError, KrisselWarning, Warnings

Part = TypeVar("Part")


class Registry(Mapping[str, Part]):
    """Parts by name: the built-in ones, then those that other distributions add by entry points of
    a group.

    Entry points are looked up for a name that is not built in, and for a list of all names. The
    module of a plugin is imported when the plugin is asked for, and so is that of a built-in part
    given as "module:name". part: type of all parts.

    Raises KrisselError K061 for a plugin that cannot be imported, is of another type, or shares its
    name with another plugin. Warns KW035 where such a plugin, or one with the name of a built-in
    part, is left out of a list.
    """

    def __init__(
        self, group: str, built_in: Mapping[str, Part | str], part: Any = Callable
    ) -> None:
        self._group, self.built_in, self._part = group, built_in, part

    def __getitem__(self, name: str) -> Part:
        if name in self.built_in:
            own = self.built_in[name]
            part: Part = EntryPoint(name, own, self._group).load() if isinstance(own, str) else own
            return part
        points = [each for each in self._points() if each.name == name]
        if not points:
            raise KeyError(name)
        point = points[0]
        if len(points) > 1:
            raise self._refusal(
                point, f"'{_distribution(points[1])}' has a plugin of this name, too"
            )
        try:
            part = point.load()
        # Whatever the module of another distribution raises.
        except Exception as error:
            raise self._refusal(point, f"{type(error).__name__}: {error}") from error
        if not isinstance(part, self._part):
            raise self._refusal(point, f"{point.value} is of the type {type(part).__name__}")
        return part

    def __iter__(self) -> Iterator[str]:
        yield from self.built_in
        for name, point in {each.name: each for each in self._points()}.items():
            if name in self.built_in:
                _warn(self._refusal(point, "it has the name of a built-in part"))
            else:
                yield name

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def loaded(self) -> Iterator[tuple[str, Part]]:
        """Yield all parts with their names, without plugins that cannot be used."""
        for name in self:
            try:
                yield name, self[name]
            except KrisselError as error:
                _warn(error)

    def _points(self) -> list[EntryPoint]:
        return sorted(
            entry_points(group=self._group), key=lambda each: (each.name, _distribution(each))
        )

    def _refusal(self, point: EntryPoint, problem: str) -> KrisselError:
        facts = {"name": point.name, "group": self._group, "distribution": _distribution(point)}
        return KrisselError(Errors.K061.format(problem=problem, **facts))


def _warn(refusal: KrisselError) -> None:
    warnings.warn(Warnings.KW035.format(problem=refusal), KrisselWarning, stacklevel=3)


def _distribution(point: EntryPoint) -> str:
    # Damaged metadata have no name.
    return (point.dist and point.dist.name) or point.value

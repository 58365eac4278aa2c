"""What other packages contribute through their entry points."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

T = TypeVar("T")


def brought(
    group: str, noun: str, load: Callable[[EntryPoint], tuple[str, T]], own: Iterable[str]
) -> tuple[Mapping[str, T], Sequence[str]]:
    """What other packages contribute to ``group``, by key, and a sentence for each one that is left out.

    ``load`` returns the key and the object of an entry point, and may raise anything. ``own`` has Weir's own
    keys, and ``noun`` is the word for a contribution in messages: ``study``.
    """
    # Importing it takes as long as everything else that a quick command imports.
    from importlib.metadata import entry_points

    found: dict[str, T] = {}
    owners = dict.fromkeys(own, "Weir")
    problems: list[str] = []
    # A package that is on the path twice lists its entry points twice.
    for point in dict.fromkeys(entry_points(group=group)):
        package = point.dist.name if point.dist is not None else point.value
        try:
            key, thing = load(point)
        except Exception as error:
            problems.append(
                f"the {noun} {point.name} of {package} cannot be loaded: {type(error).__name__}: {error}"
            )
            continue
        if key in owners:
            problems.append(
                f"the {noun} {point.name} of {package} is left out: {owners[key]} has one called {key!r}"
            )
            continue
        found[key], owners[key] = thing, package
    return found, problems

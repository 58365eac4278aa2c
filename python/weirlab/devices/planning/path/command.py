"""What ``weir plan`` does with a file that describes a path."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path

from weirlab.base.errors import InputError
from weirlab.cli.output import Session
from weirlab.cli.results import gates
from weirlab.devices.planning.path import wording
from weirlab.devices.planning.path.outcome import plan_path
from weirlab.devices.planning.path.sections import ENDS, read_path


def path_of(sources: Sequence[str], others: Mapping[str, object]) -> Path | None:
    """The file that describes a path, if that is what the plan is about.

    Raises ``InputError`` if one of the ``others``, values of options or groups of them, is given as well.
    """
    if not any(source.endswith(ENDS) for source in sources):
        return None
    if len(sources) > 1:
        raise InputError("a path is planned by itself: give one file, with the models in it")
    if names := [name for name, value in others.items() if _is_given(value)]:
        raise InputError(f"{', '.join(names)}: for a path this is in its file {sources[0]}")
    return Path(sources[0])


def answer_path(session: Session, path: Path, require: Sequence[str], *, extrapolate: bool) -> None:
    """Plan the path and print the answer."""
    outcome = plan_path(session.store, read_path(path), path.parent, require, extrapolate=extrapolate)
    for warning in wording.warnings(outcome):
        session.say(warning)
    tables = wording.tables(outcome)
    gates.finish(session, outcome.document(), wording.conclusion(outcome), tables, outcome.judged)


def _is_given(value: object) -> bool:
    """Whether an option, or one of a group, has another value than by default."""
    if not is_dataclass(value):
        return bool(value)
    return any(
        _is_given(found) if is_dataclass(found := getattr(value, field.name)) else found != field.default
        for field in fields(value)
    )

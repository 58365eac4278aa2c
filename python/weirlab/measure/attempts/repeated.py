"""One trial, attempted until an attempt is valid."""

from __future__ import annotations

from collections.abc import Callable

from weirlab.base.errors import LabError
from weirlab.records import TrialRecord


def until_valid(
    name: str, most: int, attempt: Callable[[], TrialRecord], tell: Callable[..., object]
) -> TrialRecord:
    """The last attempt: the first valid one, or the last of ``most``.

    ``tell`` receives the reason why ``name`` is attempted again, and the attempt if there is one. Raises the
    last ``LabError`` if every attempt ended in one.
    """
    made: TrialRecord | None = None
    failure: LabError | None = None
    for left in reversed(range(most)):
        try:
            made = attempt()
        except LabError as error:
            failure = error
            if left:
                tell(f"{name}: again, because: {error}")
            continue
        if made.valid or not left:
            return made
        tell(f"{name}: again, because: {'; '.join(made.invalid)}", made)
    if made is None:
        assert failure is not None
        raise failure
    return made

"""Trial specifications as JSON values and back.

A run's plan, the ``spec`` column of its trials and exports all use this form, so a record
states exactly what was sent.
"""

from __future__ import annotations

from typing import Any

from weirlab.base.documents import plain, typed
from weirlab.base.errors import InputError, StoreError
from weirlab.records import TrialSpec


def spec_to_json(spec: TrialSpec) -> dict[str, Any]:
    """``spec`` as JSON values; :func:`spec_from_json` is the inverse."""
    document: dict[str, Any] = plain(spec)
    return document


def spec_from_json(value: object) -> TrialSpec:
    """Read what :func:`spec_to_json` wrote, also by versions without places and cross traffic.

    Raises ``StoreError`` for anything else.
    """
    try:
        return typed(TrialSpec, value)
    except (TypeError, ValueError, InputError) as error:
        raise StoreError(
            f"not the specification of a trial ({error}); "
            "it may be damaged or come from another version of Weir"
        ) from error

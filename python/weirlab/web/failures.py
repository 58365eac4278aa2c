"""What failed, in words for users of the page, who can do nothing about the disk of the service."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from weirlab.base.errors import DiskFull, WeirError
from weirlab.cli.program import failures

FULL: Final = "The disk of this service is full. Its operator has to free some space."


def explain(error: BaseException) -> failures.Failure:
    """What users of the page see of ``error``."""
    found = failures.explain(error)
    return replace(found, message=FULL) if isinstance(error, DiskFull) else found


class ForbiddenError(WeirError):
    """The service was started without the right to do this for its users."""

"""Runs a telephone: ``python -m weirlab.numbering.telephone telephone.json``.

It logs what it sends, receives and does to standard output, one line each. A signal ends it.
"""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path
from types import FrameType

from weirlab.base import files, limits
from weirlab.base.errors import InputError, WeirError
from weirlab.base.quoting import printable
from weirlab.numbering.telephone.serving import Telephone
from weirlab.numbering.telephone.settings import TelephoneSettings


class _SignalExit(Exception):
    """By a signal."""


def _end(number: int, frame: FrameType | None) -> None:
    raise _SignalExit


def _tell(line: str) -> None:
    print(printable(line), flush=True)


def main(path: Path) -> int:
    """Run until a signal ends it; returns 1 if it cannot run."""
    try:
        text = files.read_text(path, "the settings of a telephone", limits.MOST_PLAN_BYTES)
        try:
            settings = TelephoneSettings.of(json.loads(text))
        except ValueError as error:
            raise InputError(f"{files.shown(path)}: not the settings of a telephone: {error}") from None
        telephone = Telephone(settings, _tell)
        _tell(f"telephone {settings.telephone} of plan {settings.plan} at {settings.address}")
        signal.signal(signal.SIGTERM, _end)
        try:
            telephone.run()
        except _SignalExit:
            telephone.close()
            return 0
    except (WeirError, OSError) as error:
        print(f"telephone: {error}", file=sys.stderr, flush=True)
    return 1


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))

"""The command ``weir``.

``program.app`` knows the commands and imports the one that is wanted; it reads its options, calls
``weirlab.jobs`` or a part below it and hands the outcome to ``output``. Importing this package
is cheap: what a command needs beyond its options is imported when it runs.
"""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Entry point: run the command in ``sys.argv`` and leave with its exit code."""
    try:
        from weirlab import interrupts

        code: str | int | None = 0
        try:
            interrupts.catch()
            # Fits solve many small systems: several threads only wait for each other, on a busy machine for
            # long.
            os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
            from weirlab.cli.program.app import app
            from weirlab.cli.streams import occupy

            occupy()
            app()
        except SystemExit as end:
            code = end.code
        except KeyboardInterrupt:
            # Before the command was found.
            code = interrupts.exit_code()
        interrupts.ignore()
        # What was put off until the command had ended stops those that were to follow it.
        sys.exit(interrupts.exit_code() if interrupts.pending() else code)
    except KeyboardInterrupt:
        # Python's own, before ours was in place; or ours, between the end of the command and ignoring it.
        known = sys.modules.get("weirlab.interrupts")
        sys.exit(130 if known is None else known.exit_code())

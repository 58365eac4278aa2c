"""The command ``weir``.

``program.app`` knows the commands and imports only the requested one. A command reads its options,
calls ``weirlab.jobs`` or a layer below it and passes the outcome to ``output``. Importing this
package is cheap: what a command needs beyond its options is imported when it runs.
"""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Entry point: run the command in ``sys.argv`` and leave with its exit code."""
    try:
        from weirlab.base import interrupts

        code: str | int | None = 0
        try:
            interrupts.catch()
            # Fits solve many small systems: several threads would only wait for each other, for a long
            # time on a busy machine.
            os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
            # Polars' other engine sorts through files below /var/tmp, and waits for ever if it cannot write
            # there.
            os.environ.setdefault("POLARS_ENGINE_AFFINITY", "in-memory")
            from weirlab.cli.program.app import app
            from weirlab.cli.streams import READER, occupy

            occupy()
            READER.start()
            app()
        except SystemExit as end:
            # Typer ends with 130 whichever signal interrupted it.
            code = interrupts.exit_code() if end.code == 130 else end.code
        except KeyboardInterrupt:
            # Raised before the command was found.
            code = interrupts.exit_code()
        interrupts.ignore()
        # A signal that was deferred until the command had ended must still stop the calling script.
        sys.exit(interrupts.exit_code() if interrupts.pending() else code)
    except KeyboardInterrupt:
        # From Python's handler before Weir's was installed, or from Weir's just before it was disabled.
        known = sys.modules.get("weirlab.base.interrupts")
        sys.exit(130 if known is None else known.exit_code())

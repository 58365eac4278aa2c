"""The command ``weir``.

``app`` knows the commands and imports the one that is wanted; it reads its options, calls
``weirlab.jobs`` or a part below it and hands the outcome to ``output``. Importing this package
is cheap: what a command needs beyond its options is imported when it runs.
"""

from __future__ import annotations

import os


def main() -> None:
    """Entry point: run the command in ``sys.argv`` and leave with its exit code."""
    # Fits solve many small systems: several threads only wait for each other, on a busy machine for long.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from weirlab.cli.app import app
    from weirlab.cli.failures import catch_signals

    catch_signals()
    app()

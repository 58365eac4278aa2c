"""Standard input as a file that can be read more than once."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from weirlab.base.errors import InputError
from weirlab.base.files.refusals import telling

DASH: Final = Path("-")
_OPEN: Final = Path("/dev/stdin")
_PART_BYTES: Final = 1 << 20


@contextmanager
def readable(paths: Sequence[Path], *, twice: bool = True) -> Iterator[list[Path]]:
    """``paths``, where ``-`` stands for standard input and becomes ``/dev/stdin``.

    If it is read ``twice``, a pipe is copied to its end into a file without a name in the temporary folder,
    which takes its place as standard input during the block.

    Raises
    ------
    InputError
        Standard input is a terminal, or is named twice.
    StoreError
        The copy cannot be written.
    """
    number = list(paths).count(DASH)
    if not number:
        yield list(paths)
        return
    if number > 1:
        raise InputError("- names standard input twice; give it once")
    if os.isatty(0):
        raise InputError("- is standard input, which is a terminal; pipe a file into it")
    named = [_OPEN if path == DASH else path for path in paths]
    if not twice or (stat.S_ISREG(os.fstat(0).st_mode) and not os.lseek(0, 0, os.SEEK_CUR)):
        yield named
        return
    with tempfile.TemporaryFile(prefix="weir-") as copy:
        with telling(Path(tempfile.gettempdir()), "write"), os.fdopen(os.dup(0), "rb", buffering=0) as source:
            shutil.copyfileobj(source, copy, _PART_BYTES)
            copy.flush()
        pipe = os.dup(0)
        try:
            os.dup2(copy.fileno(), 0)
            yield named
        finally:
            os.dup2(pipe, 0)
            os.close(pipe)

"""Files that the user names or the store writes: one way to write them, one way to read them.

An output is written in full or not at all. It may replace a regular file, but never a device, a pipe or a
socket, and a symbolic link is neither followed nor replaced. Folders on its path may be links. Its temporary
name is unpredictable, and a link planted under that name is not followed.

An input is a regular file, or a pipe with a writer, and has an upper limit on its size. What opens the files
that a scenario names gets the right to do so (:class:`Inputs`).

A stored file is a regular file, no link is followed to it, and it has an upper limit, too.
"""

from weirlab.base.files.locks import wait_for_lock
from weirlab.base.files.reading import HOST_FILES, NO_FILES, Inputs, read_bytes, read_text
from weirlab.base.files.refusals import explain, shown, telling
from weirlab.base.files.scratch import scratch_folder
from weirlab.base.files.stored import load_json, open_regular, read_regular
from weirlab.base.files.writing import (
    SCRATCH,
    check_folder,
    check_output,
    make_folder,
    sweep,
    write,
    write_bytes,
)

__all__ = [
    "HOST_FILES", "NO_FILES", "SCRATCH", "Inputs", "check_folder", "check_output", "explain", "load_json",
    "make_folder", "open_regular", "read_bytes", "read_regular", "read_text", "scratch_folder", "shown",
    "sweep", "telling", "wait_for_lock", "write", "write_bytes",
]  # fmt: skip

"""Files that the user names, or the store writes: one way to write them, one way to read them.

An output is there in full or not at all. It takes the place of a regular file or of nothing: never of a
device, a pipe or a socket, and a symbolic link is neither followed nor replaced. Folders on the way to it may
be links. Nobody can foresee the name under which it is made, and no link planted there is followed.

An input is a regular file or a pipe that somebody writes into, and never larger than it may reasonably be.
"""

from weirlab.files.locks import wait_for_lock
from weirlab.files.reading import read_bytes, read_text
from weirlab.files.refusals import ELSEWHERE, explain, shown, telling
from weirlab.files.writing import (
    SCRATCH,
    check_folder,
    check_output,
    make_folder,
    sweep,
    write,
    write_bytes,
)

__all__ = [
    "ELSEWHERE",
    "SCRATCH",
    "check_folder",
    "check_output",
    "explain",
    "make_folder",
    "read_bytes",
    "read_text",
    "shown",
    "sweep",
    "telling",
    "wait_for_lock",
    "write",
    "write_bytes",
]

"""A process that waits until the owner of a journal is gone, and then undoes what that changed on this host.

The kernel leaves offloads, IPv6 and nftables as they are when a process is killed. Until then this one is a
Python that sleeps; it imports the rest of Weir when it is needed.
"""

from __future__ import annotations

import select
import sys
from collections.abc import Sequence


def main(words: Sequence[str]) -> None:
    """Wait for the process of the pidfd ``words[0]``, and clean the folder ``words[1]``."""
    life = select.poll()
    life.register(int(words[0]), select.POLLIN)
    life.poll()

    from pathlib import Path

    from weirlab.link.host import journal

    journal.clean(lambda problem: print(f"weir: {problem}", file=sys.stderr), Path(words[1]))


if __name__ == "__main__":
    main(sys.argv[1:])

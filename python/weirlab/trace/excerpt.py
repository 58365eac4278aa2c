"""Part of a capture as a file of its own."""

from __future__ import annotations

import re
from pathlib import Path
from typing import BinaryIO

from weirlab import __version__, files
from weirlab.trace.facts import Connection
from weirlab.trace.times import Window


def write(
    path: Path,
    capture: Path,
    *,
    window: Window = Window(),  # noqa: B008  (frozen)
    filter: str = "",
    comment: str = "",
) -> int:
    """Write packets of ``capture`` to ``path`` as pcapng, in full or not at all.

    Parameters
    ----------
    window
        Only packets of this time.
    filter
        Expression of libpcap; other packets are left out.
    comment
        What the file says about itself.

    Returns
    -------
    int
        How many packets there are.

    Raises
    ------
    InputError
        The capture cannot be read or is damaged; the filter is not understood.
    StoreError
        The disk refuses.
    """
    from weirlab import _engine

    number = 0

    def fill(file: BinaryIO) -> None:
        nonlocal number
        number = _engine.excerpt(
            str(capture),
            file.write,
            filter=filter,
            from_ns=window.from_ns,
            to_ns=window.to_ns,
            relative=window.relative,
            application=f"Weir {__version__}",
            comment=comment,
        )

    files.write(path, fill, private=True)
    return number


def of(connection: Connection) -> str:
    """The filter that takes the packets of ``connection``, and of others between the same two ends."""
    a, b = connection["a"], connection["b"]
    ways = " or ".join(
        f"(src host {one['addr']} and src port {one['port']} and dst host {other['addr']} "
        f"and dst port {other['port']})"
        for one, other in ((a, b), (b, a))
    )
    # Each "vlan" moves what follows behind one tag.
    tags = "".join(f"vlan {number} and " for number in re.findall(r"\d+", connection["vlan"]))
    return f"{tags}tcp and ({ways})"

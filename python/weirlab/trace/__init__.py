"""Captures as facts about TCP connections, voice streams and ESP flows.

``read`` gives them as Polars frames; ``analyse`` as plain mappings, without anything heavy being
imported. What every number means is in ``docs/trace.md``.

>>> from weirlab import trace
>>> with trace.read("capture.pcapng", series=True) as t:  # doctest: +SKIP
...     slow = t.rtt.filter(pl.col("rtt_ns") > 50_000_000)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from weirlab.trace.analysis import Flow, analyse
from weirlab.trace.quantities import Moment, Window

if TYPE_CHECKING:
    from weirlab.trace.frames import Trace, from_folder, read, to_datetime
else:
    _FRAMES = ("Trace", "from_folder", "read", "to_datetime")

    def __getattr__(name: str) -> Any:
        """What needs Polars, imported on first use: the table of ``weir trace`` does not need it."""
        if name not in _FRAMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from weirlab.trace import frames

        return getattr(frames, name)


__all__ = ["Flow", "Moment", "Trace", "Window", "analyse", "from_folder", "read", "to_datetime"]

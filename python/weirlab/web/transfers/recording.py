"""The packets of a test, recorded at both ends: each capture becomes one like those that are uploaded.

They are read by child processes with limits, because the one of the other host is foreign.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from weirlab.studies.tcp import sending
from weirlab.studies.tcp.measure import capturing
from weirlab.studies.tcp.measure.capturing import Capture, End
from weirlab.trace.quantities import count
from weirlab.web.measurements import Measurement

Adopt = Callable[[str, Path], Measurement]
"""Takes a file, under a name, as if it had been uploaded."""


@dataclass
class Tapes:
    """What is recorded of one test."""

    settings: sending.Settings
    """Of the test, with the wish for the server's capture."""
    adopt: Adopt
    client: Capture
    stop: Callable[[], None]
    """Ends the capture of this host."""

    def handed_on(self, outcome: sending.Outcome) -> list[dict[str, Any]]:
        """By end: the ``data_id`` of the capture, or ``why_not``. Empty where nothing was asked for."""
        self.stop()
        fetch = self.settings.fetch
        if fetch is None:
            return []
        server = capturing.fetched(outcome.recorded, fetch.file, capturing.AUTO)
        ends: tuple[tuple[End, Capture], ...] = (("client", self.client), ("server", server))
        return [self._one(end, capture) for end, capture in ends]

    def _one(self, end: End, capture: Capture) -> dict[str, Any]:
        where = "this host" if end == "client" else self.settings.host
        if capture.path is None:
            return {"where": where, "why_not": capture.why_not, "data_id": None, "packets": None}
        made = self.adopt(f"TCP test at {where}.pcapng", capture.path)
        packets = None if capture.packets is None else count(capture.packets)
        return {"where": where, "why_not": None, "data_id": made.data_id, "packets": packets}


@dataclass(frozen=True)
class Recording:
    """Records tests, at most ``most_bytes`` each, and has their captures adopted."""

    adopt: Adopt
    most_bytes: int

    @contextmanager
    def of(self, one: Measurement, settings: sending.Settings, wanted: bool) -> Iterator[Tapes]:
        """Record a test while the block lasts, in the folder of ``one``; nothing unless ``wanted``."""
        if not wanted:
            yield Tapes(settings, self.adopt, Capture(None), lambda: None)
            return
        most_bytes = min(self.most_bytes, capturing.MOST_BYTES)
        with TemporaryDirectory(dir=one.path, prefix="tapes-") as name, ExitStack() as recorder:
            folder = Path(name)
            fetch = sending.Fetch(folder / capturing.FILES["server"], must=False, most_bytes=most_bytes)
            client = recorder.enter_context(
                capturing.capturing(settings.host, settings.port, folder, capturing.AUTO)
            )
            yield Tapes(replace(settings, fetch=fetch), self.adopt, client, recorder.close)

"""A recorder in a process of its own, which has the right to record packets that the service lacks."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

from weirlab.base.errors import InputError, LabError, MissingCapability, WeirError
from weirlab.link.settings import RecorderSettings
from weirlab.web.children import write_line
from weirlab.web.launching.jobs import RecordingJob
from weirlab.web.launching.launcher import Launcher, piped

_ERRORS: Final[dict[str, type[WeirError]]] = {
    each.__name__: each for each in (InputError, LabError, MissingCapability)
}


class WebRecorderProcess:
    """As ``weirlab.link.bindings.Recorder``: records into ``settings.path``, in the folder of a test.

    Raises ``InputError``, ``LabError`` or ``MissingCapability`` if nothing can be recorded.
    """

    def __init__(self, launcher: Launcher, settings: RecorderSettings, interface: str) -> None:
        tapes = settings.path.parent
        assert settings.tcp_port is not None
        assert settings.most_bytes is not None
        job = RecordingJob(tapes.parent.name, tapes.name, interface, settings.tcp_port, settings.most_bytes)
        self._process, self._to, self._from = piped(launcher, job)
        self._recorded: dict[str, Any] = {}
        answer = self._answer()
        if (error := answer.get("error")) is not None:
            self._end()
            raise _ERRORS.get(error["kind"], LabError)(error["message"])

    def start(self) -> None:
        """It records already."""

    def name_connections(self, connections: Sequence[tuple[tuple[str, int], tuple[str, int]]]) -> None:
        # If it has ended, its result says so.
        with suppress(OSError):
            write_line(self._to, list(connections))

    def progress(self) -> dict[str, Any]:
        """Nobody asks for it."""
        return {}

    def stop(self) -> dict[str, Any]:
        if not self._to.closed:
            self._to.close()
            self._recorded = self._answer()
            self._end()
        return self._recorded

    def _answer(self) -> dict[str, Any]:
        line = self._from.readline()
        with suppress(ValueError):
            found = json.loads(line)
            if isinstance(found, dict):
                return found
        self._end()
        raise LabError("the process that records packets has ended")

    def _end(self) -> None:
        self._to.close()
        self._process.wait()
        self._from.close()

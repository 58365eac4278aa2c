"""Endpoints of the lab: SIPp programs that call and take calls, with speech."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final, Protocol

from weirlab import files
from weirlab.lab.linux.namespace import Namespace
from weirlab.studies.voice.configs import sipp
from weirlab.studies.voice.configs.parts import address
from weirlab.studies.voice.lab import engines, media, wire
from weirlab.studies.voice.routing import Network

_MORE_HOLD_S: Final = 0.5
"""A caller hangs up so much later than the last packet of speech is due."""


class Programs(Protocol):
    """What endpoints need of the lab."""

    network: Network
    folder: Path
    patience_s: float

    @property
    def running(self) -> frozenset[str]: ...

    def at(self, engine: str) -> Namespace: ...

    def start(
        self, title: str, command: Sequence[str], inside: Namespace, log: str, *, ends_by_itself: bool = False
    ) -> None: ...

    def stop(self, title: str, *, by: int) -> None: ...

    def until(self, done: Callable[[], bool], otherwise: str, name: str) -> None: ...


class Endpoints:
    """Those of ``lab``, in which caller and callee talk for ``talk_s``."""

    def __init__(self, lab: Programs, talk_s: float) -> None:
        self.network: Network = lab.network
        self.talk_s = talk_s
        self.refusing: dict[str, int] = {}
        """By what answer endpoints refuse every call."""
        self._lab = lab

    @property
    def names(self) -> list[str]:
        """Those that can call here, and be called."""
        listed = self.network.plan.engines.items()
        return [name for name, each in listed if each.kind == "endpoint" and not engines.impossible(each)]

    def write(self) -> None:
        """What they say, as captures."""
        for codec in media.BYTES:
            files.write_bytes(self._lab.folder / f"{codec}.pcap", media.speech(codec, self.talk_s))
            early = media.speech(codec, media.EARLY_S, media.EARLY_SOURCE)
            files.write_bytes(self._lab.folder / f"early-{codec}.pcap", early)

    @contextmanager
    def waiting(self, codecs: Mapping[str, str], names: Sequence[str]) -> Iterator[None]:
        """Meanwhile the endpoints with these names take calls; whatever calls they still have end with it."""
        titles = []
        try:
            for name in names:
                self._wait(name, codecs)
                titles.append(_title(name))
            for name in names:
                self._until_it_waits(name)
            yield
        finally:
            for title in titles:
                if title in self._lab.running:
                    self._lab.stop(title, by=signal.SIGKILL)

    def call(
        self,
        name: str,
        number: str,
        answer: int,
        codecs: Mapping[str, str],
        *more: str,
        port: int | None = None,
    ) -> str:
        """Let ``name`` call ``number``; the title of the program, which ends with the call.

        It expects ``answer``, and ends the call at any other one.
        """
        plan = self.network.plan
        engine = plan.engines[name]
        assert engine.home is not None
        home = plan.engines[engine.home]
        scenario = self._scenario(name, sipp.caller(self.network, name, answer), codecs)
        reached = f"{bracketed(address(self.network, engine.home))}:{home.port('sip')}"
        command = engines.caller(
            scenario, address(self.network, name), port or engine.port("sip"), reached, number,
            round(self.longest_s), *sipp.over(engine), *(more or ("-m", "1")),
        )  # fmt: skip
        title = f"sipp calling from {name}"
        self._lab.start(title, command, self._lab.at(name), f"sipp-{name}", ends_by_itself=True)
        return title

    @property
    def longest_s(self) -> float:
        """No call takes longer."""
        return self.talk_s + self._lab.patience_s

    def _wait(self, name: str, codecs: Mapping[str, str]) -> None:
        engine = self.network.plan.engines[name]
        text = sipp.callee(self.network, name, self.refusing.get(name))
        host = address(self.network, name)
        command = engines.callee(
            self._scenario(name, text, codecs), host, engine.port("sip"), *sipp.over(engine)
        )
        self._lab.start(_title(name), command, self._lab.at(name), f"sipp-{name}")

    def _until_it_waits(self, name: str) -> None:
        engine = self.network.plan.engines[name]
        port = engine.port("sip")
        waits = partial(self._lab.at(name).call, partial(wire.bound, port, engine.transport))
        what = f"{_title(name)} does not wait at {address(self.network, name)}:{port}"
        self._lab.until(waits, what, f"sipp-{name}")

    def _scenario(self, name: str, text: str, codecs: Mapping[str, str]) -> str:
        """The file of an endpoint's scenario, with speech in it."""
        own = self.network.plan.engines[name].codecs or ("alaw",)
        codec = codecs.get(name, own[0])
        folder = self._lab.folder
        early = str(folder / f"early-{codec}.pcap")
        spoken = media.talking(text, str(folder / f"{codec}.pcap"), self.talk_s + _MORE_HOLD_S, early)
        path = folder / f"{name}.xml"
        files.write_bytes(path, spoken.encode())
        return str(path)


def _title(name: str) -> str:
    return f"sipp of {name}"


def bracketed(where: str) -> str:
    """An address as a URI has it."""
    return f"[{where}]" if ":" in where else where

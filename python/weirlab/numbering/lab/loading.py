"""Many calls at once: SIPp calls at a rate, with a few calls with speech, and the engines' CPU time."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from weirlab.base import files
from weirlab.base.interrupts import interruptible
from weirlab.numbering.configs import sipp
from weirlab.numbering.configs.parts import address, gatekeeper
from weirlab.numbering.lab import VoiceLab, engines, switch
from weirlab.numbering.lab.endpoints import home_of, kill
from weirlab.numbering.lab.engines import Daemon
from weirlab.numbering.lab.switch import Frame

_HOLD_MS: Final = 200
"""Duration of a call without speech."""

_GIVE_UP_MS: Final = 5000
"""How long a caller waits for a message; after that, the call has failed."""

_PORT: Final = 5090
_MEDIA_PORT: Final = 6400
"""Ports of the calls with speech; the other calls of the endpoint use others."""

_BUFFER: Final = ("-buff_size", "4194304")
_LATEST_S: Final = 20.0
"""All calls are over by this time after the last one started."""

_REST_S: Final = 5.0
"""If a gateway still has calls this long after all callers have gone, gateways are restarted."""


OTHERS: Final = "other work"
"""In place of an engine: programs that are not the lab's, and what a hypervisor took."""
_KERNEL: Final = 2
"""The process whose children are the kernel's threads."""


@dataclass(frozen=True)
class LoadResult:
    """The results of a trial."""

    statistics: str
    """The statistics file of the caller."""
    frames: list[Frame]
    """RTP packets of the calls with speech."""
    cpu_share: Mapping[str, float]
    """CPU time over the time of the trial: by engine, of ``sipp``, and of :data:`OTHERS`."""


@dataclass(frozen=True)
class CallLoad:
    """The calls of a trial: ``caller`` calls ``number``, ``callee`` answers."""

    caller: str
    callee: str
    number: str
    rate_per_s: int
    seconds: float
    speaking: int
    """Calls with speech, in addition to the others; they last as long as the trial."""
    edges_ms: list[int]
    """Upper ends of the classes of set-up times."""


class LoadTestLab(VoiceLab):
    """The lab in which many calls are made at once."""

    @interruptible
    def load(self, offered: CallLoad) -> LoadResult:
        """Make the calls of a trial; raises ``LabError`` if an engine ended."""
        left = _loaded(self, offered)
        gateways = [daemon for daemon in self.daemons if daemon.program == "asterisk"]
        if not all(self._rests(daemon) for daemon in gateways):
            for daemon in gateways:
                self._renew(daemon)
        return left

    def _rests(self, daemon: Daemon) -> bool:
        """Has a gateway no calls left?"""
        end_s = time.monotonic() + _REST_S
        while engines.channels(self._up.run(engines.asking_channels(daemon.file))[1]) != 0:
            if time.monotonic() > end_s:
                return False
            time.sleep(0.25)
        return True

    def _renew(self, daemon: Daemon) -> None:
        """Restart a gateway: the remains of too many calls would keep it busy for minutes."""
        self.stop(daemon.title, by=signal.SIGKILL)
        self.start(daemon.title, daemon.command, self._hosts[daemon.address], daemon.name)
        self._ready.wait(daemon)
        if gatekeeper(self.network, daemon.name) is not None:
            what = f"{daemon.title} does not register again"
            self.until(partial(self._ready.registered, daemon), what, daemon.name)


def _loaded(lab: VoiceLab, offered: CallLoad) -> LoadResult:
    seconds = offered.seconds
    statistics = lab.folder / "load.csv"
    statistics.unlink(missing_ok=True)
    with (
        lab.way.carrying(address(lab.network, offered.caller)),
        _answering(lab, offered.callee),
        lab.speech_only() as watcher,
        lab.way.beside_traffic(),
    ):
        watcher.begin()
        begun_s, before, others_s = time.monotonic(), _cpu_s(lab), _others_s(lab)
        title = _call(lab, offered, statistics)
        talking = [_talk(lab, offered)] if offered.speaking else []
        longest_s = seconds + _LATEST_S
        what = f"{title} does not end"
        lab.until(
            lambda: time.monotonic() - begun_s >= seconds, what, f"load-{offered.caller}", 2 * longest_s
        )
        took_s = time.monotonic() - begun_s
        others = max(_others_s(lab) - others_s, 0.0) / took_s
        share = {**_shares(before, _cpu_s(lab), took_s), OTHERS: others}
        lab.within(longest_s, lambda: lab.running.isdisjoint((title, *talking)))
        kill(lab, title, *talking)
        frames = watcher.end()
    lab.check()
    return LoadResult(files.read_text(statistics, "statistics of SIPp", 1 << 24), frames, share)


@contextmanager
def _answering(lab: VoiceLab, name: str) -> Iterator[None]:
    """Within the context, an endpoint answers all calls and echoes the speech that it gets."""
    engine = lab.network.plan.engines[name]
    path = lab.folder / f"load-{name}.xml"
    files.write_bytes(path, sipp.callee(lab.network, name).encode())
    host, port = address(lab.network, name), engine.port("sip")
    command = engines.callee(str(path), host, port, *sipp.over(engine), "-rtp_echo", *_BUFFER)
    title = f"sipp of {name}"
    lab.start(title, command, lab.at(name), f"load-{name}")
    waits = partial(lab.at(name).call, partial(switch.bound, port, engine.transport))
    lab.until(waits, f"{title} does not listen at {host}:{port}", f"load-{name}")
    try:
        yield
    finally:
        kill(lab, title)


def _call(lab: VoiceLab, offered: CallLoad, statistics: Path) -> str:
    """Start the calls; returns the title of the program."""
    name, rate_per_s = offered.caller, offered.rate_per_s
    text = sipp.caller(lab.network, name, 200).replace(switch.PAUSE, f'<pause milliseconds="{_HOLD_MS}"/>')
    classes = ", ".join(map(str, offered.edges_ms))
    text = text.replace(sipp.CLASSES, f'<ResponseTimeRepartition value="{classes}"/>')
    path = lab.folder / f"load-{name}.xml"
    files.write_bytes(path, text.encode())
    calls, at_once = round(rate_per_s * offered.seconds), 10 * rate_per_s + 1000
    more = (
        "-m", str(calls), "-r", str(rate_per_s), "-l", str(at_once),
        "-recv_timeout", str(_GIVE_UP_MS), "-trace_stat", "-stf", str(statistics), "-fd", "1", *_BUFFER,
    )  # fmt: skip
    port = lab.network.plan.engines[name].port("sip")
    command = _command(lab, offered, path, port, offered.seconds + _LATEST_S)
    return _start(lab, f"sipp loading from {name}", name, [*command, *more])


def _talk(lab: VoiceLab, offered: CallLoad) -> str:
    """Start the calls with speech; returns the title of the program."""
    name, calls = offered.caller, str(offered.speaking)
    codec = (lab.network.plan.engines[name].codecs or ("alaw",))[0]
    text = switch.talking(
        sipp.caller(lab.network, name, 200), str(lab.folder / f"{codec}.pcap"), lab.talk_s + 0.5
    )
    path = lab.folder / f"talk-{name}.xml"
    files.write_bytes(path, text.encode())
    more = ("-m", calls, "-r", calls, "-mp", str(_MEDIA_PORT))
    command = _command(lab, offered, path, _PORT, lab.talk_s + _LATEST_S)
    return _start(lab, f"sipp talking from {name}", name, [*command, *more])


def _command(lab: VoiceLab, offered: CallLoad, path: Path, port: int, longest_s: float) -> list[str]:
    """The command with which SIPp calls from ``port`` by the scenario at ``path``."""
    host, home = address(lab.network, offered.caller), home_of(lab.network, offered.caller)
    over = sipp.over(lab.network.plan.engines[offered.caller])
    return [*engines.caller(str(path), host, port, home, offered.number, round(longest_s), *over)]


def _start(lab: VoiceLab, title: str, name: str, command: Sequence[str]) -> str:
    lab.start(title, command, lab.at(name), f"load-{name}", ends_by_itself=True)
    return title


def _cpu_s(lab: VoiceLab) -> dict[str, tuple[str, float]]:
    """Name and CPU time of every process of the lab, by its number."""
    tick_s = 1 / os.sysconf("SC_CLK_TCK")
    found = {}
    for pid in lab.processes:
        # A process that has ended meanwhile is left out.
        with suppress(OSError, IndexError):
            command = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            name = next((daemon.name for daemon in lab.daemons if daemon.file in command), "")
            if not name and "sipp\0" in command:
                name = "sipp"
            if name:
                # Fields 14 and 15 (proc_pid_stat(5)), counted from behind the second.
                found[str(pid)] = (name, (int(fields[11]) + int(fields[12])) * tick_s)
    return found


def _others_s(lab: VoiceLab) -> float:
    """CPU time that was neither the lab's, nor Weir's, nor the kernel's, from some moment on."""
    tick_s = 1 / os.sysconf("SC_CLK_TCK")
    if Path(f"/proc/{_KERNEL}/comm").read_text() != "kthreadd\n":
        # In a container, other work cannot be told from the kernel's.
        return 0.0
    # User, nice, system and steal (proc_stat(5)); interrupts serve the lab as well.
    used = Path("/proc/stat").read_text().split("\n", 1)[0].split()
    total = sum(int(used[at]) for at in (1, 2, 3, 8))
    parents, ticks = {}, {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        # A process that has ended meanwhile is left out.
        with suppress(OSError, IndexError):
            fields = path.read_text().rpartition(")")[2].split()
            pid = int(path.parent.name)
            parents[pid], ticks[pid] = int(fields[1]), int(fields[11]) + int(fields[12])
    own = {os.getpid(), _KERNEL, *lab.processes}
    for pid in parents:
        line = [pid]
        while line[-1] in parents and line[-1] not in own:
            line.append(parents[line[-1]])
        if line[-1] in own:
            own.update(line)
    return (total - sum(ticks.get(pid, 0) for pid in own)) * tick_s


def _shares(
    before: Mapping[str, tuple[str, float]], after: Mapping[str, tuple[str, float]], seconds: float
) -> dict[str, float]:
    """CPU time by engine, over the time that passed."""
    found: dict[str, float] = {}
    for pid, (name, cpu_s) in after.items():
        used_s = cpu_s - before.get(pid, (name, 0.0))[1]
        found[name] = found.get(name, 0.0) + used_s / seconds
    return found

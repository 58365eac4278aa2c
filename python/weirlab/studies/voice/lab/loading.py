"""Many calls at once: SIPp that calls at a rate, a few calls with speech beside it, and the engines' work."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from weirlab import files
from weirlab.studies.voice.configs import sipp
from weirlab.studies.voice.configs.parts import address
from weirlab.studies.voice.lab import engines, media, wire
from weirlab.studies.voice.lab.endpoints import bracketed
from weirlab.studies.voice.lab.seen import Frame

if TYPE_CHECKING:
    from weirlab.studies.voice.lab.lab import VoiceLab

_HOLD_MS: Final = 200
"""How long a call without speech lasts."""

_GIVE_UP_MS: Final = 5000
"""A caller waits so long for a message; what has no answer then has failed."""

_PORT: Final = 5090
_MEDIA_PORT: Final = 6400
"""Ports of the calls with speech, beside the others of the same endpoint."""

_BUFFER: Final = ("-buff_size", "4194304")
_LATEST_S: Final = 20.0
"""After the last call was begun, all are over by then."""


@dataclass(frozen=True)
class Loaded:
    """What a trial left."""

    statistics: str
    """The statistics file of the caller."""
    frames: list[Frame]
    """RTP packets of the calls with speech."""
    cpu_share: Mapping[str, float]
    """CPU time over the time of the trial: by engine, and of ``sipp``."""


def loaded(
    lab: VoiceLab, caller: str, callee: str, number: str, rate_per_s: int, seconds: float, speaking: int,
    edges_ms: list[int],
) -> Loaded:  # fmt: skip
    """Let ``caller`` call ``number`` so many times a second; ``callee`` answers, and echoes speech.

    Parameters
    ----------
    speaking:
        Calls with speech, which last as long as the trial.
    edges_ms:
        Upper ends of the classes of set-up times.

    Raises
    ------
    LabError
        An engine ended.
    """
    statistics = lab.folder / "load.csv"
    statistics.unlink(missing_ok=True)
    with _answering(lab, callee), lab.speech_only() as watcher:
        watcher.begin()
        begun_s, before = time.monotonic(), _cpu_s(lab)
        title = _call(lab, caller, number, rate_per_s, seconds, statistics, edges_ms)
        talking = [_talk(lab, caller, number, speaking)] if speaking else []
        longest_s = seconds + _LATEST_S
        what = f"{title} does not end"
        lab.until(lambda: time.monotonic() - begun_s >= seconds, what, f"load-{caller}", 2 * longest_s)
        share = _shares(before, _cpu_s(lab), time.monotonic() - begun_s)
        with suppress(TimeoutError):
            _until_over(lab, [title, *talking], longest_s)
        for each in (title, *talking):
            if each in lab.running:
                lab.stop(each, by=signal.SIGKILL)
        frames = watcher.end()
    lab.check()
    return Loaded(files.read_text(statistics, "statistics of SIPp", 1 << 24), frames, share)


def _until_over(lab: VoiceLab, titles: list[str], longest_s: float) -> None:
    """Raises ``TimeoutError`` if one of them still runs after that; what it counts is what it has counted."""
    end_s = time.monotonic() + longest_s
    while any(title in lab.running for title in titles):
        lab.check()
        if time.monotonic() > end_s:
            raise TimeoutError
        time.sleep(0.05)


@contextmanager
def _answering(lab: VoiceLab, name: str) -> Iterator[None]:
    """Meanwhile an endpoint takes all calls, and sends back what speech it gets."""
    engine = lab.network.plan.engines[name]
    path = lab.folder / f"load-{name}.xml"
    files.write_bytes(path, sipp.callee(lab.network, name).encode())
    host, port = address(lab.network, name), engine.port("sip")
    command = engines.callee(str(path), host, port, *sipp.over(engine), "-rtp_echo", *_BUFFER)
    title = f"sipp of {name}"
    lab.start(title, command, lab.at(name), f"load-{name}")
    waits = partial(lab.at(name).call, partial(wire.bound, port, engine.transport))
    lab.until(waits, f"{title} does not wait at {host}:{port}", f"load-{name}")
    try:
        yield
    finally:
        if title in lab.running:
            lab.stop(title, by=signal.SIGKILL)


def _call(
    lab: VoiceLab,
    name: str,
    number: str,
    rate_per_s: int,
    seconds: float,
    statistics: Path,
    edges_ms: list[int],
) -> str:
    """Begin to call; the title of the program."""
    text = sipp.caller(lab.network, name, 200).replace(media.PAUSE, f'<pause milliseconds="{_HOLD_MS}"/>')
    classes = ", ".join(map(str, edges_ms))
    text = text.replace(sipp.CLASSES, f'<ResponseTimeRepartition value="{classes}"/>')
    path = lab.folder / f"load-{name}.xml"
    files.write_bytes(path, text.encode())
    more = (
        "-m", str(round(rate_per_s * seconds)), "-r", str(rate_per_s), "-l", str(10 * rate_per_s + 1000),
        "-recv_timeout", str(_GIVE_UP_MS), "-trace_stat", "-stf", str(statistics), "-fd", "1", *_BUFFER,
    )  # fmt: skip
    port = lab.network.plan.engines[name].port("sip")
    return _start(lab, "sipp loading from", name, number, path, port, seconds + _LATEST_S, *more)


def _talk(lab: VoiceLab, name: str, number: str, calls: int) -> str:
    """Begin the calls with speech; the title of the program."""
    codec = (lab.network.plan.engines[name].codecs or ("alaw",))[0]
    text = media.talking(
        sipp.caller(lab.network, name, 200), str(lab.folder / f"{codec}.pcap"), lab.talk_s + 0.5
    )
    path = lab.folder / f"talk-{name}.xml"
    files.write_bytes(path, text.encode())
    more = ("-m", str(calls), "-r", str(calls), "-mp", str(_MEDIA_PORT))
    return _start(lab, "sipp talking from", name, number, path, _PORT, lab.talk_s + _LATEST_S, *more)


def _start(
    lab: VoiceLab, what: str, name: str, number: str, path: Path, port: int, longest_s: float, *more: str
) -> str:
    plan = lab.network.plan
    engine = plan.engines[name]
    assert engine.home is not None
    home = f"{bracketed(address(lab.network, engine.home))}:{plan.engines[engine.home].port('sip')}"
    host = address(lab.network, name)
    command = engines.caller(str(path), host, port, home, number, round(longest_s), *sipp.over(engine), *more)
    title = f"{what} {name}"
    lab.start(title, command, lab.at(name), f"load-{name}", ends_by_itself=True)
    return title


def _cpu_s(lab: VoiceLab) -> dict[str, tuple[str, float]]:
    """CPU time of every process of the lab, by its number; and of what it is."""
    tick_s = 1 / os.sysconf("SC_CLK_TCK")
    found = {}
    for pid in lab.processes:
        # One that has ended meanwhile is left out.
        with suppress(OSError, IndexError):
            command = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            name = next((each.name for each in lab.daemons if each.file in command), "")
            if not name and "sipp\0" in command:
                name = "sipp"
            if name:
                # Fields 14 and 15 (proc_pid_stat(5)), counted from behind the second.
                found[str(pid)] = (name, (int(fields[11]) + int(fields[12])) * tick_s)
    return found


def _shares(
    before: Mapping[str, tuple[str, float]], after: Mapping[str, tuple[str, float]], seconds: float
) -> dict[str, float]:
    """CPU time by engine, over the time that passed."""
    found: dict[str, float] = {}
    for pid, (name, cpu_s) in after.items():
        used_s = cpu_s - before.get(pid, (name, 0.0))[1]
        found[name] = found.get(name, 0.0) + used_s / seconds
    return found

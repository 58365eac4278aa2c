"""One way to monitor a link, built up in network namespaces and ready for trials."""

from __future__ import annotations

import os
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from weirlab.base.extras import engine_needed
from weirlab.base.interrupts import shielded
from weirlab.lab.cores import Cores
from weirlab.lab.namespaces import NamespaceBed
from weirlab.lab.wiring import mac_bytes
from weirlab.link import settings as link_settings
from weirlab.link.recording.process import FrameSource
from weirlab.links.monitor.bed import wiring
from weirlab.links.monitor.bed.recording import OwnRecorder, Tcpdump, check, version
from weirlab.links.monitor.plan import MonitorRecorder, MonitorSettings, Stages, stages_of
from weirlab.records import EngineResult
from weirlab.traffic.spec import Traffic

if TYPE_CHECKING:
    from weirlab._engine import Tap

_OF_TAP: Final = ("received", "not_forwarded", "copied", "not_copied", "cut")
_PATIENCE_S: Final = 10.0
_LOOK_EVERY_S: Final = 0.01

OpenTap = Callable[..., "Tap"]


def open_tap(**options: Any) -> Tap:
    """``weirlab._engine.Tap``, when it is needed."""
    with engine_needed():
        from weirlab._engine import Tap as EngineTap
    return EngineTap(**options)


class LinkLab(NamespaceBed):
    """Sender, bridge with a monitor, receiver; a :class:`~weirlab.lab.base.TestBed`.

    The sender has a CPU of its own and so has the bridge. Who records is bound to a third CPU, and
    shares the bridge's where there are only two: the sender must not be disturbed, and the kernel
    threads that forward go before it.

    Raises
    ------
    MissingCapability
        Privileges, tcpdump or a kernel feature are missing.
    LabError
        The lab cannot be built.
    """

    def __init__(self, settings: MonitorSettings, cores: Cores | None = None) -> None:
        self._settings = settings
        self._parts = wiring.parts(settings.method)
        if settings.method.startswith("tcpdump"):
            check()
        if settings.method == "tcpdump-receiver":
            self._receives = wiring.SPARE
        self._tap: Tap | None = None
        self._recording: MonitorRecorder | None = None
        self._xdp_mode = ""
        self._warnings: list[str] = []
        self._stages: Stages | None = None
        self._stalled_ns: tuple[int, int] | None = None
        super().__init__(settings.backend, cores)

    @property
    def dut(self) -> str:
        return self._settings.method

    @property
    def facts(self) -> Mapping[str, object]:
        return {
            **super().facts,
            "bridge_cpu": self._cores.dut,
            "recorder_cpu": self._recorder_cpu,
            "napi": f"threaded, bound to CPU {self._cores.dut}",
            "records": str(self._folder),
            "ring_bytes": self._settings.ring_bytes,
            **({"tcpdump": version()} if self._settings.method.startswith("tcpdump") else {}),
            **({"xdp_mode": self._xdp_mode} if self._xdp_mode else {}),
            **({"tap_warnings": "; ".join(self._warnings)} if self._warnings else {}),
        }

    @property
    def stages(self) -> Stages | None:
        """What became of the frames of the last run."""
        return self._stages

    @property
    def stalled_ns(self) -> tuple[int, int] | None:
        """From when to when the recorder stood still in the last run, ns since 1970."""
        return self._stalled_ns

    def set_rules(self, rules: object) -> None:
        """A bridge has none."""

    def set_cross_traffic(self, on: bool) -> None:
        """Nobody manages the bridge meanwhile."""

    def run(self, traffic: Traffic) -> EngineResult:
        """Record while ``traffic`` is sent, and account for every frame."""
        self._stages = self._stalled_ns = None
        recording = self._begin_recording()
        before = self._read()
        stall = self._settings.stall
        try:
            if stall is not None and recording is not None:
                with self._stalling(recording.pid, stall.at_s, stall.pause_s):
                    result = super().run(traffic)
            else:
                result = super().run(traffic)
            # Frames that push tcpdump's last ones out are none of the trial's: read before they are sent.
            after = self._settled()
            recorded = None if recording is None else recording.end()
        finally:
            self._recording = None
            if recording is not None:
                recording.close()
        counted = {name: after[name] - before[name] for name in after}
        stages = stages_of(counted, result, self._settings.method)
        self._stages = replace(stages, recorded=recorded)
        return replace(result, received=stages.received, lost=result.sent - stages.received)

    def counters(self) -> dict[str, int]:
        """None: :attr:`stages` accounts for every frame."""
        return {}

    def close(self) -> None:
        tap, self._tap = self._tap, None
        recording, self._recording = self._recording, None
        with ExitStack() as leaving:
            # In reverse: recorder, tap, then what they stood on.
            leaving.callback(super().close)
            for thing in (tap, recording):
                if thing is not None:
                    leaving.callback(thing.close)

    @cached_property
    def _recorder_cpu(self) -> int | None:
        if self._settings.recorder != "bound":
            return None
        return spare_cpu(self._cores, os.sched_getaffinity(0))

    def _spared(self) -> Sequence[int]:
        return () if self._recorder_cpu is None else (self._recorder_cpu,)

    def _build(self) -> None:
        method = self._settings.method
        self._folder = self._make_folder()
        self._host.watch(wiring.build(self._netns, method, self._cores.dut))
        self._add_meter("tap", {"in": wiring.IN, "out": wiring.OUT})
        if "log" in self._netns:
            self._add_meter("log", {"log": wiring.LOGGER})
        # Before the tap: warming up floods whatever is there.
        self._loaded_engine()
        if method.startswith("tap-"):
            self._tap = self._open_tap()
            self._xdp_mode, self._warnings = self._tap.xdp_mode, self._tap.warnings

    def _make_folder(self) -> Path:
        wanted = self._settings.folder
        if wanted is not None and self._settings.keep:
            wanted.mkdir(parents=True, exist_ok=True)
            return wanted
        scratch = tempfile.TemporaryDirectory(prefix="weir-monitor-", dir=wanted)
        self._opened.callback(scratch.cleanup)
        self._claim.own(Path(scratch.name))
        return Path(scratch.name)

    def _open_tap(self) -> Tap:
        settings = self._settings
        options: dict[str, Any] = {}
        if settings.method == "tap-ring":
            options = {"ring": True}
        elif settings.method == "tap-mirror":
            options = {
                "mirror": wiring.MIRROR,
                "logger_mac": mac_bytes(wiring.LOGGER_MAC),
                "mirror_cpu": self._recorder_cpu,
            }
        return open_tap(
            a=wiring.IN,
            b=wiring.OUT,
            netns=self._netns["tap"].name,
            ring_bytes=settings.ring_bytes,
            snap_bytes=settings.snap_bytes,
            link_first=settings.link_first,
            **options,
        )

    @shielded
    def _begin_recording(self) -> MonitorRecorder | None:
        self._recording = self._new_recording()
        return self._recording

    def _new_recording(self) -> MonitorRecorder | None:
        settings, method = self._settings, self._settings.method
        name = f"{method}-{time.time_ns()}"
        if method in ("tcpdump-bridge", "tcpdump-receiver"):
            on_bridge = method == "tcpdump-bridge"
            return Tcpdump(
                self._netns["tap" if on_bridge else "rx"],
                wiring.IN if on_bridge else wiring.RX,
                self._folder / f"{name}.pcap",
                self._netns["tx"],
                settings=settings,
                cpu=self._recorder_cpu,
            )
        if method == "tap-ring":
            assert self._tap is not None
            source = FrameSource(ring_fds=tuple(self._tap.ring_fds()))
        elif method == "tap-mirror":
            source = FrameSource(interface=wiring.LOGGER, netns=self._netns["log"].name)
        else:
            return None
        how = link_settings.RecorderSettings(
            self._folder / f"{name}.pcapng",
            snap_bytes=settings.snap_bytes,
            ring_bytes=settings.ring_bytes,
            cpu=self._recorder_cpu,
        )
        return OwnRecorder(how, source, keep=settings.keep)

    @contextmanager
    @shielded
    def _stalling(self, pid: int, at_s: float, pause_s: float) -> Iterator[None]:
        """Meanwhile the recorder's process is stopped once and goes on; at the end it goes on for sure."""
        over = threading.Event()

        def stop_and_go() -> None:
            if over.wait(at_s):
                return
            begun_ns = time.time_ns()
            os.kill(pid, signal.SIGSTOP)
            over.wait(pause_s)
            os.kill(pid, signal.SIGCONT)
            self._stalled_ns = begun_ns, time.time_ns()

        thread = threading.Thread(target=stop_and_go, name="weir-stall")
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def _read(self) -> dict[str, int]:
        return super().counters() | (self._tap_counters() if self._tap is not None else {})

    def _settled(self) -> dict[str, int]:
        """The counters when no frame is on its way any more, be it to the far end or to the logger."""
        end = time.monotonic() + _PATIENCE_S
        last = self._read()
        while time.monotonic() < end:
            time.sleep(_LOOK_EVERY_S)
            now = self._read()
            if now == last and self._waiting() == 0:
                return now
            last = now
        return last

    def _waiting(self) -> int:
        """Frames in the ring that have yet to leave for the logger."""
        mirror = None if self._tap is None else self._tap.counters().get("mirror")
        return int(mirror["waiting"]) if mirror else 0

    def _tap_counters(self) -> dict[str, int]:
        assert self._tap is not None
        raw = self._tap.counters()
        values = {f"tap_{name}": int(raw["a"][name]) for name in _OF_TAP}
        mirror = raw.get("mirror") or {}
        values |= {f"mirror_{name}": int(mirror[name]) for name in ("sent", "not_sent") if name in mirror}
        return values


def spare_cpu(cores: Cores, allowed: set[int]) -> int:
    """The CPU for who records: one that neither sends nor forwards, else the one that forwards."""
    left = sorted(allowed - {cores.sender, cores.dut})
    return left[0] if left else cores.dut

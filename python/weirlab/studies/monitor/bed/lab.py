"""One way to monitor a link, built up in network namespaces and ready for trials."""

from __future__ import annotations

import os
import platform
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pyroute2.netlink.exceptions import NetlinkError

from weirlab.errors import LabError, MissingCapability
from weirlab.interrupts import shielded
from weirlab.lab import clean
from weirlab.lab.cores import Cores, choose, share_a_core
from weirlab.lab.host import HostReader
from weirlab.lab.isolation.aside import aside
from weirlab.lab.linux.counters import Counters
from weirlab.lab.linux.namespace import Namespace
from weirlab.lab.linux.privilege import way_out
from weirlab.lab.wiring import mac_bytes
from weirlab.link import settings as link_settings
from weirlab.link.recording.process import Source
from weirlab.records import EngineResult, HostSample
from weirlab.studies.monitor.bed import tcpdump, wiring
from weirlab.studies.monitor.bed.base import Recording, Settings, Stages, TapLike
from weirlab.studies.monitor.bed.recording import OwnRecorder
from weirlab.studies.monitor.bed.stages import stages_of
from weirlab.studies.monitor.bed.tcpdump import Tcpdump
from weirlab.traffic.schedule import compile_plan
from weirlab.traffic.spec import Traffic

if TYPE_CHECKING:
    from weirlab._engine import Engine

_OF_TAP: Final = ("received", "not_forwarded", "copied", "not_copied", "cut")
_PATIENCE_S: Final = 10.0
_LOOK_EVERY_S: Final = 0.01

OpenTap = Callable[..., TapLike]


def open_tap(**options: Any) -> TapLike:
    """``weirlab._engine.Tap``, when it is needed."""
    try:
        from weirlab._engine import Tap
    except ImportError as error:
        raise LabError(f"the engine is not built ({error}); make build builds it") from error
    return Tap(**options)


class LinkLab:
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

    __test__ = False

    lab = "netns"

    def __init__(self, settings: Settings, cores: Cores | None = None) -> None:
        self._settings = settings
        if settings.method.startswith("tcpdump"):
            tcpdump.check()
        self._engine: Engine | None = None
        self._tap: TapLike | None = None
        self._recording: Recording | None = None
        self._xdp_mode = ""
        self._warnings: list[str] = []
        self._stages: Stages | None = None
        self._stalled_ns: tuple[int, int] | None = None
        self._opened = ExitStack()
        clean.clean()
        self._cores = cores or choose()
        bound = settings.recorder == "bound"
        self._recorder_cpu = spare_cpu(self._cores, os.sched_getaffinity(0)) if bound else None
        self._host = HostReader({"sender": self._cores.sender, "dut": self._cores.dut})
        self._claim = clean.Claim()
        self._netns = {
            part: Namespace(self._claim.namespace_name(part)) for part in wiring.parts(settings.method)
        }
        try:
            # Before the bridge's threads are bound: the kernel would unbind them.
            spared = () if self._recorder_cpu is None else (self._recorder_cpu,)
            self._claim.isolate({self._cores.sender, self._cores.dut}, spared)
            with _explained():
                self._build()
        except BaseException:
            self.close()
            raise

    @property
    def dut(self) -> str:
        return self._settings.method

    @property
    def backend(self) -> str:
        assert self._engine is not None
        return str(self._engine.backend)

    @property
    def facts(self) -> Mapping[str, object]:
        fallback = self._engine.fallback_reason if self._engine is not None else None
        refused = self._engine.real_time_refused if self._engine is not None else None
        isolation = self._claim.isolation
        return {
            "kernel": platform.release(),
            "sender_cpu": self._cores.sender,
            "bridge_cpu": self._cores.dut,
            "recorder_cpu": self._recorder_cpu,
            "cpus_share_a_core": share_a_core(self._cores),
            "napi": f"threaded, bound to CPU {self._cores.dut}",
            "records": str(self._folder),
            "ring_bytes": self._settings.ring_bytes,
            **({"tcpdump": tcpdump.version()} if self._settings.method.startswith("tcpdump") else {}),
            **({"xdp_mode": self._xdp_mode} if self._xdp_mode else {}),
            **({"tap_warnings": "; ".join(self._warnings)} if self._warnings else {}),
            **({"fallback_reason": fallback} if fallback else {}),
            **({"real_time_refused": refused} if refused else {}),
            **({"isolation": isolation.words} if isolation else {}),
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
                    result = self._play(traffic)
            else:
                result = self._play(traffic)
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
        return {}

    def host(self) -> HostSample:
        return self._host.sample()

    def close(self) -> None:
        """Remove everything that this lab made. May be called twice."""
        engine, self._engine = self._engine, None
        tap, self._tap = self._tap, None
        recording, self._recording = self._recording, None
        with ExitStack() as leaving:
            # In reverse: recorder, tap, engine, then what they stood on.
            leaving.callback(self._claim.release)
            leaving.callback(self._opened.close)
            for thing in (engine, tap, recording):
                if thing is not None:
                    leaving.callback(thing.close)

    def __enter__(self) -> LinkLab:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _build(self) -> None:
        from weirlab.lab.engine import warm_up

        method = self._settings.method
        self._folder = self._make_folder()
        self._host.watch(wiring.build(self._netns, method, self._cores.dut))
        self._meters = {
            "tx": Counters(self._netns["tx"], {"tx": wiring.TX}),
            "tap": Counters(self._netns["tap"], {"in": wiring.IN, "out": wiring.OUT}),
            "rx": Counters(self._netns["rx"], {"rx": wiring.RX}),
        }
        if "log" in self._netns:
            self._meters["log"] = Counters(self._netns["log"], {"log": wiring.LOGGER})
        for meter in self._meters.values():
            self._opened.callback(meter.close)
        self._engine = self._open_engine()
        warm_up(self._engine, mac_bytes(wiring.TX_MAC), mac_bytes(wiring.RX_MAC))
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

    def _open_engine(self) -> Engine:
        try:
            from weirlab._engine import Engine
        except ImportError as error:
            raise LabError(f"the engine is not built ({error}); make build builds it") from error
        at_receiver = self._settings.method == "tcpdump-receiver"
        return Engine(
            tx_netns=self._netns["tx"].name,
            tx_if=wiring.TX,
            rx_netns=self._netns["rx"].name,
            rx_if=wiring.SPARE if at_receiver else wiring.RX,
            tx_cpu=self._cores.sender,
            spin_cpu=self._cores.dut,
            backend=self._settings.backend,
        )

    def _open_tap(self) -> TapLike:
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
    def _begin_recording(self) -> Recording | None:
        self._recording = self._new_recording()
        return self._recording

    def _new_recording(self) -> Recording | None:
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
            source = Source(ring_fds=tuple(self._tap.ring_fds()))
        elif method == "tap-mirror":
            source = Source(interface=wiring.LOGGER, netns=self._netns["log"].name)
        else:
            return None
        how = link_settings.Recording(
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

    def _play(self, traffic: Traffic) -> EngineResult:
        from weirlab.lab.engine import to_result

        assert self._engine is not None
        plan = compile_plan(traffic)
        with self._host.polling(), aside((self._cores.sender, self._cores.dut)):
            raw = self._engine.run(plan, mac_bytes(wiring.TX_MAC), mac_bytes(wiring.RX_MAC))
        return to_result(raw, plan)

    def _read(self) -> dict[str, int]:
        values: dict[str, int] = {}
        for meter in self._meters.values():
            values |= meter.read()
        return values | (self._tap_counters() if self._tap is not None else {})

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


@contextmanager
def _explained() -> Iterator[None]:
    """Turns what the kernel answers into errors that say what to do."""
    try:
        yield
    except PermissionError as error:
        raise MissingCapability(f"{error.strerror}; {way_out(error)}") from error
    except (OSError, NetlinkError) as error:
        raise LabError(f"the link cannot be built: {error}; see weir doctor") from error

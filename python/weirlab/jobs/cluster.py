"""Work carried to other machines by Dask distributed; ``worker`` is the other side.

Dask only carries. What was done is in the store of whoever asked for it, so a worker or a scheduler that dies
costs the work under way and nothing else. Test beds offer the resource ``testbed``, other workers
``analysis``, and every worker what a job requires and it has (``kernel>=6.1``): nothing is placed by address.
"""

from __future__ import annotations

import ipaddress
import math
import os
import queue
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from weirlab.base.errors import InputError, LabError
from weirlab.base.extras import CLUSTER
from weirlab.jobs.status import WorkerStatus
from weirlab.jobs.worker import REPORT, STATE, TESTBED, meets, quiet

PATIENCE_S: Final = 600.0
"""How long a scheduler may be away."""
FIRST_PATIENCE_S: Final = 15.0
"""How long it may take to answer for the first time."""
_LOOK_S: Final = 0.5
_MOST_OFFSET_S: Final = 5.0
"""By how much the clock of a test bed may differ from that of the campaign."""

distributed: Any = CLUSTER.deferred("distributed")


@dataclass(frozen=True)
class ClusterAddress:
    """A scheduler, and how connections to it are protected."""

    url: str
    ca: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
    plain: bool = False
    """Connections without TLS are accepted beyond this machine, too."""

    def security(self) -> Any:
        """The ``Security`` of Dask; raises ``InputError`` for an address that cannot be used."""
        CLUSTER.require()
        match = re.fullmatch(r"(tcp|tls)://(\[[^]]+\]|[^:/\[\]]+):(\d+)", self.url)
        if match is None:
            raise InputError(f"{self.url}: write the scheduler as tcp://HOST:8786 or tls://HOST:8786")
        files = (self.ca, self.certificate, self.key)
        if match[1] == "tls":
            if None in files:
                raise InputError("tls:// needs --tls-ca, --tls-cert and --tls-key")
            for path in files:
                if path is not None and not os.access(path, os.R_OK):
                    raise InputError(f"{path}: no such file, or it cannot be read")
            given = {"require_encryption": True, "tls_ca_file": str(self.ca)}
            for role in ("client", "worker", "scheduler"):
                given |= {f"tls_{role}_cert": str(self.certificate), f"tls_{role}_key": str(self.key)}
            return distributed.Security(**given)
        if any(files):
            raise InputError("--tls-ca, --tls-cert and --tls-key go with an address that begins with tls://")
        if not (self.plain or _is_local(match[2].strip("[]"))):
            raise InputError(
                f"{self.url}: whoever reaches a scheduler can run any code on its workers; use tls:// with "
                "certificates, or --plain in a network that you trust"
            )
        return distributed.Security()


def _is_local(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class _Offers:
    """Lets each worker offer what jobs require and it has; a plug-in of Dask's workers."""

    name = "weir-offers"
    idempotent = False

    def __init__(self, requirements: Sequence[str]) -> None:
        self.requirements = tuple(requirements)

    async def setup(self, worker: Any) -> None:
        own = {text: 1e9 for text in self.requirements if meets(STATE.facts, text)}
        if own:
            await worker.set_resources(**own)


@dataclass(frozen=True)
class Done:
    """A call that ended: its result, or its error."""

    key: int
    value: Any = None
    error: BaseException | None = None


class Cluster:
    """Calls of functions by workers; as a context manager, it ends the connection.

    A call under way when the scheduler dies is made again when there is one: functions must not mind. They
    return something, never None.
    """

    def __init__(
        self,
        address: ClusterAddress,
        resource: str,
        tell: Callable[[str], object],
        requirements: Sequence[str] = (),
    ) -> None:
        self._address, self._security = address, address.security()
        quiet()
        self._tell, self._requirements = tell, tuple(requirements)
        self._resources = {resource: 1, **dict.fromkeys(self._requirements, 1)}
        self._resource = resource
        self._calls: dict[int, tuple[Callable[..., Any], tuple[Any, ...]]] = {}
        self._futures: dict[int, Any] = {}
        self._ended: queue.SimpleQueue[tuple[int, Any]] = queue.SimpleQueue()
        self._made, self._complained_s = 0, time.monotonic()
        self._fit: dict[str, bool] = {}
        self._lost = False
        self._workers: Mapping[str, Any] = {}
        self._looked_s = -math.inf
        self._statuses: dict[str, WorkerStatus] = {}
        self._beats: dict[str, float] = {}
        """By worker its last heartbeat, by the clock of the scheduler."""
        self._client = self._connected(FIRST_PATIENCE_S)

    @property
    def room(self) -> int:
        """How many more calls keep the workers busy."""
        return max(2 * len(self.workers()), 1) - len(self._calls)

    def workers(self) -> Mapping[str, Any]:
        """The workers that offer everything required, by address."""
        if time.monotonic() - self._looked_s < _LOOK_S:
            return self._workers
        try:
            known = self._client.scheduler_info(n_workers=-1)["workers"]
        except Exception:
            known = {}
        else:
            self._note(known.values(), time.time())
        self._looked_s = time.monotonic()
        self._workers = {
            place: one
            for place, one in known.items()
            if all(one["resources"].get(name, 0) >= much for name, much in self._resources.items())
        }
        if self._resource == TESTBED:
            # A scheduler that just died is noticed by whoever waits for results.
            with suppress(Exception):
                self._quarantine_wrong_clocks()
            self._workers = {place: one for place, one in self._workers.items() if self._fit.get(place)}
        return self._workers

    def statuses(self) -> tuple[WorkerStatus, ...]:
        """All workers of this kind that were ever there, suitable or not, by name."""
        self.workers()
        return tuple(self._statuses[name] for name in sorted(self._statuses))

    def _note(self, known: Iterable[Mapping[str, Any]], now_s: float) -> None:
        """Keep what workers said with their last heartbeats."""
        here = set[str]()
        for one in known:
            told = one["metrics"].get(REPORT)
            if self._resource not in one["resources"] or told is None:
                continue
            name, beat = str(one["name"]), float(one["last_seen"])
            here.add(name)
            before = self._statuses.get(name)
            new = before is None or before.gone or self._beats[name] != beat
            self._beats[name] = beat
            facts = told["facts"]
            status = WorkerStatus(
                name,
                facts,
                seen_s=now_s if new or before is None else before.seen_s,
                lacking=", ".join(text for text in self._requirements if not meets(facts, text)),
                # Its last heartbeat may be from before.
                quarantine=told["quarantine"] or ("" if before is None else before.quarantine),
            )
            if "place" in told:
                begun_s = now_s - told["elapsed_s"] if new or before is None else before.since_s
                status = replace(
                    status,
                    run_id=told["run_id"],
                    doing=told["place"],
                    since_s=begun_s,
                    until_s=begun_s + told["lease_s"] if told["lease_s"] else 0.0,
                    done=told["done"],
                    total=told["total"],
                )
            self._statuses[name] = status
        for name in self._statuses.keys() - here:
            self._statuses[name] = replace(self._statuses[name], gone=True, doing="", run_id="")

    def _quarantine_wrong_clocks(self) -> None:
        """Let no new test bed work whose clock differs from this one's."""
        new = [place for place in self._workers if place not in self._fit]
        begun = time.time()
        clocks = self.run_everywhere(time.time, workers=new) if new else {}
        for place, clock in clocks.items():
            offset = max(begun - clock, clock - time.time())
            self._fit[place] = offset <= _MOST_OFFSET_S
            if not self._fit[place]:
                why = f"its clock is {offset:.0f} s away from that of the campaign"
                self.run_everywhere(_retire_in_loop, why, workers=[place])
                self.note_quarantine(str(self._workers[place]["name"]), why)

    def note_quarantine(self, name: str, why: str) -> None:
        """Tell, and remember, why the worker ``name`` measures nothing any more."""
        self._tell(f"the test bed {name} is quarantined: {why}")
        known = self._statuses.get(name, WorkerStatus(name, seen_s=time.time()))
        self._statuses[name] = replace(known, quarantine=why)

    def submit(self, key: int, function: Callable[..., Any], *arguments: Any) -> None:
        """Let a worker call ``function``; its result has ``key``."""
        self._calls[key] = (function, arguments)
        self._send(key)

    def results(self) -> Iterator[Done]:
        """Calls that ended; waits a while for the first."""
        limit_s = _LOOK_S
        ended: tuple[int, Any]
        future: Any
        while True:
            try:
                ended = self._ended.get(timeout=limit_s)
            except queue.Empty:
                break
            key, future = ended
            limit_s = 0.001
            if id(self._futures.get(key)) != id(future) or future.status == "cancelled":
                continue
            try:
                failed = future.status != "finished"
                done = Done(key, error=future.exception()) if failed else Done(key, future.result())
            except Exception:
                # The scheduler died before the result was fetched.
                self._lost = True
                break
            if done.error is None and done.value is None:
                # So do futures of a scheduler that died, but no call.
                self._lost = True
                break
            del self._futures[key], self._calls[key]
            yield done
        self._check()

    def run_everywhere(self, function: Callable[..., Any], *arguments: Any, workers: Sequence[str]) -> Any:
        """Call ``function`` on each of ``workers`` beside their work; results by address."""
        return self._client.run(function, *arguments, workers=list(workers), on_error="ignore")

    def _send(self, key: int) -> None:
        function, arguments = self._calls[key]
        self._made += 1
        future = self._client.submit(
            function,
            *arguments,
            key=f"weir-{os.getpid()}-{key}-{self._made}",
            resources=self._resources,
            pure=False,
        )
        self._futures[key] = future
        future.add_done_callback(lambda done: self._ended.put((key, done)))

    def _check(self) -> None:
        """Find a scheduler again if it died, and say if nobody works."""
        lost = self._lost or any(future.status == "cancelled" for future in self._futures.values())
        if lost or self._client.status != "running":
            self._tell(
                f"the scheduler at {self._address.url} does not answer; what is under way is done again"
            )
            self._close()
            self._client = self._connected(PATIENCE_S)
            self._futures.clear()
            self._lost = False
            for key in self._calls:
                self._send(key)
            return
        found = self.workers()
        if found:
            self._complained_s = time.monotonic()
        elif time.monotonic() - self._complained_s > 15:
            self._complained_s = time.monotonic() + 45
            needed = " and ".join(self._resources)
            self._tell(f"no worker at {self._address.url} offers {needed}; start one with weir worker")

    def _connected(self, patience_s: float) -> Any:
        """A client; raises ``LabError`` if no scheduler answers for ``patience_s``."""
        until = time.monotonic() + patience_s
        while True:
            try:
                client = distributed.Client(
                    self._address.url, security=self._security, timeout=5, set_as_default=False
                )
                if self._requirements:
                    client.register_plugin(_plugin(self._requirements))
                return client
            except (OSError, TimeoutError) as error:
                if time.monotonic() > until:
                    raise LabError(
                        f"no scheduler answers at {self._address.url} ({error}); start one: dask scheduler"
                    ) from None
                time.sleep(1)

    def _close(self) -> None:
        with suppress(OSError, TimeoutError):
            self._client.close(timeout=2)

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        self._close()


async def _retire_in_loop(why: str) -> None:
    """As :func:`retire`, called by Dask in the thread of its loop."""
    STATE.quarantine = why
    await STATE.worker.set_resources(**{TESTBED: 0})


def _plugin(requirements: Sequence[str]) -> Any:
    kind = type("Offers", (_Offers, distributed.WorkerPlugin), {})
    return kind(requirements)


def failure(error: BaseException) -> str:
    """What an error of a call means."""
    if type(error).__name__ == "KilledWorker":
        return "every worker that tried it died"
    return f"{type(error).__name__}: {error}"

"""Captures from upload to graph: what happens when, and in which child process."""

from __future__ import annotations

import os
import secrets
import shutil
import threading
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Final, cast

from fastapi.concurrency import contextmanager_in_threadpool
from starlette.concurrency import run_in_threadpool

from weirlab.base import files
from weirlab.base.errors import DiskFull, InputError
from weirlab.trace import wording
from weirlab.trace.facts import Analysis, Connection, SideName, busier
from weirlab.trace.quantities import size
from weirlab.web import failures
from weirlab.web.captures import arrays, child
from weirlab.web.children import ChildFailure, Children, ServiceShutdown
from weirlab.web.launching.jobs import CaptureJob
from weirlab.web.measurements.measurement import Measurement, Measurements
from weirlab.web.measurements.space import NOTE_BYTES, Growth, NoRoom, Space, SpaceReservation, TooLarge
from weirlab.web.settings import WebSettings

_PART_BYTES: Final = 1 << 20
"""Written at once, with one switch to a thread per part."""


def too_large(limit: int) -> TooLarge:
    return TooLarge(
        f"The capture is larger than the {size(limit)} that are allowed here. Send a part of it, compress it "
        "with zstd, or analyse it on your own machine with: weir trace"
    )


async def receive(path: Path, chunks: AsyncIterator[bytes], limit: int, claim: SpaceReservation) -> int:
    """Write ``chunks`` to the new file ``path``; returns how many bytes there were.

    Raises
    ------
    TooLarge
        There are more than ``limit``.
    NoRoom
        The ``claim`` cannot grow to what comes.
    StoreError
        The file cannot be written.
    """
    written, part = 0, bytearray()
    with files.telling(path, "write"):
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        async for chunk in chunks:
            written += len(chunk)
            if written > limit:
                raise too_large(limit)
            part += chunk
            if len(part) >= _PART_BYTES:
                await run_in_threadpool(_write, fd, path, bytes(part), written, claim)
                part.clear()
        await run_in_threadpool(_write, fd, path, bytes(part), written, claim, True)
    finally:
        os.close(fd)
    return written


def _write(
    fd: int, path: Path, content: bytes, written: int, claim: SpaceReservation, last: bool = False
) -> None:
    """Write ``content``, with which there are ``written`` bytes."""
    claim.need(written + NOTE_BYTES)
    claim.use(written + NOTE_BYTES)
    with files.telling(path, "write"):
        left = memoryview(content)
        while left:
            left = left[os.write(fd, left) :]
        if last:
            os.fsync(fd)


_REMEMBERED: Final = 4
"""Answers of the engine that are kept in memory: a few MB each."""


@dataclass
class UploadTally:
    """Counts of uploads since the service began."""

    received: int = 0
    received_bytes: int = 0
    refused: int = 0
    analysed: int = 0
    failed: int = 0


@dataclass
class CaptureService:
    """Takes captures, and keeps their results. Every method may be called from any thread."""

    settings: WebSettings
    measurements: Measurements
    space: Space
    children: Children
    tally: UploadTally = field(default_factory=UploadTally)
    _queued: list[str] = field(default_factory=list)
    _facts: OrderedDict[str, Analysis] = field(default_factory=OrderedDict)
    _making: dict[Path, Future[Any]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def go_on(self) -> None:
        """Continue what an earlier service left undone; uploads that broke off are removed."""
        for one in self.measurements.all():
            for left in one.path.glob(f"{child.PARTS}*"):
                left.unlink(missing_ok=True)
            for left in (one.path / child.GRAPHS).glob(child.SCRATCH):
                shutil.rmtree(left, ignore_errors=True)
            match one.state.stage:
                case "receiving" if one.state.kind == "capture":
                    self.measurements.discard(one)
                case "queued" | "working" if one.state.kind == "capture":
                    self._queue(one)

    async def take(self, name: str, chunks: AsyncIterator[bytes], announced: int | None) -> Measurement:
        """Store an upload of ``announced`` bytes, if that is known, and put it in the queue.

        An upload that breaks off is removed.

        Raises
        ------
        InputError
            It is empty, or larger than is allowed.
        NoRoom
            There is no room for it.
        StoreError
            It cannot be written.
        """
        try:
            self.measurements.require_writable()
            if announced is not None and announced > self.settings.most_upload_bytes:
                raise too_large(self.settings.most_upload_bytes)
            claim = await run_in_threadpool(self.space.claim, (announced or 0) + NOTE_BYTES)
            try:
                # Whatever waits for the disk does so in a thread, not in the event loop.
                async with contextmanager_in_threadpool(self._arriving(name, claim)) as one:
                    path = one.path / child.CAPTURE
                    most = self.settings.most_upload_bytes
                    number = await receive(path, chunks, most, claim)
                    if not number:
                        raise InputError(
                            "The upload is empty. Choose a capture: pcap or pcapng, plain or compressed."
                        )
                    await run_in_threadpool(one.change, stage="queued", size_bytes=number)
            finally:
                claim.release()
        except BaseException:
            self.tally.refused += 1
            raise
        self.tally.received += 1
        self.tally.received_bytes += number
        await run_in_threadpool(self._queue, one)
        return one

    @contextmanager
    def _arriving(self, name: str, claim: SpaceReservation) -> Iterator[Measurement]:
        with self.measurements.created("capture", name or "capture") as one:
            claim.cover(one)
            yield one

    def adopt(self, name: str, file: Path, claim: SpaceReservation) -> Measurement:
        """Take one of the service's own files as if it had been uploaded.

        It is moved, on the same disk; ``claim`` has its bytes until then.
        """
        with self.measurements.created("capture", name) as one:
            with files.telling(one.path, "write to"):
                file.rename(one.path / child.CAPTURE)
            number = (one.path / child.CAPTURE).stat().st_size
            one.change(stage="queued", size_bytes=number)
        claim.hand_over(one, number)
        self._queue(one)
        return one

    def forget(self, one: Measurement) -> None:
        """Release everything about a measurement that was removed."""
        with self._lock:
            self._facts.pop(one.data_id, None)
        arrays.release(one.path / child.GRAPHS)

    def ahead(self, one: Measurement) -> int:
        """The number of captures that are analysed before this one."""
        with self._lock:
            return self._queued.index(one.data_id) if one.data_id in self._queued else 0

    def facts(self, one: Measurement) -> Analysis:
        """The engine's analysis; raises ``InputError`` until it is ready."""
        state = one.state
        if state.kind != "capture" or state.stage != "ready":
            raise InputError("This is not an analysed capture.")
        with self._lock:
            if (found := self._facts.get(one.data_id)) is not None:
                self._facts.move_to_end(one.data_id)
                return found
        read = cast(Analysis, one.read(child.FACTS, dict))
        with self._lock:
            self._facts[one.data_id] = read
            while len(self._facts) > _REMEMBERED:
                self._facts.popitem(last=False)
        return read

    def connection(self, one: Measurement, number: int) -> Connection:
        """One of its connections; raises ``InputError`` if there is none with this number."""
        for each in self.facts(one)["connections"]:
            if each["id"] == number:
                return each
        raise InputError(f"This capture lists no connection {number}.")

    def arrays(self, one: Measurement, number: int, side: SideName) -> Future[Path]:
        """The folder of a direction's arrays, as soon as it is made."""
        self.connection(one, number)
        path = one.path / child.GRAPHS / arrays.name(number, side)

        def draw() -> None:
            with self.space.growing(one) as growth:
                self._draw(one, number, side, growth)

        return self._made(path, draw)

    def why(self, one: Measurement, number: int) -> Future[Path]:
        """The file that says why a connection was not faster, as soon as it is made."""
        self.connection(one, number)
        return self._reasons(one, f"{number}.json", {"do": "explain", "connection": number})

    def causes(self, one: Measurement) -> Future[Path]:
        """The file that names the main cause of each connection, as soon as it is made."""
        self.facts(one)
        return self._reasons(one, child.CAUSES, {"do": "causes"})

    def _reasons(self, one: Measurement, name: str, request: dict[str, Any]) -> Future[Path]:
        def explain() -> None:
            with self.space.growing(one) as growth:
                self._ask(one, {**request, "name": one.state.name}, growth)

        return self._made(one.path / child.WHY / name, explain)

    def part(self, one: Measurement, request: Mapping[str, Any]) -> Future[BinaryIO]:
        """A file that a child process makes, open for reading and already removed from the disk.

        ``request`` names what the child does.
        """
        self.measurements.require_writable()
        path = one.path / f"{child.PARTS}{secrets.token_hex(8)}"

        def make() -> BinaryIO:
            try:
                with self.space.growing(one) as growth:
                    self._ask(one, {**request, "name": one.state.name, "target": path.name}, growth)
                    return self.space.taken(path)
            finally:
                path.unlink(missing_ok=True)

        return self.children.submit(make, urgent=True)

    def opened(self, one: Measurement, path: Path) -> BinaryIO:
        """A file of ``one`` for reading; its data is not removed until that is closed."""
        return self.space.opened(one, path)

    def _made(self, path: Path, make: Callable[[], object]) -> Future[Path]:
        """``path`` as soon as ``make`` has made it; it is made once for all requests."""
        done: Future[Path] = Future()
        with self._lock:
            if path.exists():
                done.set_result(path)
                return done
            self.measurements.require_writable()
            if path not in self._making:
                self._making[path] = self.children.submit(make, urgent=True)
            made = self._making[path]

        def finished(future: Future[object]) -> None:
            with self._lock:
                self._making.pop(path, None)
            if future.cancelled():
                done.set_exception(ServiceShutdown("The service ends."))
            elif (error := future.exception()) is not None:
                done.set_exception(error)
            else:
                done.set_result(path)

        made.add_done_callback(finished)
        return done

    def _queue(self, one: Measurement) -> None:
        self.space.note(one)
        with self._lock:
            self._queued.append(one.data_id)
        self.children.submit(lambda: self._analyse(one))

    def _analyse(self, one: Measurement) -> None:
        with self._lock:
            self._queued.remove(one.data_id)
        try:
            self._analysed(one)
        finally:
            self.space.note(one)

    def _analysed(self, one: Measurement) -> None:
        state = one.advance(stage="working")
        # What an interrupted attempt left.
        shutil.rmtree(one.path / child.SERIES, ignore_errors=True)
        try:
            with self.space.growing(one) as growth:
                told = self._ask(one, {"do": "analyse", "name": state.name}, growth)
                read = cast(Analysis, one.read(child.FACTS, dict))
                self._draw_greatest(one, read, growth)
        except ServiceShutdown:
            one.advance(stage="queued")
            raise
        except Exception as error:
            self.tally.failed += 1
            # What was made of it is of no use.
            for left in (child.SERIES, child.GRAPHS):
                shutil.rmtree(one.path / left, ignore_errors=True)
            one.advance(stage="failed", message=failures.explain(error).message)
            return
        self.tally.analysed += 1
        one.advance(stage="ready", facts={**told, "conclusion": wording.capture(read)})

    def _draw_greatest(self, one: Measurement, read: Analysis, growth: Growth) -> None:
        """Draw the largest connection, so that its graphs are ready when the page requests them."""
        if listed := read["connections"]:
            first = max(listed, key=lambda each: each["a"]["link_bytes"] + each["b"]["link_bytes"])
            try:
                self._draw(one, first["id"], busier(first), growth)
            except ServiceShutdown:
                raise
            except (ChildFailure, NoRoom, DiskFull):
                # A request for the graphs will get the error; the numbers are there.
                return

    def _draw(self, one: Measurement, number: int, side: SideName, growth: Growth) -> None:
        if not (one.path / child.GRAPHS / arrays.name(number, side)).exists():
            scratch = child.SCRATCH.replace("*", secrets.token_hex(8))
            request = {"do": "draw", "name": one.state.name, "connection": number, "side": side}
            try:
                self._ask(one, {**request, "scratch": scratch}, growth)
            finally:
                # If the child was killed, or the disk is full.
                shutil.rmtree(one.path / child.GRAPHS / scratch, ignore_errors=True)
                with suppress(OSError):
                    (one.path / child.GRAPHS).rmdir()

    def _ask(self, one: Measurement, request: dict[str, Any], growth: Growth) -> Any:
        limits = {
            "memory_bytes": self.settings.memory_bytes,
            "most_s": round(self.settings.most_s),
            "file_bytes": self.settings.most_kept_bytes,
        }
        return self.children.ask(
            CaptureJob(one.data_id),
            {**request, **limits},
            most_s=self.settings.most_s,
            unwanted=growth.check,
        )

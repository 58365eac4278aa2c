"""An emulated link between two routers: it only applies delay, rate, queue, loss and reordering."""

from __future__ import annotations

import json
import math
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

from weirlab.base import programs
from weirlab.base.errors import InputError, LabError
from weirlab.base.files import Inputs
from weirlab.base.interrupts import shielded
from weirlab.base.quantities import plural
from weirlab.base.quoting import quoted
from weirlab.emulation.reading import READERS, LinkSpec, read_both
from weirlab.lab import wiring
from weirlab.lab.base import Driver, Site
from weirlab.lab.dut import tool
from weirlab.lab.dut.datapaths import carrier
from weirlab.lab.dut.rules import INSTEAD, check_none
from weirlab.lab.isolation import partition
from weirlab.lab.linux import interface
from weirlab.lab.linux.interface import Port
from weirlab.lab.linux.namespace import Namespace, write_sysctls
from weirlab.records import RuleSetup

_NEAR_END: Final = Port("near0", "02:77:65:69:72:31", "", "")
_FAR_END: Final = Port("far0", "02:77:65:69:72:32", "", "")
_PATIENCE_S: Final = 15.0
"""How long no frame may leave the link, beyond its delay; also the time limit for the process to end."""
_LOOK_S: Final = 0.01


def understood(text: str | None) -> LinkSpec:
    """Parse the settings ``text`` of both directions; raises ``InputError`` for what is not understood."""
    words: dict[str, dict[str, str]] = {"both": {}, **{way: {} for way in carrier.WAYS}}
    for word in text.split(":") if text is not None else ():
        key, equals, value = word.partition("=")
        way, dot, name = key.rpartition(".")
        if not equals or name not in READERS or (dot and way not in carrier.WAYS):
            raise InputError(
                f"{quoted(word)} of link not understood; use e.g. 'delay=25ms', 'up.rate=10Mbps' "
                f"and 'down.queue=50pkts'; known: {', '.join(READERS)}"
            )
        found = words[way or "both"]
        if name in found:
            raise InputError(f"{quoted(word)} of link repeats an earlier setting: leave one out")
        found[name] = value
    try:
        return read_both({**words["both"], **words["up"]}, {**words["both"], **words["down"]})
    except InputError as error:
        raise _of_link(error) from error


def _of_link(error: InputError) -> InputError:
    return InputError(f"link: {str(error).removeprefix('--')}")


class EmulatedLinkDriver(Driver):
    """Two routers with the emulated link of ``weir link`` between them.

    Parameters
    ----------
    asked:
        The names and values of ``weir link``, separated by colons (``delay=25ms:rate=10Mbps:queue=50pkts``).
        After ``up.`` or ``down.`` they apply to one direction; up is from the sender to the receiver. None
        for a cable.

    Raises
    ------
    InputError
        ``asked`` is not understood, or such a link is impossible.
    """

    gateways = 2
    joined = False
    takes_turns = True

    def __init__(self, asked: str | None) -> None:
        self.name = f"link:{asked}" if asked else "link"
        self._asked = understood(asked)
        self.files = self._asked.traces
        self._delay_s = max(path.delay_ns for path in (self._asked.up, self._asked.down)) / 1e9
        self._process: programs.Program[str] | None = None
        self._between: Namespace | None = None
        self._held = (0, 0.0, -math.inf)
        """The fewest frames seen on the link, since when, and when it was last asked."""

    def open_files(self, inputs: Inputs) -> None:
        try:
            self._asked = self._asked.with_traces(inputs)
        except InputError as error:
            raise _of_link(error) from error

    def check(self) -> list[str]:
        return tool.engine_missing()

    @shielded
    def start(self, site: Site) -> Sequence[int]:
        assert site.far is not None
        near, far = Namespace(site.netns), Namespace(site.far)
        self._between = between = Namespace(site.further("link"))
        between.create()
        between.call(partial(write_sysctls, {**wiring.QUIET, **wiring.WITHOUT_IPV6}))
        sides = (
            (near, wiring.NEAR, wiring.FAR, _NEAR_END, (*wiring.RECEIVERS, *site.hosts[1])),
            (far, wiring.FAR, wiring.NEAR, _FAR_END, (*wiring.SENDERS, *site.hosts[0])),
        )
        for gateway, here, there, end, networks in sides:
            with between.descriptor() as fd:
                gateway.call(partial(wiring.make_end, here, end, fd))
            gateway.call(partial(_bring_up, here, there, networks))
            between.call(partial(_bring_up, end))
        command = programs.own(carrier.__name__, _NEAR_END.name, _FAR_END.name, str(site.cpu))
        pipe = subprocess.PIPE
        self._process = process = between.call(
            partition.measuring(
                lambda: programs.start(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True)
            )
        )
        self._ask(carrier.request(self._asked))
        return [process.pid]

    @shielded
    def stop(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            try:
                process.communicate(timeout=_PATIENCE_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()
        between, self._between = self._between, None
        if between is not None:
            between.remove()

    def check_alive(self) -> None:
        self.counters()

    def holds(self) -> bool:
        """Whether frames are on the link; a queue may take as long as it needs at the link's rate.

        Raises ``LabError`` if the frames do not become fewer from call to call.
        """
        held, now_s = self._counted()["link_held"], time.monotonic()
        least, since_s, asked_s = self._held
        if held < least or now_s - asked_s > _PATIENCE_S:
            least, since_s = held, now_s
        elif held and now_s - since_s > self._delay_s + _PATIENCE_S:
            raise LabError(f"{self.name}: {plural(held, 'frame')} still on the link")
        self._held = (least, since_s, now_s)
        return held > 0

    def settle(self) -> None:
        while self.holds():
            time.sleep(_LOOK_S)

    def apply(self, site: Site, rules: RuleSetup) -> None:
        check_none(rules, self.name, "has no rules", INSTEAD)

    def counters(self) -> Mapping[str, int]:
        """What happened to frames in both directions; ``not_kept``: lost by the emulator itself."""
        found = self._counted()
        return {name: value for name, value in found.items() if name != "link_held"}

    def facts(self) -> Mapping[str, object]:
        words = zip(carrier.WAYS, (self._asked.up_words, self._asked.down_words), strict=True)
        said = {way: " ".join(f"{name} {value}" for name, value in each.items()) for way, each in words}
        return {
            "layout": "an emulated link between two routers",
            **{way: text or "a cable" for way, text in said.items()},
        }

    def _counted(self) -> Mapping[str, int]:
        if self._process is None:
            return {}
        found: Mapping[str, int] = json.loads(self._ask(""))
        return found

    def _ask(self, line: str) -> str:
        """The answer of the process to a line; raises ``LabError`` with its last output if it has ended."""
        process = self._process
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        with suppress(BrokenPipeError):
            process.stdin.write(line + "\n")
            process.stdin.flush()
        line = process.stdout.readline()
        if not line:
            _, problem = process.communicate()
            *_, said = problem.strip().splitlines() or ["no reason given"]
            raise LabError(f"{self.name}: the emulated link ended: {said}")
        return line


def _bring_up(port: Port, neighbour: Port | None = None, networks: Sequence[str] = ()) -> None:
    """Set ``port`` up, with routes to ``networks`` via ``neighbour``."""
    interface.set_offloads(port.name, gro=False)
    interface.bring_up([port], wiring.behind(neighbour, port, networks) if neighbour is not None else [])

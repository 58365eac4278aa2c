"""The file that describes a path: devices in series, and the flows through them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Final

from pydantic import Field, model_validator

from weirlab.base.amounts import parse_time
from weirlab.base.errors import InputError
from weirlab.base.quoting import quoted
from weirlab.scenario.document import read
from weirlab.scenario.load import validated
from weirlab.scenario.model import Section
from weirlab.scenario.values import Count
from weirlab.traffic.calls.mix import parse_mix
from weirlab.traffic.load import parse_rate
from weirlab.traffic.spec import Arrivals

ENDS: Final = (".yaml", ".yml")
"""Ends of the names of such files."""

Name = Annotated[str, Field(min_length=1, max_length=100)]


class PathDevice(Section):
    """A device of the path."""

    name: Name
    """What it is called here."""
    model: str
    """The model file or run with its fitted model."""
    device: str | None = None
    """Which device of ``model``, if there are several."""
    rules: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    """Mean matching position of the traffic."""
    cpu: str = ""
    """Devices with the same word here share a CPU; left out: it has its own."""


class PathBed(Section):
    """Profiles that tell what the test bed itself adds to every profile."""

    one: str
    """Model of the device ``forward``."""
    two: str
    """Model of ``forward`` twice in a row (``--dut forward --dut forward``)."""


class PathFlow(Section):
    """Stations of a kind that send alike. The load is ``codec``, or ``frame`` with ``cycle`` or ``rate``."""

    name: Name
    stations: Count = 1
    """How many senders; a call in one direction is one."""
    codec: str | None = None
    """Codecs of calls: g711, g729:40ms, ..."""
    frame: Annotated[int, Field(ge=64, le=9018)] | None = None
    """Ethernet frame with FCS, in bytes."""
    cycle: str | None = None
    """Time between two packets of a station: 4ms."""
    rate: str | None = None
    """Packets of a station per second: 500pps."""
    through: tuple[Name, ...] = ()
    """The devices that it passes, by name, in the order of the path; left out: all."""

    @model_validator(mode="after")
    def _whole(self) -> PathFlow:
        try:
            _ = self.load
        except InputError as error:
            raise ValueError(str(error)) from None
        return self

    @property
    def load(self) -> tuple[float, float]:
        """Packets per second of all stations, and their mean frame in bytes."""
        if self.codec is not None:
            if self.frame is not None or self.cycle is not None or self.rate is not None:
                raise InputError("'codec' says how large packets are and how often they come: give it alone")
            mix = parse_mix(self.codec)
            return self.stations * mix.rate_pps, mix.frame_bytes
        if self.frame is None or (self.cycle is None) == (self.rate is None):
            raise InputError("give 'codec', or 'frame' with either 'cycle' or 'rate'")
        if self.cycle is not None:
            return self.stations / parse_time(self.cycle, "cycle"), float(self.frame)
        assert self.rate is not None
        rate = parse_rate(self.rate)
        if rate.unit != "pps" or not rate.value > 0:
            raise InputError(f"the rate {quoted(self.rate)} of a flow is in packets per second, e.g. 500pps")
        return self.stations * rate.value, float(self.frame)


class PathDescription(Section):
    """A path."""

    path: Name
    """Its name."""
    devices: Annotated[tuple[PathDevice, ...], Field(min_length=1, max_length=16)]
    """From the senders to the receivers."""
    flows: Annotated[tuple[PathFlow, ...], Field(min_length=1, max_length=100)]
    arrivals: Arrivals = "poisson"
    """Gaps between the packets of all flows together."""
    bed: PathBed | None = None
    """Left out: every profile counts whole, so that delays are upper limits."""
    require: tuple[str, ...] = ()
    """Requirements on every flow: ``p99<10ms``, ``loss<0.1%``, ..."""

    @model_validator(mode="after")
    def _consistent(self) -> PathDescription:
        for what, names in (("device", self._names), ("flow", [flow.name for flow in self.flows])):
            if twice := sorted({name for name in names if names.count(name) > 1}):
                raise ValueError(f"there are two {what}s called {twice[0]!r}")
        for flow in self.flows:
            if unknown := [name for name in flow.through if name not in self._names]:
                raise ValueError(f"flow {flow.name!r} passes {unknown[0]!r}, which is none of the devices")
            if list(flow.through) != [name for name in self._names if name in flow.through]:
                raise ValueError(f"flow {flow.name!r} passes devices in another order than the path")
        return self

    @property
    def _names(self) -> list[str]:
        return [device.name for device in self.devices]

    def passed(self, flow: PathFlow) -> Iterator[PathDevice]:
        """The devices that a flow passes."""
        for device in self.devices:
            if not flow.through or device.name in flow.through:
                yield device


def read_path(path: Path) -> PathDescription:
    """Read the file; raises ``InputError`` with a line per problem, each beginning ``file:line:column``."""
    return validated(read(path), PathDescription)

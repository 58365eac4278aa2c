"""A device with its rules, and the calls that it is tried with."""

from __future__ import annotations

from dataclasses import dataclass, replace

from weirlab.records import RuleSetup, TrialSpec
from weirlab.traffic.calls.schedule import traffic_of
from weirlab.traffic.calls.spec import Calls


@dataclass(frozen=True)
class CallTraffic:
    """What all trials have in common but the position and the number of calls."""

    calls: Calls
    """Its number of calls means nothing."""
    stateful: bool = False

    @property
    def both_ways(self) -> bool:
        """Do packets come from both sides of the device?"""
        return self.calls.directions != "forward"

    @property
    def streams(self) -> int:
        """Voice streams per call that pass the device."""
        return 2 if self.calls.directions == "both" else 1

    @property
    def call_pps(self) -> float:
        """Packets of speech per second and call, all directions together; control packets come on top.

        Where people pause, as if they did not; of a trunk, whose packets carry many calls, what each
        call would need by itself.
        """
        return sum(one.share * one.stream.rate_pps for one in self.calls.classes) * self.streams

    def spec(
        self, position: int, count: int, *, trial_s: float, warmup_s: float, label: str = ""
    ) -> TrialSpec:
        """A trial with ``count`` calls through the device at ``position``."""
        traffic = traffic_of(replace(self.calls, count=count), trial_s, warmup_s)
        return TrialSpec(traffic, RuleSetup(position, self.stateful, both_ways=self.both_ways), label)

"""Which counters of two orders of rules are compared."""

from __future__ import annotations

from typing import Any, cast

from weirlab.lab.equivalence.bed import FilterBed
from weirlab.lab.equivalence.counters import difference, rule_counts
from weirlab.rules.chains import ChainKey

TABLE = "inet f"


class CountingBed:
    """Rules that have counted, by chain."""

    def __init__(self, shared: str = "", **chains: list[int]) -> None:
        self._chains, self._shared = chains, shared

    def own_chains(self) -> set[ChainKey]:
        return {(TABLE, name) for name in ("output", self._shared)}

    def chains(self) -> dict[ChainKey, list[list[Any]]]:
        return {
            (TABLE, name): [
                [{"counter": {"packets": packets, "bytes": 100 * packets}}, {"counter": f"of {name}"}]
                for packets in counts
            ]
            for name, counts in self._chains.items()
        }

    def named_counters(self) -> dict[tuple[str, str], tuple[int, int]]:
        return {(TABLE, f"counter of {name}"): (sum(all_), 0) for name, all_ in self._chains.items()}


def compared(before: CountingBed, after: CountingBed) -> str:
    walked = {(TABLE, "forward"), (TABLE, "web")}
    return difference(
        *(rule_counts(cast("FilterBed", bed), {}, walked, {}, set()) for bed in (before, after))
    )


def test_what_the_kernel_s_own_packets_count_may_differ() -> None:
    assert compared(CountingBed(forward=[5, 1], output=[7]), CountingBed(forward=[5, 1], output=[9])) == ""


def test_what_forwarded_packets_count_must_be_the_same() -> None:
    before = CountingBed(forward=[5], web=[2])
    assert compared(before, CountingBed(forward=[4], web=[2])) == "named counters differ"
    assert compared(before, CountingBed(forward=[5], web=[2])) == ""


def test_what_a_chain_counts_that_the_kernel_s_own_packets_enter_too_may_differ() -> None:
    beds = [CountingBed("web", forward=[5], web=[count]) for count in (2, 3)]
    assert compared(*beds) == ""
    beds = [CountingBed("web", forward=[count], web=[2]) for count in (2, 3)]
    assert "differ" in compared(*beds)

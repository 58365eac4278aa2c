"""The Rust engine: XDP live frames, packet sockets, and the simulated device."""

from collections.abc import Mapping
from typing import Any, Literal

from weirlab.traffic.schedule import Plan

class Engine:
    """Sender and receiver on two interfaces.

    ``tx_netns`` and ``rx_netns`` are names of network namespaces (``None``: this one);
    ``tx_cpu`` pins the sender; ``spin_cpu`` is kept awake during trials by a thread of class
    SCHED_IDLE. Raises ``MissingCapability`` when no allowed back end works and ``LabError``
    when a namespace or an interface is missing.
    """

    def __init__(
        self,
        *,
        tx_netns: str | None,
        tx_if: str,
        rx_netns: str | None,
        rx_if: str,
        tx_cpu: int | None = None,
        spin_cpu: int | None = None,
        backend: Literal["auto", "xdp", "af_packet"] = "auto",
    ) -> None: ...
    @property
    def backend(self) -> Literal["xdp", "af_packet"]: ...
    @property
    def xdp_mode(self) -> Literal["native", "generic", ""]: ...
    @property
    def fallback_reason(self) -> str | None: ...
    def run(self, plan: Plan, src_mac: bytes, dst_mac: bytes) -> dict[str, Any]:
        """Play ``plan``; blocks. Ctrl-C raises ``KeyboardInterrupt`` within some 20 ms."""

    def close(self) -> None: ...

def simulate(plan: Plan, device: Mapping[str, object]) -> dict[str, Any]:
    """Send ``plan`` through a simulated device. ``ValueError`` names a bad parameter.

    ``positions`` of the device has the matching position of each flow.
    """

def handover_ns(cpu: int, other: int) -> float | None:
    """Time in ns for a cache line to pass between two CPUs and back; about a millisecond.

    None where it cannot be told (one CPU, or no right to pin threads).
    """

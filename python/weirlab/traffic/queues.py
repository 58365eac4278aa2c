"""Receive-side scaling (RSS): which receive queue of a device, and so which CPU, takes in a flow.

Network cards compute the Toeplitz hash of addresses and ports, and look its last bits up in a table of
queues (Microsoft, "RSS hashing functions"; Linux, Documentation/networking/scaling.rst). Here the key is
that of Microsoft's examples, which many drivers have as well, and the table gives all queues the same number
of entries.
"""

from __future__ import annotations

from typing import Final, Literal

import numpy as np
import numpy.typing as npt

from weirlab.traffic.flows import FlowAddresses

U32 = npt.NDArray[np.uint32]

_KEY: Final = bytes.fromhex(
    "6d5a56da255b0ec24167253d43a38fb0d0ca2bcbae7b30b477cb2da38030f20c6a42b73bbeac01fa"
)
_ENTRIES: Final = 128
"""Of the table."""


def queues(flows: FlowAddresses, ip: Literal[4, 6], count: int) -> npt.NDArray[np.int64]:
    """The queue of each flow, from 0; shape (flows,). There are ``count`` queues."""
    if count == 1:
        return np.zeros(len(flows), dtype=np.int64)
    return (toeplitz(flows, ip) % np.uint32(_ENTRIES) % np.uint32(count)).astype(np.int64)


def shares(flows: FlowAddresses, ip: Literal[4, 6], count: int) -> tuple[float, ...]:
    """The share of the flows, and so of packets that flows send in turn, in each of ``count`` queues."""
    found = np.bincount(queues(flows, ip, count), minlength=count)
    return tuple((found / len(flows)).tolist())


def toeplitz(flows: FlowAddresses, ip: Literal[4, 6]) -> U32:
    """The hash of each flow's addresses and ports; shape (flows,)."""
    width = 4 if ip == 4 else 16
    ports = np.stack([flows.src_port, flows.dst_port], axis=1).astype(">u2").view(np.uint8)
    fields = np.concatenate([flows.src_ip[:, :width], flows.dst_ip[:, :width], ports], axis=1)
    key = np.unpackbits(np.frombuffer(_KEY, dtype=np.uint8))
    found = np.zeros(len(flows), dtype=np.uint32)
    for place in range(8 * fields.shape[1]):
        window = np.packbits(key[place : place + 32]).view(">u4")[0]
        is_set = fields[:, place // 8] & (0x80 >> place % 8) != 0
        found[is_set] ^= np.uint32(window)
    return found

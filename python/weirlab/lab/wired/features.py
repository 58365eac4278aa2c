"""What XDP can do at each interface, as the kernel reports it (netdev generic netlink, Linux 6.3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from pyroute2.netlink import NLM_F_DUMP, NLM_F_REQUEST, genlmsg
from pyroute2.netlink.exceptions import NetlinkError
from pyroute2.netlink.generic import GenericNetlinkSocket

_DEV_GET: Final = 1
_BASIC: Final = 1 << 0
_REDIRECT: Final = 1 << 1
_SEND: Final = 1 << 2
_TIMESTAMP: Final = 1 << 0


@dataclass(frozen=True)
class XdpFeatures:
    """Of one interface."""

    may_redirect: bool = False
    """Programs run in the driver and may redirect. Whether frames can be redirected *to* it often only shows
    once a program is attached there."""
    sends: bool = False
    """Frames can be redirected to it as it is now."""
    stamps: bool = False
    """Programs can read the time at which the hardware received a frame."""


NOTHING: Final = XdpFeatures()


class _DeviceMessage(genlmsg):  # type: ignore[misc]
    """``NETDEV_CMD_DEV_GET`` of linux/netdev.h."""

    nla_map = (
        ("NETDEV_A_DEV_UNSPEC", "none"),
        ("NETDEV_A_DEV_IFINDEX", "uint32"),
        ("NETDEV_A_DEV_PAD", "none"),
        ("NETDEV_A_DEV_XDP_FEATURES", "uint64"),
        ("NETDEV_A_DEV_XDP_ZC_MAX_SEGS", "uint32"),
        ("NETDEV_A_DEV_XDP_RX_METADATA_FEATURES", "uint64"),
        ("NETDEV_A_DEV_XSK_FEATURES", "uint64"),
    )


def xdp_features() -> dict[int, XdpFeatures] | None:
    """By index of each interface of this namespace; None if the kernel does not tell (before Linux 6.3)."""
    message = _DeviceMessage()
    message["cmd"], message["version"] = _DEV_GET, 1
    netlink = GenericNetlinkSocket()
    try:
        netlink.bind("netdev", _DeviceMessage)
        answers = netlink.nlm_request(message, netlink.prid, NLM_F_REQUEST | NLM_F_DUMP)
        return {answer.get_attr("NETDEV_A_DEV_IFINDEX"): _features(answer) for answer in answers}
    except (NetlinkError, OSError, KeyError):
        return None
    finally:
        netlink.close()


def _features(answer: Any) -> XdpFeatures:
    bits = answer.get_attr("NETDEV_A_DEV_XDP_FEATURES") or 0
    metadata = answer.get_attr("NETDEV_A_DEV_XDP_RX_METADATA_FEATURES") or 0
    return XdpFeatures(
        bits & (_BASIC | _REDIRECT) == _BASIC | _REDIRECT, bool(bits & _SEND), bool(metadata & _TIMESTAMP)
    )

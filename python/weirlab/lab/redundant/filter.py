"""The stateful rules of both firewalls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from weirlab.lab.redundant import wiring
from weirlab.lab.redundant.base import AddressProtocol, Side

SYSCTLS: Final = {
    # A silent stream must not lose its state during a trial, and neither must a replica.
    "net/netfilter/nf_conntrack_udp_timeout": 3600,
    "net/netfilter/nf_conntrack_udp_timeout_stream": 3600,
}

OPEN: Final = "add rule ip weir admission accept\n"
CLOSE: Final = "flush chain ip weir admission\n"


def ruleset(
    protocol: AddressProtocol, translated: str | None = None, admits: Sequence[Side] = ("lan",)
) -> str:
    """The ruleset in nft syntax.

    ``translated`` is a network whose calls get the virtual address of the WAN side. Calls may begin on the
    sides in ``admits``.
    """
    sources = ", ".join(f'"{link}"' for side in admits for link in protocol.links(side))
    lines = [
        "table ip weir {",
        "  chain admission {",
        "  }",
        "  chain forward {",
        "    type filter hook forward priority filter; policy drop;",
        # Known calls. "established" would leave out those in which only one side has spoken.
        "    ct status confirmed accept",
        "    ct state invalid drop",
        f"    iifname {{ {sources} }} jump admission",
        "  }",
        # Only forwarded traffic gets a state: the pair's own messages belong to no call.
        "  chain own {",
        "    type filter hook output priority raw; policy accept;",
        "    notrack",
        "  }",
        "  chain arriving {",
        "    type filter hook prerouting priority raw; policy accept;",
        f'    iifname "{wiring.SYNC_LINK}" notrack',
        "    ip daddr 224.0.0.0/4 notrack",
        "  }",
    ]
    if translated is not None:
        wan = wiring.NETWORKS["wan"]
        links = ", ".join(f'"{link}"' for link in protocol.links("wan"))
        lines += [
            "  chain translate {",
            "    type nat hook postrouting priority srcnat; policy accept;",
            f"    ip saddr {translated} oifname {{ {links} }} snat to {wan.virtual}",
            "  }",
        ]
    return "\n".join([*lines, "}"]) + "\n"

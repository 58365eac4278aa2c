"""Shell completion for values of options and arguments. It must be fast: the user has pressed a key."""

from __future__ import annotations

from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Final

import typer

from weirlab.base.storage import default_root, run_ids

DEVICES: Final = (
    "blackbox", "bridge", "bridge-ebtables", "esp", "esp-udp", "flowtable", "forward", "iptables",
    "iptables-legacy", "iptables-nft", "keepalived", "link", "nat", "nat-static", "nftables", "nftables-set",
    "nftables-vmap", "none", "openvpn", "openvswitch", "strongswan", "strongswan-kernel",
    "strongswan-libipsec", "tc-flower", "ucarp", "vm", "vm-esp", "vm-wireguard", "wireguard", "wireguard-go",
    "wireguard-kernel", "xdp-filter",
)  # fmt: skip
"""Those of ``weirlab.lab.dut`` without a file of their own, which takes too long to load for a key."""


def runs(ctx: typer.Context, incomplete: str) -> list[str]:
    """IDs of the runs in the store, newest first, and ``last``."""
    found = []
    with suppress(OSError):
        found = sorted(run_ids(_store(ctx)), reverse=True)
    return [name for name in ("last", *found) if name.startswith(incomplete)]


def profiles(incomplete: str) -> list[str]:
    """Names of the profiles that come with Weir."""
    folder = Path(__file__).parents[2] / "library/profiles"
    with suppress(OSError):
        found = {path.name.rsplit("-", 2)[0] for path in folder.glob("*.weir-profile")}
        return sorted(name for name in found if name.startswith(incomplete))
    return []


def scenarios(incomplete: str) -> list[str]:
    """Names of the ready-made scenarios; the shell itself completes files."""
    # Studies are in a layer above this package.
    names = import_module("weirlab.studies.ready").names()
    return [name for name in names if name.startswith(incomplete)]


def kinds(incomplete: str) -> list[str]:
    """Kinds of runs."""
    known = import_module("weirlab.studies.registry").kinds()
    return [name for name in known if name.startswith(incomplete)]


def devices(incomplete: str) -> list[str]:
    """Names of Weir's own devices under test."""
    return [name for name in DEVICES if name.startswith(incomplete)]


def _store(ctx: typer.Context) -> Path:
    """The store named on the line so far or by ``WEIR_STORE``, otherwise the default one."""
    named = ctx.params.get("store") or ctx.find_root().params.get("store")
    return Path(named) if named else default_root()

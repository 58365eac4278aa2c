"""The system's tools in the calling thread's namespace: ``nft`` and ``tc``."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from pyroute2.ethtool.ioctl import IoctlEthtool

from weirlab.base import programs
from weirlab.base.errors import LabError

FAMILY: Final = "netdev"
"""Family of the tables that are created and deleted here."""


def nft(*arguments: str, text: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run nft; raises ``MissingCapability`` if it is not installed. A failure shows in ``returncode``."""
    return programs.run(["nft", *arguments], input=text, capture_output=True, text=True, errors="replace")


def delete_table(name: str) -> None:
    """Delete a table that may be gone already. Raises ``LabError`` if it may still be there."""
    deleted = nft("delete", "table", FAMILY, name)
    if deleted.returncode == 0:
        return
    listed = nft("list", "tables", FAMILY)
    if listed.returncode != 0 or f"table {FAMILY} {name}" in listed.stdout.splitlines():
        raise LabError(f"nft: {first_line(deleted)}")


def first_line(done: subprocess.CompletedProcess[str]) -> str:
    """The first line of its standard error."""
    return next(iter(done.stderr.strip().splitlines()), "no reason given")


ROOT: Final = "7765:"
"""Handle of Weir's own root qdisc; no other root qdisc is deleted."""
INGRESS: Final = "ffff:"
"""Handle of the ingress qdisc; an interface has at most one."""


def tc(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run tc; raises ``MissingCapability`` if it is not installed. A failure shows in ``returncode``."""
    return programs.run(["tc", *arguments], capture_output=True, text=True, errors="replace")


def qdiscs() -> list[dict[str, Any]]:
    """Every qdisc with its counters, as ``tc -j`` reports it."""
    done = tc("-s", "-j", "qdisc", "show")
    if done.returncode:
        raise LabError(f"tc: {first_line(done)}")
    return list(json.loads(done.stdout))


def occupied(name: str) -> str:
    """The qdisc that already occupies the place a netem link needs on an interface, in words; or nothing."""
    for qdisc in qdiscs():
        if qdisc["dev"] != name:
            continue
        kind, handle = qdisc["kind"], qdisc["handle"]
        if qdisc.get("root") and handle != "0:":
            return f"a root qdisc of its own ({kind} {handle}); delete it first: tc qdisc del dev {name} root"
        if handle == INGRESS:
            return f"a qdisc for ingress ({kind}); delete it first: tc qdisc del dev {name} {kind}"
    return ""


def delete_root(name: str) -> None:
    """Delete Weir's root qdisc, which may be gone already. Raises ``LabError`` if it is still there."""
    if any(qdisc["dev"] == name and qdisc["handle"] == ROOT for qdisc in qdiscs()):
        _delete(name, "root")


def delete_ingress(name: str) -> None:
    """Delete the ingress qdisc and its filters, if there are any."""
    if any(qdisc["dev"] == name and qdisc["kind"] == "ingress" for qdisc in qdiscs()):
        _delete(name, "ingress")


def _delete(name: str, what: str) -> None:
    done = tc("qdisc", "del", "dev", name, what)
    if done.returncode:
        raise LabError(f"tc: {first_line(done)}")


def offload_names(interface: str) -> tuple[str, ...]:
    """All offloads that the kernel lists."""
    with _features(interface) as (_, features):
        return tuple(features.keys())


def differing_offloads(interface: str, wanted: Mapping[str, bool]) -> dict[str, bool]:
    """Offloads that can be changed and are not as ``wanted``, with their present state."""
    with _features(interface) as (_, features):
        return _differing(features, wanted)


def switch_offloads(interface: str, wanted: Mapping[str, bool]) -> None:
    """Set offloads as ``wanted``, as far as they can be changed."""
    with _features(interface) as (ethtool, features):
        differing = _differing(features, wanted)
        for feature in differing:
            features.set_value(feature, wanted[feature])
        if differing:
            ethtool.set_features(features)


def _differing(features: Any, wanted: Mapping[str, bool]) -> dict[str, bool]:
    return {
        name: bool(features[name])
        for name, value in wanted.items()
        if name in features and features.is_available(name) and bool(features[name]) != value
    }


@contextmanager
def _features(interface: str) -> Iterator[tuple[Any, Any]]:
    ethtool = IoctlEthtool(interface)
    try:
        yield ethtool, ethtool.get_features()
    finally:
        ethtool.close()

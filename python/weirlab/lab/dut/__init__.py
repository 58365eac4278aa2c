"""Drivers of devices under test, by name."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache, partial
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Final

from weirlab.base.entries import brought
from weirlab.base.errors import InputError
from weirlab.base.files import NO_FILES, Inputs
from weirlab.base.quoting import quoted
from weirlab.lab.base import Driver
from weirlab.lab.dut import iptables
from weirlab.lab.dut.chain import DeviceChain, parts
from weirlab.lab.dut.datapaths.bridges import Bridge, EbtablesBridge, OpenVswitch
from weirlab.lab.dut.datapaths.emulated import EmulatedLinkDriver
from weirlab.lab.dut.datapaths.ingress import TcFlower, XdpFilter
from weirlab.lab.dut.iptables import Iptables
from weirlab.lab.dut.nftables import Flowtable, Nat, Nftables
from weirlab.lab.dut.rules import BlackBox, Forward
from weirlab.lab.dut.ruleset import RulesetDriver
from weirlab.lab.dut.rulesets.source import NOTHING, RulesetFiles
from weirlab.lab.dut.tunnels import strongswan, vpn
from weirlab.lab.dut.tunnels.esp import Esp, EspInUdp
from weirlab.lab.dut.tunnels.tunnel import EncapsulationDriver
from weirlab.lab.dut.tunnels.vpn import OpenVpn
from weirlab.lab.dut.vm.device import Appliance, VirtualFilter
from weirlab.lab.dut.vm.tunnels import VirtualEsp, VirtualWireGuard

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP: Final = "weirlab.devices"
"""The entry point group in which other packages register driver classes."""

Factory = Callable[[Path | None], Driver]

TUNNELS: Final[dict[str, Callable[[str | None], EncapsulationDriver]]] = {
    "esp": Esp,
    "esp-udp": EspInUdp,
    "openvpn": OpenVpn,
    "strongswan": strongswan.usual,
    "strongswan-kernel": strongswan.StrongSwanKernel,
    "strongswan-libipsec": strongswan.StrongSwanLibipsec,
    "vm-esp": VirtualEsp,
    "vm-wireguard": VirtualWireGuard,
    "wireguard": vpn.usual_wireguard,
    "wireguard-go": vpn.WireGuardGo,
    "wireguard-kernel": vpn.WireGuardKernel,
}
"""Factories of tunnels with two gateways; the argument is the cipher suite, None for the default.

``wireguard`` and ``strongswan`` use the kernel's implementation if there is one, otherwise the program's own.
"""

VARIANTS: Final = frozenset(
    {
        "esp-udp", "strongswan-kernel", "strongswan-libipsec", "vm-esp", "vm-wireguard", "wireguard-go",
        "wireguard-kernel",
    }
)  # fmt: skip
"""Devices that need no check of their own: ``strongswan`` and ``wireguard`` are whichever works here, ``esp``
covers ``esp-udp``, and ``vm`` covers all virtual machines."""


def _pair(name: str, asked: str | None) -> Driver:
    # The parts of a pair import tools of this package.
    from weirlab.lab.dut.pair import PAIRS

    return PAIRS[name](asked)


WITH_VARIETIES: Final[dict[str, Callable[[str | None], Driver]]] = {
    **TUNNELS,
    "link": EmulatedLinkDriver,
    **{name: partial(_pair, name) for name in ("keepalived", "ucarp")},
    "vm": VirtualFilter,
}
"""Devices that take a suffix after a colon: tunnels a cipher suite, a virtual machine its filter, an emulated
link and a redundant pair their settings."""

_DATAPATHS: Final[dict[str, Callable[[], Driver]]] = {
    "bridge": Bridge,
    "bridge-ebtables": EbtablesBridge,
    "flowtable": Flowtable,
    "nat": partial(Nat, "masquerade"),
    "nat-static": partial(Nat, "static"),
    "openvswitch": OpenVswitch,
    "tc-flower": TcFlower,
    "xdp-filter": XdpFilter,
}

_VIRTUAL: Final = frozenset({"vm", "vm-esp", "vm-wireguard", "image"})

_PARSED: Final[dict[str, Callable[[str | None], Driver]]] = {
    **WITH_VARIETIES,
    # The usual ones try what the kernel has; what it lacks is refused when the device is made.
    "strongswan": strongswan.StrongSwanKernel,
    "wireguard": vpn.WireGuardKernel,
}
"""What a suffix means, without trying anything."""


def drivers() -> dict[str, Factory]:
    """Factories of all drivers, Weir's own first; the argument is the user's ruleset file or None."""
    return {**own(), **others()}


def own() -> dict[str, Factory]:
    """Factories of Weir's own drivers.

    ``iptables`` is the legacy back end if it works, otherwise the nft one.
    """
    return {
        "forward": _without_file("forward", Forward),
        "iptables": _without_file("iptables", iptables.usual),
        "iptables-legacy": _without_file("iptables-legacy", lambda: Iptables("legacy")),
        "iptables-nft": _without_file("iptables-nft", lambda: Iptables("nft")),
        "nftables": _without_file("nftables", lambda: Nftables("linear")),
        "nftables-set": _without_file("nftables-set", lambda: Nftables("set")),
        "nftables-vmap": _without_file("nftables-vmap", lambda: Nftables("vmap")),
        **{name: _without_file(name, make) for name, make in _DATAPATHS.items()},
        "image": _image,
        "ruleset": _ruleset,
        "blackbox": _without_file("blackbox", BlackBox),
        **{name: _without_file(name, partial(make, None)) for name, make in WITH_VARIETIES.items()},
    }


def others() -> Mapping[str, Factory]:
    """Factories of drivers from other packages."""
    return _others()[0]


def broken() -> Sequence[str]:
    """Why drivers of other packages are missing, one sentence each."""
    return _others()[1]


def exists(name: str) -> bool:
    """Whether there is a driver called ``name``; other packages are only searched if Weir has none."""
    return name in own() or name in others()


def known(name: str) -> bool:
    """Whether there is a driver for ``name``, or one for each device of a chain, whatever their suffixes."""
    return all(exists(one.partition(":")[0]) for one in parts(name))


def make(
    name: str, file: Path | None = None, inputs: Inputs = NO_FILES, beside: RulesetFiles = NOTHING
) -> Driver:
    """The driver called ``name``; some need the user's ``file`` and what is ``beside`` it, which ``inputs``
    opens.

    After a colon, ``name`` may have a suffix, such as a tunnel's suite, or the settings of an emulated link,
    which may name a file.

    Raises ``InputError`` for an unknown name or suite, for a file that the device does not take, and for one
    that cannot be used or may not be opened.
    """
    if len(names := parts(name)) == 1:
        driver = _made(name, file)
    elif file is None:
        driver = DeviceChain([_made(one, None) for one in names])
    else:
        raise InputError(f"the devices of a chain make their own rules; measure {file} by itself")
    if beside and not isinstance(driver, RulesetDriver):
        raise InputError(f"--include and --ipset go with a ruleset, not with the device {quoted(name)}")
    if isinstance(driver, RulesetDriver):
        driver.beside = beside
    driver.open_files(inputs)
    return driver


def files_of(name: str) -> Sequence[Path]:
    """The files that the suffix of ``name`` names. Nothing is opened, started or tried.

    Raises ``InputError`` as :func:`make`.
    """
    if (names := parts(name))[1:]:
        return [path for one in names for path in files_of(one)]
    kind, colon, suite = name.partition(":")
    if not colon:
        return ()
    if kind not in _PARSED:
        raise _without_suffix(kind, suite)
    return _PARSED[kind](suite).files


def is_emulated(name: str) -> bool:
    """Whether the device ``name`` will run on an emulated CPU, for want of KVM; if not, it still may."""
    from weirlab.lab.machines import qemu

    return any(one.partition(":")[0] in _VIRTUAL for one in parts(name)) and "kvm" not in qemu.accelerators()


def _made(name: str, file: Path | None) -> Driver:
    kind, colon, suite = name.partition(":")
    refuse_machine(name)
    if not exists(kind):
        known = drivers()
        close = difflib.get_close_matches(kind, known, n=1)
        hint = f" (did you mean {close[0]}?)" if close else ""
        missing = "".join(f"; {why}" for why in broken())
        raise InputError(
            f"no device under test is called {quoted(name)}{hint}; there are: {', '.join(known)}{missing}"
        )
    if not colon:
        return (own().get(kind) or others()[kind])(file)
    if kind not in WITH_VARIETIES:
        raise _without_suffix(kind, suite)
    return _without_file(kind, partial(WITH_VARIETIES[kind], suite))(file)


def refuse_machine(name: str) -> None:
    """Raise ``InputError``, with what can be done instead, if ``name`` means another machine."""
    if host := machine(name):
        raise InputError(
            f"{quoted(name)} is another machine. To measure it between two ports of this one: --between A B "
            f"--dut nftables --at ssh://{host} --change rules (docs/remote.md). To measure its rules here: "
            f"ssh {host} iptables-save -c > its.rules (or: nft list ruleset), then weir profile --ruleset "
            "its.rules. For what it does to live traffic: weir tap and weir log, or weir quality with a "
            "capture from either side of it"
        )


def machine(name: str) -> str:
    """The host that ``name`` means: an address, ``user@host`` or a URL; empty if it means none."""
    url = re.fullmatch(r"[a-z]+://(?:[^@/\s]*@)?(\[[0-9a-f:.]+\]|[^/:\s]+)(?::\d+)?/?.*", name, re.IGNORECASE)
    account = re.fullmatch(r"[\w.-]+@(\[[0-9a-f:.]+\]|[^/:@\s]+)", name, re.IGNORECASE)
    host = (url[1] if url else account[1] if account else name).strip("[]")
    with suppress(ValueError):
        return str(ip_address(host.partition("%")[0]))
    return host if (url or account) and re.fullmatch(r"[a-z0-9][a-z0-9.-]*", host, re.IGNORECASE) else ""


def _without_suffix(kind: str, suite: str) -> InputError:
    return InputError(f"the device {quoted(kind)} has no cipher suites: leave out {quoted(':' + suite)}")


@cache
def _others() -> tuple[Mapping[str, Factory], Sequence[str]]:
    return brought(GROUP, "device", _loaded, own())


def _loaded(point: EntryPoint) -> tuple[str, Factory]:
    kind = point.load()
    if not (isinstance(kind, type) and issubclass(kind, Driver)):
        raise TypeError(f"{point.value} is not a class derived from weirlab.lab.base.Driver")
    if lacking := sorted(kind.__abstractmethods__):
        raise TypeError(f"{point.value} lacks {', '.join(lacking)}")
    name = getattr(kind, "name", None)
    if not isinstance(name, str):
        raise TypeError(f"{point.value} has no name")
    return name, _without_file(name, kind)


def _without_file(name: str, factory: Callable[[], Driver]) -> Factory:
    def build(ruleset: Path | None) -> Driver:
        if ruleset is not None:
            raise InputError(
                f"the device {quoted(name)} makes its own rules; "
                f"to measure those of {ruleset}, choose the device 'ruleset'"
            )
        return factory()

    return build


def _ruleset(ruleset: Path | None) -> Driver:
    if ruleset is None:
        raise InputError("the device 'ruleset' needs a file with rules: --ruleset FILE")
    return RulesetDriver(ruleset)


def _image(path: Path | None) -> Driver:
    if path is None:
        raise InputError("the device 'image' needs a disk image: --image FILE")
    return Appliance(path)

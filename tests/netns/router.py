"""Three hosts in namespaces: one forwards what the two others send each other."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from weirlab.lab.linux.namespace import Namespace, write_sysctls

CLIENT, SERVER = "198.18.1.2", "198.18.2.2"


class Router(NamedTuple):
    """This host, between a client and a server."""

    here: Namespace
    client: Namespace
    server: Namespace


@contextmanager
def routed(name: str) -> Iterator[Router]:
    """The three, joined: interfaces ``rc`` and ``rs`` here, ``e0`` at the ends."""
    found = Router(*(Namespace(f"weir-test-{name}-{os.getpid()}-{end}") for end in ("r", "c", "s")))
    try:
        for each in found:
            each.create()
            ip(f"-n {each.name} link set lo up")
        for net, end, link in ((1, found.client, "rc"), (2, found.server, "rs")):
            ip(f"link add e0 netns {end.name} type veth peer name {link} netns {found.here.name}")
            ip(f"-n {found.here.name} addr add 198.18.{net}.1/24 dev {link}")
            ip(f"-n {found.here.name} link set {link} up")
            ip(f"-n {end.name} addr add 198.18.{net}.2/24 dev e0")
            ip(f"-n {end.name} link set e0 up")
            ip(f"-n {end.name} route add default via 198.18.{net}.1")
        found.here.call(lambda: write_sysctls({"net/ipv4/ip_forward": 1}))
        yield found
    finally:
        for each in found:
            each.remove()


def ip(arguments: str) -> None:
    subprocess.run(["ip", *arguments.split()], check=True)

"""A redundant pair with which something is wrong: it is named. Nothing is left of a pair."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
from pyroute2 import IPRoute

from weirlab.base import programs
from weirlab.base.errors import LabError, MissingCapability
from weirlab.calls.failover.lab import RedundantLab
from weirlab.lab import clean
from weirlab.lab.linux.namespace import DIRECTORY, Namespace
from weirlab.lab.redundant import base, pair
from weirlab.lab.redundant.conntrackd import Conntrackd
from weirlab.lab.redundant.keepalived import Keepalived
from weirlab.lab.redundant.ucarp import Ucarp
from weirlab.traffic.spec import Rate, Traffic

from .conftest import wait_until

pytestmark = pytest.mark.netns

QUICK = Keepalived(advert_s=0.1)


@pytest.fixture(scope="module", autouse=True)
def _needs_daemons() -> None:
    if missing := [*QUICK.check(), *Ucarp().check(), *Conntrackd().check()]:
        pytest.skip("; ".join(missing))


def test_a_daemon_that_dies_is_named_with_its_last_words(made: Any) -> None:
    with RedundantLab(QUICK) as lab:
        lab.pair.settle()
        backup = lab.pair._machines["b"]
        backup.signal("conntrackd", signal.SIGKILL)
        wait_until(lambda: "conntrackd" not in backup.running)
        with pytest.raises(LabError, match=r"conntrackd on firewall b ended by itself \(signal 9\)"):
            lab.run(Traffic(Rate(1000), warmup_s=0.0, duration_s=0.2))
    assert made.left() == []


def test_a_configuration_that_a_daemon_refuses_is_told_in_its_words(
    monkeypatch: pytest.MonkeyPatch, made: Any
) -> None:
    from weirlab.lab.redundant import ucarp

    monkeypatch.setattr(ucarp, "_HOST_ID", {"lan": 51, "wan": 999})
    with pytest.raises(LabError, match=r"ucarp wan on firewall a ended by itself .*last output: .*id"):
        RedundantLab(Ucarp())
    assert made.left() == []


def test_a_pair_that_does_not_hear_each_other_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pair, "_PATIENCE_S", 2.0)

    def isolate() -> None:
        with IPRoute() as netlink:
            for port in ("a0", "b0"):
                netlink.brport("set", index=netlink.link_lookup(ifname=port)[0], isolated=1)

    with RedundantLab(QUICK, Conntrackd("off")) as lab:
        for side in ("lan", "wan"):
            Namespace(lab.namespaces[side]).call(isolate)
        wait_until(lambda: lab.pair.master() == "both")
        with pytest.raises(
            LabError, match=r"no master and backup within .*: lan by a and b, .*keepalived: \w"
        ):
            lab.pair.settle()
        with pytest.raises(LabError, match="no single master"):
            lab.pair.cut()


def test_a_missing_daemon_is_named_before_anything_is_built(
    monkeypatch: pytest.MonkeyPatch, made: Any
) -> None:
    monkeypatch.setattr(programs, "find", lambda name: None)
    with pytest.raises(MissingCapability, match=r"apt install ucarp.*apt install conntrackd"):
        RedundantLab(Ucarp())
    assert made.identifiers == []


def test_nothing_is_left_of_a_pair(made: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    switched_on: list[int] = []
    start = base.FirewallMachine.__init__

    def noted(self: base.FirewallMachine, *arguments: Any) -> None:
        start(self, *arguments)
        switched_on.append(self._first)

    monkeypatch.setattr(base.FirewallMachine, "__init__", noted)
    run_before = set(os.listdir("/run"))
    with RedundantLab(QUICK) as lab:
        lab.pair.settle()
        inside = [pid for first in switched_on for pid in offspring(first)]
        assert len(inside) >= 2 * 3
        lab.pair.cut()
    assert made.left() == []
    assert not any(Path(f"/proc/{pid}").exists() for pid in (*switched_on, *inside))
    assert not {"keepalived.conf", "conntrackd.ctl", "news"} & (set(os.listdir("/run")) - run_before)


def offspring(pid: int) -> list[int]:
    """Process numbers of all processes below ``pid``."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [number for child in map(int, children) for number in (child, *offspring(child))]


OWNER = textwrap.dedent("""
    import sys
    from weirlab.lab.redundant.keepalived import Keepalived
    from weirlab.calls.failover.lab import RedundantLab

    with RedundantLab(Keepalived(advert_s=0.1)) as lab:
        first = [machine._first for machine in lab.pair._machines.values()]
        print(*first, *lab.namespaces.values(), flush=True)
        sys.stdin.read()
""")


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_whatever_ends_the_owner_ends_the_pair(how: signal.Signals) -> None:
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    with owner:
        assert owner.stdout is not None
        words = owner.stdout.readline().split()
        first, names = [int(word) for word in words[:2]], words[2:]
        assert len(names) == 6
        daemons = [pid for one in first for pid in offspring(one)]
        assert len(daemons) >= 6
        owner.send_signal(how)
    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in (*first, *daemons)))
    clean.clean()
    assert not any((DIRECTORY / name).exists() for name in names)

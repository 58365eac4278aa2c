"""Settings of the address protocols: what is refused, what follows from the timers, what the daemons read."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from weirlab.base.errors import InputError
from weirlab.lab.redundant.base import Role
from weirlab.lab.redundant.conntrackd import Conntrackd, script
from weirlab.lab.redundant.conntrackd import config as states_config
from weirlab.lab.redundant.keepalived import Keepalived, config
from weirlab.lab.redundant.ucarp import Ucarp, change, command


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (lambda: Keepalived(advert_s=0.001), "0.01 to 40.95"),
        (lambda: Keepalived(advert_s=41), "0.01 to 40.95"),
        (lambda: Keepalived(advert_s=0.105), "steps of 0.01"),
        (lambda: Keepalived(advert_s=0.1, version=2), "1 to 255"),
        (lambda: Keepalived(advert_s=1.5, version=2), "steps of 1"),
        (lambda: Keepalived(version=4), "VRRP version 4"),  # type: ignore[arg-type]
        (lambda: Keepalived(priorities=(255, 100)), "priority 255 of firewall a"),
        (lambda: Keepalived(priorities=(100, 100)), "both firewalls have priority 100"),
        (lambda: Keepalived(preempt=False, preempt_delay_s=1), "has no effect without preemption"),
        (lambda: Keepalived(preempt_delay_s=1001), "between 0 and 1000"),
        (lambda: Keepalived(preempt=False, step_down="priority"), "use step_down stop"),
        (lambda: Keepalived(garp_repeat=0), "no host would learn"),
        (lambda: Keepalived(garp_delay_s=-1), "between 0 and 3600"),
        (lambda: Ucarp(advbase_s=0), "flaps"),
        (lambda: Ucarp(advbase_s=256), "1 to 255"),
        (lambda: Ucarp(advbase_s=0.5), "whole ones"),  # type: ignore[arg-type]
        (lambda: Ucarp(advskews=(0, 256)), "skew 256 of firewall b"),
        (lambda: Ucarp(advskews=(7, 7)), "both firewalls have skew 7"),
        (lambda: Ucarp(deadratio=0), "dead ratio of 0"),
        (lambda: Ucarp(preempt=True, step_down="demote"), "comes back"),
        (lambda: Conntrackd("alarm"), "alarm"),  # type: ignore[arg-type]
    ],
)
def test_settings_that_cannot_work_are_refused(settings: Callable[[], Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        settings()


@pytest.mark.parametrize(
    ("settings", "earliest_s", "latest_s"),
    [
        # RFC 5798 section 6.1: 3 x 1 s + (256 - 100) / 256 x 1 s.
        (Keepalived(), 2.609375, 3.609375),
        (Keepalived(advert_s=0.1), 0.2609375, 0.3609375),
        # RFC 3768 section 6.1: the skew is in seconds whatever the interval is.
        (Keepalived(advert_s=2, version=2), 4.609375, 6.609375),
        (Keepalived(priorities=(20, 200)), 2.921875, 3.921875),
        # Looks at 1, 2, 3 s; a timer of 3 s is over at the third.
        (Ucarp(advskews=(50, 0)), 2.585, 3.585),
        (Ucarp(advskews=(0, 50)), 2.585, 3.585),
        (Ucarp(advbase_s=2, advskews=(0, 128), deadratio=2), 3.0, 5.0),
        # Looks every 1.390 s; a timer of 1.390625 s is over at the first or at the second.
        (Ucarp(advskews=(0, 100), deadratio=1), 0.39, 2.78),
    ],
)
def test_expected_take_over_follows_from_the_timers(
    settings: Keepalived | Ucarp, earliest_s: float, latest_s: float
) -> None:
    assert settings.expected_failover_s == pytest.approx((earliest_s, latest_s))
    assert settings.patience_s >= latest_s


@pytest.mark.parametrize(
    ("settings", "preferred"),
    [
        (Keepalived(), "a"),
        (Keepalived(priorities=(1, 2)), "b"),
        (Ucarp(), "a"),
        (Ucarp(advskews=(9, 8)), "b"),
    ],
)
def test_the_preferred_master_is_the_stronger_one(settings: Keepalived | Ucarp, preferred: str) -> None:
    assert settings.preferred == preferred


def blocks(text: str) -> dict[str, str]:
    """Contents of the outermost blocks of a configuration file by their headings."""
    return {name.strip(): body for name, body in re.findall(r"^(\S[^\n]*) \{\n(.*?)^\}", text, re.M | re.S)}


def test_keepalived_gets_one_keyword_a_line() -> None:
    found = blocks(config(Keepalived(advert_s=0.1), "b", {"master": "/run/m", "backup": "/run/b"}))
    assert set(found) == {
        "global_defs",
        "track_file stand_down",
        "vrrp_sync_group pair",
        "vrrp_instance lan",
        "vrrp_instance wan",
    }
    group = found["vrrp_sync_group pair"].split("\n")
    assert {"    lan", "    wan", "  notify_master /run/m", "  notify_backup /run/b"} <= set(group)
    assert "sync_group_tracking_weight" in found["vrrp_sync_group pair"]
    instance = [line.strip() for line in found["vrrp_instance wan"].split("\n")]
    for line in ("interface wan0", "priority 100", "advert_int 0.1", "100.64.2.254/24", "state BACKUP"):
        assert line in instance
    assert not any(line.startswith(("notify", "nopreempt", "use_vmac")) for line in instance)


def test_keepalived_settings_reach_its_configuration() -> None:
    settings = Keepalived(preempt_delay_s=2.5, use_vmac=True, sync_group=False, garp_refresh_s=7)
    found = blocks(config(settings, "a", {"master": "/run/m"}))
    assert "vrrp_sync_group pair" not in found
    assert "preempt_delay 2.5" in found["vrrp_instance lan"]
    assert "use_vmac vrrp-lan" in found["vrrp_instance lan"]
    assert "vrrp_garp_master_refresh 7" in found["global_defs"]
    # Both sides share the states: only one of them speaks for the firewall.
    assert "notify_master" not in found["vrrp_instance lan"]
    assert "notify_master /run/m" in found["vrrp_instance wan"]
    assert settings.links("lan") == ("lan0", "vrrp-lan")
    kept = blocks(config(Keepalived(preempt=False), "a", {}))
    assert "nopreempt" in kept["vrrp_instance lan"]
    assert "sync_group_tracking_weight" not in kept["vrrp_sync_group pair"]


@pytest.mark.parametrize(
    ("settings", "ends"),
    [
        (Keepalived(), False),
        (Keepalived(preempt=False), True),
        (Keepalived(step_down="stop"), True),
        (Ucarp(), False),
        (Ucarp(preempt=True), True),
        (Ucarp(deadratio=1), True),
    ],
)
def test_the_way_down_is_one_that_lasts(settings: Keepalived | Ucarp, ends: bool) -> None:
    assert settings.ends_to_step_down is ends


@pytest.mark.parametrize(
    ("settings", "news", "role"),
    [
        (Keepalived(), 'INSTANCE "lan" MASTER 150', ("lan", "master")),
        (Keepalived(), 'INSTANCE "wan" BACKUP 100', ("wan", "backup")),
        (Keepalived(), 'INSTANCE "wan" FAULT 100', ("wan", "backup")),
        (Keepalived(), 'GROUP "pair" MASTER 0', None),
        (Keepalived(), 'INSTANCE "lan" MASTER_RX_LOWER_PRI 150', None),
        (Ucarp(), "ucarp wan master", ("wan", "master")),
        (Ucarp(), "ucarp lan backup", ("lan", "backup")),
        (Ucarp(), "ucarp lan backup?", None),
    ],
)
def test_news_of_the_daemons_are_understood(
    settings: Keepalived | Ucarp, news: str, role: tuple[str, str] | None
) -> None:
    assert settings.role(news) == role


def test_ucarp_gets_the_options_of_its_side_and_firewall() -> None:
    words = command(Ucarp(advbase_s=2, advskews=(3, 40), deadratio=5), "b", "lan")
    assert words[0] == "ucarp"
    for option in (
        "--interface=lan0",
        "--srcip=100.64.1.3",
        "--addr=100.64.1.254",
        "--advbase=2",
        "--advskew=40",
        "--deadratio=5",
    ):
        assert option in words
    assert "--preempt" not in words
    assert "--preempt" in command(Ucarp(preempt=True), "a", "wan")


def test_a_change_of_role_moves_the_address_before_anything_else() -> None:
    lines = change("wan", "master", "/run/states-master").splitlines()
    assert lines[0] == "#!/bin/sh"
    assert re.fullmatch(r"\S*ip address add 100\.64\.2\.254/24 dev wan0 2>/dev/null", lines[1])
    assert lines[2:] == ["echo ucarp wan master >/run/news", "exec /run/states-master"]
    assert "address del" in change("wan", "backup", None)


def test_with_an_external_cache_a_new_master_commits_and_tells() -> None:
    def options(role: Role) -> list[str]:
        text = script(Conntrackd(external_cache=True), role)
        assert text is not None
        return [line.split()[-1] for line in text.splitlines()[1:]]

    assert options("master") == ["-c", "-f", "-R", "-B"]
    assert options("backup") == ["-t", "-n"]


def test_without_one_nothing_is_sent_while_packets_may_still_take_the_old_way() -> None:
    assert script(Conntrackd(), "master") is script(Conntrackd(), "backup") is None


def test_each_conntrackd_talks_to_the_other_one() -> None:
    here, there = states_config(Conntrackd(), "a"), states_config(Conntrackd(external_cache=True), "b")
    assert "IPv4_address 100.64.3.2\n    IPv4_Destination_Address 100.64.3.3" in here
    assert "IPv4_address 100.64.3.3\n    IPv4_Destination_Address 100.64.3.2" in there
    assert "DisableExternalCache yes" in here
    assert "DisableExternalCache no" in there

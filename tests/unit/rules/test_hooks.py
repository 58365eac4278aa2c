"""Several base chains at the hook for forwarded packets: their order, and which one a plan is about."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from weirlab.base.errors import InputError
from weirlab.lab.dut.aiming import candidates
from weirlab.rules import advise, iptables_path
from weirlab.traffic.spec import Flows

if TYPE_CHECKING:
    from tests.unit.rules.conftest import NftPath

MANGLE = """\
*mangle
:FORWARD ACCEPT [1000:60000]
-A FORWARD -p tcp -m tcp --tcp-flags SYN,RST SYN -j TCPMSS --clamp-mss-to-pmtu
COMMIT
*filter
:FORWARD DROP [{dropped}:500]
[{first}:60] -A FORWARD -s 10.0.0.1/32 -j ACCEPT
[{second}:60] -A FORWARD -s 10.0.0.2/32 -j ACCEPT
COMMIT
"""


def test_a_plan_is_about_the_chain_whose_rules_decide() -> None:
    found = advise(iptables_path(MANGLE.format(dropped=10, first=90, second=900)))
    assert found.before.mean_position == pytest.approx((90 + 2 * 910) / 1000)
    assert [ruleset.table for ruleset in found.left_out] == ["mangle"]


def test_a_counter_of_a_chain_that_decides_nothing_does_not_stand_in_for_missing_ones() -> None:
    with pytest.raises(InputError, match="no packet was counted in chain FORWARD"):
        advise(iptables_path(MANGLE.format(dropped=0, first=0, second=0)))


def test_of_chains_with_one_priority_packets_enter_the_newest_first(nft: NftPath) -> None:
    first = "table inet one { chain f { type filter hook forward priority 0; drop; }; }\n"
    second = "table ip two { chain f { type filter hook forward priority 0; drop; }; }\n"
    assert [ruleset.table for ruleset in nft(first + second)] == ["ip two", "inet one"]


def test_priorities_of_any_family_are_read_and_families_are_kept_apart(nft: NftPath) -> None:
    text = (
        "table bridge b {\n chain p { type filter hook output priority out; }\n}\n"
        "table ip6 f {\n chain c { type filter hook forward priority security - 7; policy drop; }\n}\n"
        "table inet f {\n chain c { type filter hook forward priority filter + 3; policy drop; }\n}\n"
        "table ip r {\n chain c { type filter hook prerouting priority raw; }\n}\n"
        "table ip z {\n flags dormant;\n chain c { type filter hook forward priority 0; policy drop; }\n}\n"
    )
    found = [(ruleset.table, ruleset.families, ruleset.priority) for ruleset in nft(text)]
    assert found == [("ip r", (4,), -300), ("inet f", (4, 6), 3), ("ip6 f", (6,), 43)]


def test_rules_without_a_chain_for_forwarded_packets_are_refused_in_a_sentence(nft: NftPath) -> None:
    text = "table inet f {\n chain i {\n  type filter hook input priority 0; policy drop;\n }\n}\n"
    with pytest.raises(InputError, match="these rules have no chain for forwarded packets"):
        next(candidates(nft(text), "my.rules", None, Flows()))

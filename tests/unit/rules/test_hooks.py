"""Several base chains at the hook for forwarded packets: their order, and which one a plan is about."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from weirlab.base.errors import InputError
from weirlab.rules import advise, iptables_path

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

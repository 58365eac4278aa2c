"""What the kernel counts about its table of connections."""

from __future__ import annotations

from weirlab.lab.linux.inventory import parse_dropped

STATISTICS = """\
entries  clashres found new invalid ignore delete chainlength insert insert_failed drop early_drop icmp_error
00040000  00000000 0 0 00000002 00000010 00000000 00000001 00000000 00000000 00000003 000000ff 00000000
00040000  00000000 0 0 00000000 00000000 00000000 00000001 00000000 00000000 00000000 00000001 00000000
"""


def test_connections_that_a_full_table_drops_are_those_of_all_cpus() -> None:
    assert parse_dropped(STATISTICS) == 3 + 255 + 1


def test_nothing_is_dropped_where_no_cpu_counts() -> None:
    assert parse_dropped(STATISTICS.splitlines()[0]) == 0

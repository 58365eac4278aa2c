"""What the kernel reports of a network namespace: counters, and its table of connections."""

from __future__ import annotations

from weirlab.lab.linux.inventory import ip_counters, parse_dropped

STATISTICS = """\
entries  clashres found new invalid ignore delete chainlength insert insert_failed drop early_drop icmp_error
00040000  00000000 0 0 00000002 00000010 00000000 00000001 00000000 00000000 00000003 000000ff 00000000
00040000  00000000 0 0 00000000 00000000 00000000 00000001 00000000 00000000 00000000 00000001 00000000
"""


def test_connections_that_a_full_table_drops_are_those_of_all_cpus() -> None:
    assert parse_dropped(STATISTICS) == 3 + 255 + 1


def test_nothing_is_dropped_where_no_cpu_counts() -> None:
    assert parse_dropped(STATISTICS.splitlines()[0]) == 0


SNMP = """\
Ip: InReceives InHdrErrors InAddrErrors ForwDatagrams InDiscards InDelivers OutRequests OutNoRoutes
Ip: 100 1 2 80 3 4 5 7
Icmp: InMsgs InErrors
Icmp: 9 9
"""
SNMP6 = "Ip6InReceives                   \t10\nIp6InNoRoutes\t2\nIp6OutForwDatagrams\t7\nIcmp6InMsgs\t5\n"


def test_both_ip_versions_are_added_up() -> None:
    assert ip_counters([SNMP, SNMP6]) == {
        "ip_received": 110,
        "ip_delivered": 4,
        "ip_header_errors": 1,
        "ip_address_errors": 2,
        "ip_discarded": 3,
        "ip_no_route": 9,
    }


def test_a_kernel_without_ipv6_counts_ipv4_alone() -> None:
    assert ip_counters([SNMP])["ip_received"] == 100

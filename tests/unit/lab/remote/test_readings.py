from __future__ import annotations

import pytest

from weirlab.base.errors import InputError, LabError
from weirlab.lab.remote import device
from weirlab.lab.remote.device import check_ports

from .targets import RecordedTarget

LINUX = """\
cpu 10 2 30 400 5 6 70 8 0 0
interrupts 12345
softirqs 678
port eth1 1000 11 0 1 0 0 0 0 2000 22 0 2 0 0 0 0
port eth2 3000 33 0 3 0 0 0 0 4000 44 0 4 0 0 0 0
khz 1200000
khz 2400000
millicelsius 51000
filter
    1      60 WEIR  0  --
"""

FREEBSD = """\
bsdcpu 100 0 50 7 1000
bsdport em1 - <Link#2> 00:0c:29:aa:bb:cc 500 0 3 40000 600 0 48000 0
mhz 2100
celsius 48.5C
filter
weir 2 1 60 1 60 0 0 0
"""
"""What sysctl and netstat of FreeBSD 14 print, after their manual pages."""


def test_a_reading_of_linux() -> None:
    reading = device.parse(LINUX)
    assert reading.counters == {
        "device_cpu_user_ms": 100,
        "device_cpu_nice_ms": 20,
        "device_cpu_system_ms": 300,
        "device_cpu_idle_ms": 4000,
        "device_cpu_iowait_ms": 50,
        "device_cpu_irq_ms": 60,
        "device_cpu_softirq_ms": 700,
        "device_cpu_steal_ms": 80,
        "device_interrupts": 12345,
        "device_softirqs": 678,
        "device_eth1_rx_packets": 11,
        "device_eth1_rx_dropped": 1,
        "device_eth1_tx_packets": 22,
        "device_eth1_tx_dropped": 2,
        "device_eth2_rx_packets": 33,
        "device_eth2_rx_dropped": 3,
        "device_eth2_tx_packets": 44,
        "device_eth2_tx_dropped": 4,
    }
    assert (reading.frequency_mhz, reading.temperature_c) == (2400.0, 51.0)
    assert "WEIR" in reading.printed


def test_a_reading_of_freebsd() -> None:
    reading = device.parse(FREEBSD)
    assert reading.counters == {
        "device_cpu_user_ms": 1000,
        "device_cpu_nice_ms": 0,
        "device_cpu_system_ms": 500,
        "device_cpu_irq_ms": 70,
        "device_cpu_idle_ms": 10000,
        "device_em1_rx_packets": 500,
        "device_em1_rx_dropped": 3,
        "device_em1_tx_packets": 600,
    }
    assert (reading.frequency_mhz, reading.temperature_c) == (2100.0, 48.5)


def test_a_device_that_tells_nothing_has_no_counters() -> None:
    assert device.parse("filter\n").counters == {}


def test_counters_in_another_form_are_refused() -> None:
    target = RecordedTarget({"sh -s": "port eth1 many\nfilter\n"})
    with pytest.raises(LabError, match="fw1 reports its counters in an unknown form"):
        device.read(target, ["eth1"])


def routed(**ports: str) -> dict[str, str]:
    return {
        "test -r /proc/stat": "",
        **{f"ip link show {port}": "" for port in ports.values()},
        **{
            f"sh -c ip route get {address} || route -n get {address}": f"{address} dev {ports[name]} src x"
            for name, address in (("login", "192.0.2.9"), ("one", "198.18.0.2"), ("two", "198.19.0.2"))
            if name in ports
        },
    }


def test_a_login_from_a_link_local_address_comes_in_through_its_zone() -> None:
    target = RecordedTarget({}, client="fe80::1%eth1")
    with pytest.raises(InputError, match="comes in through eth1, a test port"):
        check_ports(target, ("eth1", "eth2"))


def test_test_ports_are_those_with_routes_to_test_traffic() -> None:
    target = RecordedTarget(routed(login="eth0", one="eth1", two="eth2"), "192.0.2.9")
    assert check_ports(target, ()) == ("eth1", "eth2")


@pytest.mark.parametrize(
    ("ports", "routes", "message"),
    [
        ((), {"login": "eth0", "one": "eth0", "two": "eth2"}, "name its test ports with --ports"),
        ((), {"login": "eth0", "one": "eth1", "two": "eth1"}, "name its test ports with --ports"),
        ((), {"login": "eth0"}, "name its test ports with --ports"),
        (("eth1", "eth0"), {"login": "eth0", "one": "eth1"}, "comes in through eth0, a test port"),
        (("eth1", "eth7"), {"login": "eth0", "one": "eth1"}, "fw1 has no port eth7"),
    ],
)
def test_ports_that_cannot_be_tested_are_refused(
    ports: tuple[str, ...], routes: dict[str, str], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        check_ports(RecordedTarget(routed(**routes), "192.0.2.9"), ports)

"""Another machine is no device under test; the message says what can be done with it."""

from __future__ import annotations

import pytest

from weirlab.base.errors import InputError
from weirlab.lab import dut
from weirlab.scenario import from_options


@pytest.mark.parametrize(
    ("name", "host"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("2001:db8::1", "2001:db8::1"),
        ("ssh://fw.example", "fw.example"),
        ("ssh://root@192.0.2.9:2222/", "192.0.2.9"),
        ("ssh://[2001:db8::2]", "2001:db8::2"),
        ("root@fw", "fw"),
        ("https://fw.example/api", "fw.example"),
    ],
)
def test_another_machine_is_refused_with_what_can_be_done_today(name: str, host: str) -> None:
    with pytest.raises(InputError, match="is another machine") as refused:
        dut.make(name)
    assert f"ssh {host} iptables-save -c > its.rules" in str(refused.value)
    assert "weir tap" in str(refused.value)


@pytest.mark.parametrize("name", ["iptable", "my.rules", "nftables:x", "1.2.3", "a b", "link:@x"])
def test_what_is_no_machine_is_an_unknown_device_or_suffix(name: str) -> None:
    assert dut.machine(name) == ""


def test_options_and_scenarios_refuse_another_machine_alike() -> None:
    with pytest.raises(InputError, match="is another machine"):
        from_options({"name": "x", "dut": {"name": "ssh://root@192.0.2.7"}, "lab": {"kind": "sim"}})

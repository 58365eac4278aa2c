"""Virtual machines by name, how QEMU is started, and what guests are told."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from weirlab.base import programs
from weirlab.base.confinement import start
from weirlab.base.errors import InputError, LabError
from weirlab.base.files import HOST_FILES
from weirlab.lab import dut, wiring
from weirlab.lab.dut.vm import device, site, tunnels
from weirlab.lab.dut.vm.site import GuestPort
from weirlab.lab.dut.vm.tunnels import VirtualGateway
from weirlab.lab.machines import qemu
from weirlab.lab.machines.qemu import Boot, Nic
from weirlab.records import RuleSetup, emulation_in_words
from weirlab.testing.bed import SITE


@pytest.mark.parametrize(
    ("asked", "name", "gateways"),
    [
        ("vm", "vm:nftables", 1),
        ("vm:forward", "vm:forward", 1),
        ("vm:flowtable", "vm:flowtable", 1),
        ("vm-esp", "vm-esp:aes128gcm16", 2),
        ("vm-esp:null-sha1", "vm-esp:null-sha1", 2),
        ("vm-wireguard", "vm-wireguard", 2),
    ],
)
def test_a_virtual_machine_is_called_by_what_is_in_it(asked: str, name: str, gateways: int) -> None:
    made = dut.make(asked)
    assert made.name == name
    assert made.gateways == gateways
    assert made.forwards
    assert made.takes_turns
    assert dut.make(name).name == name


def test_what_cannot_be_in_it_is_refused_with_what_can() -> None:
    with pytest.raises(InputError, match=r"no filter 'iptables'; there are forward, nftables, .*flowtable"):
        dut.make("vm:iptables")
    with pytest.raises(InputError, match="has no suite 'aes'; suites are aes128gcm16"):
        dut.make("vm-esp:aes")


def test_what_is_missing_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(programs, "find", lambda name: None)
    monkeypatch.setattr(qemu, "default_folder", lambda: tmp_path)
    assert [each for each in dut.make("vm").check() if "tun" not in each] == [
        "qemu-system-x86_64 is not installed: apt install qemu-system-x86",
        "no virtual machine has been built yet: weir lab build",
    ]
    assert dut.make("vm-esp").check() == dut.make("vm").check()


def test_a_device_that_is_off_says_so() -> None:
    for name in ("vm", "vm-esp"):
        with pytest.raises(LabError, match="not switched on"):
            dut.make(name).counters()


def test_no_rules_means_none() -> None:
    with pytest.raises(InputError, match="has no rules"):
        dut.make("vm:forward").apply(SITE, RuleSetup(5))


def test_qemu_carries_frames_as_they_are_and_ends_with_a_panic() -> None:
    nics = [Nic("vm-in0", wiring.IN0.mac, 2048), Nic("vm-out0", wiring.OUT0.mac, 2048)]
    command = qemu.command(Boot(["-drive", "x"]), nics, "tcg", sandbox=False)
    assert command[0] == qemu.PROGRAM
    text = " ".join(command)
    assert "-machine q35,accel=tcg -cpu max" in text
    assert "-no-reboot" in text
    assert "tap,id=net0,ifname=vm-in0,script=no,downscript=no,vnet_hdr=off" in text
    assert f"virtio-net-pci,netdev=net1,mac={wiring.OUT0.mac},host_mtu=2048" in text
    assert "-cpu host" in " ".join(qemu.command(Boot([], memory_mb=2048), nics, "kvm", sandbox=False))


def test_qemu_has_a_sandbox_where_it_knows_one() -> None:
    with_it, without = (qemu.command(Boot([]), [], "tcg", sandbox=sandbox) for sandbox in (True, False))
    assert "-sandbox" not in without
    options = with_it[with_it.index("-sandbox") + 1].split(",")
    kinds = ("obsolete", "elevateprivileges", "spawn", "resourcecontrol")
    assert options == ["on", *(f"{kind}=deny" for kind in kinds)]


def test_qemu_gets_the_files_that_it_boots_from_and_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(qemu, "has_sandbox", lambda: True)
    monkeypatch.setattr(start.programs, "located", lambda command: ["/usr/bin/qemu", *command[1:]])
    for accelerator, devices in (("tcg", ["/dev/net/tun"]), ("kvm", ["/dev/kvm", "/dev/net/tun"])):
        command = qemu.confined(Boot([], [Path("/images/disk")]), [], accelerator)
        kept = json.loads(command[command.index(start.__name__) + 1])
        assert kept == {
            "read": ["/usr/bin/qemu", "/images/disk"],
            "write": [*devices, "/var/tmp"],
            "own": ["/run/qemu"],
        }


def test_kvm_that_starts_no_guest_is_not_tried_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(qemu, "_NO_KVM", tmp_path / "no-kvm")
    monkeypatch.setattr(qemu, "_kvm_opens", lambda: True)
    assert qemu.accelerators() == ("kvm", "tcg")
    qemu.give_up_kvm()
    assert qemu.accelerators() == ("tcg",)
    monkeypatch.setattr(qemu, "_NO_KVM", tmp_path / "other")
    monkeypatch.setattr(qemu, "_kvm_opens", lambda: False)
    assert qemu.accelerators() == ("tcg",)


def test_results_of_an_emulated_device_say_so() -> None:
    assert "its rates and delays mean nothing" in emulation_in_words({"dut_emulated": True})
    assert emulation_in_words({"dut_emulated": False}) == ""
    assert emulation_in_words({}) == ""


def test_a_guest_gets_the_addresses_of_the_ports_it_stands_for() -> None:
    text = site.network_script([GuestPort(wiring.IN0, wiring.TX0, wiring.SENDERS)])
    assert "ip address add 198.18.0.1/24 dev in0" in text
    assert f"ip neighbour replace 198.18.0.2 lladdr {wiring.TX0.mac} dev in0 nud permanent" in text
    assert "ip route add 198.18.0.0/16 via 198.18.0.2 dev in0 onlink" in text
    assert "ip route add 2001:2:0:1::/64 via 2001:2:0:1::2 dev in0 onlink" in text
    assert "echo 1 >/proc/sys/net/ipv4/ip_forward" in text
    assert sh("-n", text=text) == ""


def test_text_reaches_a_command_of_the_guest_unchanged() -> None:
    text = "a 'b' \"c\" $d `e` \\f\n  g"
    assert sh(text=site.pipe_script(["cat"], text)) == text + "\n"


def test_counters_are_read_in_the_order_of_their_names(tmp_path: Path) -> None:
    files = {name: str(tmp_path / name) for name in ("b", "a")}
    for number, path in enumerate(files.values()):
        Path(path).write_text(f"{number}\n")
    assert sh(text=site.counter_script(files)) == "0\n1\n"
    assert site.port_counters({"in": "in0"})["in_rx_dropped"] == ("/sys/class/net/in0/statistics/rx_dropped")


def ends() -> tuple[VirtualGateway, VirtualGateway]:
    guest: Any = None
    behind = wiring.SENDERS, wiring.RECEIVERS
    return (
        VirtualGateway(guest, wiring.NEAR, wiring.FAR, "198.18.0.1", *behind),
        VirtualGateway(guest, wiring.FAR, wiring.NEAR, "198.19.0.1", *reversed(behind)),
    )


@pytest.mark.parametrize("suite", tunnels.SUITES, ids=lambda suite: suite.name)
def test_keys_are_as_long_as_those_of_our_own_esp(suite: Any) -> None:
    engine = pytest.importorskip("weirlab._engine", reason="the engine is not built")
    lengths, authentication_bytes = engine.esp_key_bytes(suite.encapsulation.removeprefix("esp-tunnel/"))
    encryption = lengths[-1] if suite.name.startswith("aes256") else lengths[0]
    found = [each.key_bytes for each in tunnels.transforms(suite)]
    assert found == [encryption, authentication_bytes][: len(found)]
    assert sum(found) == encryption + authentication_bytes


def test_both_directions_have_keys_of_their_own_and_all_networks_a_policy() -> None:
    near, far = ends()
    suite = next(each for each in tunnels.SUITES if each.name == "aes128-sha256")
    text = tunnels.associations(suite, near, far)
    states = [line.split() for line in text.splitlines() if " state add " in line]
    assert [(line[5], line[7], line[11]) for line in states] == [
        ("203.0.113.1", "203.0.113.2", "0x1000"),
        ("203.0.113.2", "203.0.113.1", "0x1001"),
    ]
    keys = [word for line in states for word in line if len(word) in (2 + 32, 2 + 64)]
    assert len(set(keys)) == 4
    assert text.count("auth-trunc 'hmac(sha256)'") == 2
    policies = [line for line in tunnels._policies(far) if " policy " in line]
    assert len(policies) == 3 * 2
    assert policies[0] == (
        "ip xfrm policy add src 198.19.0.0/16 dst 198.18.0.0/16 dir out "
        "tmpl src 203.0.113.2 dst 203.0.113.1 proto esp reqid 1 mode tunnel"
    )
    assert sh("-n", text=text + "\n".join(tunnels._policies(near))) == ""


def sh(*options: str, text: str) -> str:
    done = subprocess.run(["sh", *options], input=text, capture_output=True, text=True, check=True)
    return done.stdout + done.stderr


@pytest.mark.parametrize(
    ("content", "name"),
    [
        (b"QFI\xfb\0\0\0\3", "qcow2"),
        (b"KDMV\1", "vmdk"),
        (b"vhdxfile", "vhdx"),
        (b"\xeb\x63", "raw"),
        (b"", "raw"),
    ],
)
def test_the_format_of_an_image_is_told_by_its_content(content: bytes, name: str, tmp_path: Path) -> None:
    path = tmp_path / "a,b.img"
    path.write_bytes(content)
    assert device.format_of(content) == name
    # A comma would end the option; and nothing is written into the user's file.
    options = f"file={tmp_path}/a,,b.img,format={name},if=ide,snapshot=on"
    boot = device.boot(path, HOST_FILES)
    assert boot.options == ["-drive", options]
    assert not boot.has_agent


def test_an_image_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="needs a disk image: --image FILE"):
        dut.make("image")
    with pytest.raises(InputError, match="that is a folder; give the path of a disk image"):
        dut.make("image", tmp_path, HOST_FILES)
    with pytest.raises(InputError, match="/none: no such file; give the path of a disk image"):
        dut.make("image", tmp_path / "none", HOST_FILES)


def test_the_packet_that_tells_of_a_working_image_is_whole() -> None:
    frame = device.probe(b"token")
    assert frame[:6] == wiring.mac_bytes(wiring.IN0.mac)
    header = frame[14:34]
    # A header with its own checksum sums up to all ones (RFC 1071).
    words = [int.from_bytes(header[n : n + 2], "big") for n in range(0, 20, 2)]
    assert sum(words) % 0xFFFF == 0
    assert header[12:] == bytes([198, 18, 255, 254, 198, 19, 255, 254])
    assert int.from_bytes(header[2:4], "big") == len(frame) - 14
    assert frame.endswith(b"token")

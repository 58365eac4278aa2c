"""What is heard at a port before anything is sent."""

from __future__ import annotations

import pytest

from weirlab.lab.wired.ends import Neighbourhood

OWN = "02:00:00:00:00:0a"
BROADCAST = "ffffffffffff"


def heard(*frames: str) -> Neighbourhood:
    found = Neighbourhood()
    for frame in frames:
        found.take(bytes.fromhex(frame))
    return found


def test_the_device_alone_is_no_objection() -> None:
    device = f"{BROADCAST} 020000000001 0806"
    assert heard().objection([OWN]) == ""
    assert heard(device, device).objection([OWN]) == ""


def test_the_tester_s_own_frames_which_a_bridge_hands_back_do_not_count() -> None:
    own, device = f"{BROADCAST} 02000000000a 0806", f"{BROADCAST} 020000000001 0806"
    assert heard(own, device).objection([OWN]) == ""


def test_two_hosts_are_one_too_many() -> None:
    found = heard(f"{BROADCAST} 020000000001 0806", f"{BROADCAST} 020000000002 86dd")
    assert found.objection([OWN], of_device=2) == ""
    assert found.objection([OWN]) == "2 hosts are connected to it (02:00:00:00:00:01, 02:00:00:00:00:02)"


@pytest.mark.parametrize(
    ("frame", "name"),
    [
        ("0180c2000000 020000000001 0026424203", "spanning tree"),
        ("01000ccccccd 020000000001 0032aaaa03", "spanning tree"),
        ("01000ccccccc 020000000001 0032aaaa03", "CDP"),
        ("0180c200000e 020000000001 88cc", "LLDP"),
    ],
)
def test_a_switch_makes_itself_known(frame: str, name: str) -> None:
    assert heard(frame).objection([OWN]) == f"a switch is connected to it ({name})"

"""What helps against extrapolation, as commands that can be run."""

from __future__ import annotations

import pytest

from weirlab.model.base import Reason, refusal

FRAMES = Reason(
    "frame size 900 B, but only 64 B was profiled", "profile such frames (weir profile --frame 64,900)"
)


@pytest.mark.parametrize(
    ("profile", "helps"),
    [
        ("", "profile such frames (weir profile --frame 64,900)"),
        (
            "weir profile --dut nftables --frame 64 --quick",
            "(weir profile --dut nftables --quick --frame 64,900)",
        ),
        ("weir profile --frame=64,128 --rules 0,9", "(weir profile --rules 0,9 --frame 64,128,900)"),
        ("weir profile --ruleset 'my rules'", "(weir profile --ruleset 'my rules' --frame 64,900)"),
    ],
)
def test_what_helps_keeps_the_options_of_the_profile(profile: str, helps: str) -> None:
    words = profile.replace("'my rules'", "my_rules").split()
    words = ["my rules" if word == "my_rules" else word for word in words]
    assert f"{helps}; or accept the risk with --extrapolate" in str(refusal("plan", [FRAMES], words))

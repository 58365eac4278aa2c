"""Captures of transfers with a planted cause: what `weir trace` names first, and for how much of the time."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from examples import EXAMPLES
from weirlab.cli.program.app import app

EXAMPLE_FILES = Path(__file__).resolve().parents[3] / "examples" / "captures"
RECORDED = Path(__file__).parent / "recorded" / "captures"
ROW = re.compile(r"^\| `(?P<file>[\w.-]+)` \| .* \| `(?P<cause>\w+)` \|$", re.MULTILINE)
NAMED = {each["file"]: each["cause"] for each in ROW.finditer((EXAMPLE_FILES / "README.md").read_text())}
MOST_BYTES = 200_000


def connection(path: Path, *options: str) -> dict[str, Any]:
    result = CliRunner().invoke(app, ["trace", str(path), "--json", *options])
    assert result.exit_code == 0, result.output
    (found,) = json.loads(result.stdout)["connections"]
    assert isinstance(found, dict)
    return found


def diagnosis(path: Path) -> dict[str, Any]:
    found = connection(path)["diagnosis"]
    assert isinstance(found, dict)
    return found


def test_the_readme_of_the_examples_names_all_of_them() -> None:
    assert (
        set(NAMED) == {path.name for path in EXAMPLE_FILES.glob("*.zst")} == {each.file for each in EXAMPLES}
    )


@pytest.mark.parametrize("name", NAMED)
def test_the_cause_that_the_readme_of_an_example_tells_is_named_first(name: str) -> None:
    path = EXAMPLE_FILES / name
    assert path.stat().st_size < MOST_BYTES
    found = diagnosis(path)
    assert found["findings"][0]["cause"] == NAMED[name]
    assert found["sentence"] == found["findings"][0]["sentence"]
    assert found["findings"][0]["evidence"]


@pytest.mark.parametrize(
    ("name", "cause", "truth"),
    [
        # The writer wakes when a third of its send buffer is free, on a busy host late.
        ("small-send-buffer-sender", "send_buffer", 1.0),
        ("small-send-buffer-receiver", "send_buffer", 1.0),
        # The receiver offers window scaling with a scale of 0, which is an offer.
        ("small-receive-window-sender", "receive_window", 0.98),
        # ACKs arrive for so long that they are often right before the next write.
        ("slow-writer-receiver", "application_write", 0.67),
        # A few segments per round trip, whose ACKs must not seem to come after what they let out.
        ("shallow-queue-receiver", "loss", 0.96),
        ("nagle-delayed-ack-receiver", "nagle", 0.65),
    ],
)
def test_what_was_once_taken_for_something_else_is_named(name: str, cause: str, truth: float) -> None:
    path = RECORDED / f"{name}.pcapng.zst"
    assert path.stat().st_size < MOST_BYTES
    found = diagnosis(path)
    assert found["findings"][0]["cause"] == cause
    assert found["findings"][0]["share"] == pytest.approx(truth, abs=0.05)


@pytest.mark.parametrize(
    ("name", "cause"),
    [
        ("backup.pcapng.zst", "application_write"),
        ("radio-link.pcapng.zst", "loss"),
        # Without the handshake the MSS is not known, nor the scale of the window.
        ("requests.pcapng.zst", "nagle"),
        ("overseas.pcapng.zst", "unknown"),
    ],
)
def test_a_capture_that_begins_in_the_middle_claims_nothing_of_windows(name: str, cause: str) -> None:
    whole = connection(EXAMPLE_FILES / name)
    later = f"@{whole['first_ns'] / 1e9 + 1:.6f}"
    part = connection(EXAMPLE_FILES / name, "--from", later)
    assert part["begin"] == "middle"
    assert part["diagnosis"]["findings"][0]["cause"] == cause
    assert "whether the receiver's window was full" in [
        each["what"] for each in part["diagnosis"]["cannot_be_told"]
    ]

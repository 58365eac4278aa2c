"""From nothing to a plot from ns-3: the commands of docs/simulate.md, in a fresh folder."""

from __future__ import annotations

import csv
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
MISSING = [
    package
    for package, there in {
        "libns3-dev": Path("/usr/include/ns3/core-module.h").is_file(),
        "g++": shutil.which("g++"),
        "make": shutil.which("make"),
        "gnuplot-nox": shutil.which("gnuplot"),
    }.items()
    if not there
]


def commands() -> list[str]:
    """The block of commands in the section about ns-3, without comments."""
    section = (ROOT / "docs/simulate.md").read_text().partition("## In ns-3\n")[2]
    block = re.search(r"(?:^    .+\n)+", section, re.MULTILINE)
    assert block is not None
    return [line.partition("  #")[0].strip() for line in block[0].splitlines()]


@pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}")
def test_six_commands_lead_from_nothing_to_a_plot_from_ns3(tmp_path: Path) -> None:
    assert len(commands()) == 6
    environment = {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "HOME": str(tmp_path),
        "WEIR_STORE": str(tmp_path / "store"),
        "PYTHONPATH": str(ROOT / "python"),
    }
    # Without root, as the page says, and shorter.
    instead = {"weir profile --dut nftables": "weir profile --lab sim --quick"}
    weir = f'weir() {{ {sys.executable} -m weirlab "$@"; }}\nset -e\n'
    script = weir + "\n".join(instead.get(command, command) for command in commands())
    done = subprocess.run(
        ["bash", "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    folder = tmp_path / "firewall-ns3"
    rows = list(csv.DictReader((folder / "ramp.csv").open()))
    assert len(rows) == 30
    for row in rows:
        mean, predicted = float(row["delay_mean_us"]), float(row["predicted_mean_us"])
        if not 0.9 < float(row["load"]) < 1.1:
            assert mean == pytest.approx(predicted, rel=0.1)
        assert float(row["loss_ratio"]) == pytest.approx(float(row["predicted_loss_ratio"]), abs=0.02)
    assert "<svg" in (folder / "ramp.svg").read_text()

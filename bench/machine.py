"""The machine and its load, for the record of a benchmark."""

from __future__ import annotations

import os
import platform
import subprocess
from pathlib import Path

import numpy
import scipy


def versions() -> dict[str, str]:
    """Versions and properties that the results depend on."""
    cpuinfo = Path("/proc/cpuinfo").read_text().splitlines()
    models = [line.partition(":")[2].strip() for line in cpuinfo if line.startswith("model name")]
    described = subprocess.run(
        ["git", "-C", str(Path(__file__).resolve().parent), "describe", "--always", "--dirty"],
        capture_output=True,
        text=True,
        check=False,
    )
    return {
        "weir": described.stdout.strip(),
        "numpy, scipy": f"{numpy.__version__}, {scipy.__version__}",
        "kernel": platform.release(),
        "load average before": " ".join(f"{load:.2f}" for load in os.getloadavg()),
        "cpu": f"{os.cpu_count()} x {models[0] if models else platform.machine()}",
    }

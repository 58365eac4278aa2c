"""A measured device in OMNeT++ between elements of INET; needs OMNeT++ 6 on the path, and INET_ROOT."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from weirlab.model import DeviceModels, QueueingModel
from weirlab.model.base import F64
from weirlab.simulators import write_module

NETWORK = "WeirQueueing"
NEVER_S = 1e6


def build(device: str, model: QueueingModel, module: Path) -> None:
    """Write and build the module of a device."""
    write_module(DeviceModels(device, {"queueing": model}), "omnetpp", module)
    done = subprocess.run(["make", "-C", module], capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"the module for OMNeT++ is not built: {done.stderr.strip()[-500:]}")


def passages(module: Path, settings: Mapping[str, str]) -> F64:
    """Rows of arrival and time inside in ns, -1 for lost packets, in the order of arrivals."""
    root = os.environ.get("INET_ROOT")
    if root is None:
        sys.exit("source INET's setenv first: INET_ROOT is not set")
    results = module / "results"
    words = {
        "sim-time-limit": "",
        f"{NETWORK}.scenario.script": 'xml("<scenario/>")',
        f"{NETWORK}.*.packetLength": "64B",
        f"{NETWORK}.right.initialProductionOffset": f"{NEVER_S}s",
        f"{NETWORK}.right.productionInterval": f"{NEVER_S}s",
        f"{NETWORK}.link.processingTime": "1ns",
        f"{NETWORK}.firewall.modelFile": '"../example/firewall.model.json"',
        f"{NETWORK}.firewall.seed": "2",
        **settings,
        "**.firewall.*.result-recording-modes": "+vector",
        "**.firewall.*.statistic-recording": "true",
        "**.statistic-recording": "false",
        "output-vector-precision": "17",
        "cmdenv-express-mode": "true",
        "result-dir": str(results),
    }
    places = f"../src:.:{root}/src"
    command = ["../src/weir", "-u", "Cmdenv", "-l", f"{root}/src/INET", "-n", places, "-f", "/dev/null"]
    command += [f"--network=weir.inet.{NETWORK}", *(f"--{name}={value}" for name, value in words.items())]
    done = subprocess.run(command, cwd=module / "inet", capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"OMNeT++ fails: {(done.stdout + done.stderr).strip()[-500:]}")
    (file,) = results.glob("*.vec")
    found = recorded(file)
    file.unlink()
    return found


def recorded(file: Path) -> F64:
    """The same from a file of vectors."""
    names: dict[str, str] = {}
    rows: list[tuple[float, float]] = []
    with file.open() as lines:
        for line in lines:
            if line.startswith("vector "):
                _, number, _, name, *_ = line.split()
                names[number] = name
            elif line[:1].isdigit():
                number, _, at_s, value = line.split()
                name, at_ns = names[number], 1e9 * float(at_s)
                if name.startswith("delay"):
                    rows.append((at_ns - 1e9 * float(value), 1e9 * float(value)))
                elif name.startswith("drop") and float(value):  # the count; 0 before the first
                    rows.append((at_ns, -1.0))
    found = np.array(rows, np.float64).reshape(-1, 2)
    return found[np.argsort(found[:, 0], kind="stable")]

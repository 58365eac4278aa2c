"""Scenario files: YAML that says what to test, checked with places in its messages.

``kinds`` tells what files can be about, ``model`` (and a module per further kind) has the keys and
their meaning, ``document`` reads YAML, ``load`` joins them. ``ready`` holds the files that come with Weir.
"""

from __future__ import annotations

from weirlab.scenario.calls import CallShape
from weirlab.scenario.capacity import Capacity, CapacityScenario
from weirlab.scenario.full import FULL, full
from weirlab.scenario.kinds import KINDS, AnyScenario
from weirlab.scenario.load import from_plain, json_schema, load, loads, section
from weirlab.scenario.model import (
    NO_DEVICE,
    QUICK,
    Adaptive,
    Calibrate,
    Device,
    Dut,
    HeldOut,
    Lab,
    Profile,
    Root,
    Scenario,
)

__all__ = [
    "FULL",
    "KINDS",
    "NO_DEVICE",
    "QUICK",
    "Adaptive",
    "AnyScenario",
    "Calibrate",
    "CallShape",
    "Capacity",
    "CapacityScenario",
    "Device",
    "Dut",
    "HeldOut",
    "Lab",
    "Profile",
    "Root",
    "Scenario",
    "from_plain",
    "full",
    "json_schema",
    "load",
    "loads",
    "section",
]

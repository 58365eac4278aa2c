"""Scenario files: YAML that says what to test, checked with places in its messages.

``model`` has the keys and their meaning, ``document`` reads YAML, ``load`` joins the two.
"""

from __future__ import annotations

from weirlab.scenario.full import FULL, full
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
    Scenario,
)

__all__ = [
    "FULL",
    "NO_DEVICE",
    "QUICK",
    "Adaptive",
    "Calibrate",
    "Device",
    "Dut",
    "HeldOut",
    "Lab",
    "Profile",
    "Scenario",
    "from_plain",
    "full",
    "json_schema",
    "load",
    "loads",
    "section",
]

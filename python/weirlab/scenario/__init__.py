"""Scenario files: YAML that says what to test, checked with error messages that name the place.

``model`` has the sections that several kinds share, ``document`` reads YAML, and ``load`` validates it. The
other sections of a kind are in the folder of its study. ``ready`` has the files that come with Weir.
"""

from __future__ import annotations

from weirlab.scenario.calls import CallShape
from weirlab.scenario.full import FULL, full
from weirlab.scenario.load import Typed, checked, from_options, from_plain, section
from weirlab.scenario.model import NO_DEVICE, Calibrate, Device, Dut, Lab, Root
from weirlab.scenario.profile import QUICK, Adaptive, HeldOut, Profile, Scenario

__all__ = [
    "FULL",
    "NO_DEVICE",
    "QUICK",
    "Adaptive",
    "Calibrate",
    "CallShape",
    "Device",
    "Dut",
    "HeldOut",
    "Lab",
    "Profile",
    "Root",
    "Scenario",
    "Typed",
    "checked",
    "from_options",
    "from_plain",
    "full",
    "section",
]

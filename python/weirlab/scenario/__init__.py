"""Scenario files: YAML that says what to test, checked with error messages that name the place.

``model`` has the sections that several kinds share, ``document`` reads YAML, and ``load`` validates it. The
other sections of a kind are in the folder of its study, and so is ``ready``, the files that come with Weir.
"""

from __future__ import annotations

from weirlab.scenario.load import OptionValue, checked, from_options, from_plain, section
from weirlab.scenario.model import BLACK_BOX, NO_DEVICE, CalibrationSection, Dut, Lab, Root
from weirlab.scenario.profile import QUICK, HeldOutSection, ProfileSection, Scenario, full

__all__ = [
    "BLACK_BOX", "NO_DEVICE", "QUICK", "CalibrationSection", "Dut", "HeldOutSection", "Lab", "OptionValue",
    "ProfileSection", "Root", "Scenario", "checked", "from_options", "from_plain", "full", "section",
]  # fmt: skip

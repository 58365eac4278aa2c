"""Prediction intervals, calibrated on a profile's own trials, for settings that were not profiled."""

from __future__ import annotations

from weirlab.model.intervals.calibration import IntervalCalibration
from weirlab.model.intervals.cross_validation import calibrate

__all__ = ["IntervalCalibration", "calibrate"]

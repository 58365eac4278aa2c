"""Prediction intervals, calibrated on a profile's own trials, for settings that were not profiled."""

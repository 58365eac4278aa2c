"""Calls through a device under test: between the caller and everybody else, counted on the device's ports."""

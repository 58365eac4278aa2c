"""Measured devices in other simulators: a C++ core without dependencies, and the modules built on it."""

from weirlab.simulators.writing import SIMULATORS, SimulatorName, write_module

__all__ = ["SIMULATORS", "SimulatorName", "write_module"]

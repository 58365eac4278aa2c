"""Measured devices in other simulators: a C++ core without dependencies, and the modules built on it."""

from __future__ import annotations

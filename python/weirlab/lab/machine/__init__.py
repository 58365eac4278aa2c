"""A machine made of namespaces: programs that find a /run of their own, and that end with it."""

from weirlab.lab.machine.machine import CRITICAL, NEWS, Machine

__all__ = ["CRITICAL", "NEWS", "Machine"]

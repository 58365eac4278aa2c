"""Weir's errors, in a few classes.

A message says what failed, where, what was expected and what to do. Packet loss is a
result and never an error. ``exit_code`` is what the command line returns.
"""

from __future__ import annotations

import signal


class WeirError(Exception):
    """Base of every error that Weir raises on purpose."""

    exit_code = 1


class InputError(WeirError):
    """The user's input (an option, a scenario, a ruleset, a file) cannot be used."""

    exit_code = 2


class MissingCapability(WeirError):
    """The machine lacks a privilege, a tool or a kernel feature; the message names the remedy."""

    exit_code = 3


class LabError(WeirError):
    """The test bed could not be built or the device under test does not work."""

    exit_code = 4


class TrialError(WeirError):
    """A trial could not be carried out, or stayed invalid after every allowed repetition."""

    exit_code = 5


class StoreError(WeirError):
    """The run store cannot be read or written: full, read-only, corrupt, or no such run."""

    exit_code = 6


class DiskFull(StoreError):
    """The disk is full, or the quota on it is used up."""


class ModelError(WeirError):
    """The data do not determine the model, or a prediction lies outside its range."""

    exit_code = 7


class Undecided(WeirError):
    """The measurements leave open whether a requirement is met, or whether two runs differ."""

    exit_code = 7


class OutputError(WeirError):
    """The result cannot be written to standard output: it is closed, or its disk is full."""

    exit_code = 8


class NotMet(WeirError):
    """A requirement is not met, a plan answers no, or a run is worse than another."""

    exit_code = 9


class NobodyReads(OutputError):
    """The reader of standard output has closed it, as ``head`` does after its last line; prints nothing."""

    exit_code = 128 + signal.SIGPIPE

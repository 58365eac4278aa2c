"""Attempts at trials: which trial is next, what share of attempts is valid, how long all may take."""

from weirlab.measure.attempts.budget import Budget
from weirlab.measure.attempts.queue import TrialQueue, setting_of
from weirlab.measure.attempts.repeated import until_valid
from weirlab.measure.attempts.share import ValidShare

__all__ = ["Budget", "TrialQueue", "ValidShare", "setting_of", "until_valid"]

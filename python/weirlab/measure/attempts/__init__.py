"""Attempts at trials: which trial is next, what share of attempts is valid, how long all may take."""

from weirlab.measure.attempts.budget import Budget
from weirlab.measure.attempts.queue import Queue, setting_of
from weirlab.measure.attempts.repeated import until_valid
from weirlab.measure.attempts.share import Share

__all__ = ["Budget", "Queue", "Share", "setting_of", "until_valid"]

"""Shared parts of studies: test beds, calibration, profiles, the verdict on the machine, single trials.

Nothing here prints: a job reports to a :class:`~weirlab.jobs.progress.Progress` and returns an outcome with a
``document()`` of plain values.
"""

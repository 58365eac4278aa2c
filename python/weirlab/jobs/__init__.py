"""What studies share: beds for a scenario, calibration, profiles, the verdict on the machine, single trials.

Nothing here prints: a job tells a :class:`~weirlab.jobs.progress.Progress` how far it is and returns an
outcome with a ``document()`` in plain values.
"""

"""Models while the load changes: how long a queue takes to fill and to drain, and what a step adds.

:func:`over_time` predicts, :func:`binned` averages the prediction as a trial's time series does, and
:func:`step_errors` compares the two. ``docs/transients.md`` derives it and says where it fails.
"""

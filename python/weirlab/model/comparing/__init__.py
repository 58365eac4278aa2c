"""Two runs, or two groups of runs, compared: did the device become slower? Pure.

:mod:`weirlab.model.comparing.matching` finds the settings that both measured,
:mod:`weirlab.model.comparing.scatter` knows how much runs of one device differ, and
:mod:`weirlab.model.comparing.verdicts` draws the conclusion. ``docs/ci.md`` explains it.
"""

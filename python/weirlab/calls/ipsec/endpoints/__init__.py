"""Endpoints of calls that bypass the system, and ordinary ones, with ESP: jitter, delay, how many calls go.

``plan`` is what a scenario may say and the attempts that follow from it, ``bed`` carries one out
between two namespaces, ``figures`` computes what it showed, ``study`` goes from a scenario to a kept run.
"""

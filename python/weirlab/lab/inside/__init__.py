"""What a device under load shows to those who look from inside, as its own monitoring would.

``agent`` runs in the device's namespace and on its CPU, at normal priority: ten times a second it
reads how the CPU spends its time, how many connections are tracked, and the interface counters. It
is a program by itself that needs nothing but Python, and tells what it saw when asked, after the
load; ``sampler`` starts and ends it. A device that is busy does not let it run: ``view`` keeps the
samples that were due apart from those that were taken, and what it says about the time of the load
comes from samples of that time alone.
"""

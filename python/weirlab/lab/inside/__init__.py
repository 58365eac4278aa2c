"""What a device under load looks like from inside, to its own monitoring.

``agent`` runs in the device's namespace and on its CPU, at normal priority: ten times a second it
reads how the CPU spends its time, how many connections are tracked, and the interface counters. It
is a separate program that needs only Python, and reports its samples on request, after the load;
``sampler`` starts and ends it. A busy device does not let it run: ``view`` distinguishes samples
that were due from those that were taken, and uses only samples from the time of the load.
"""

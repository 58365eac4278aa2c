"""The device's own monitoring: how it looks from inside under load, and a management session (cross traffic).

``session`` starts, asks and ends the programs of ``agent``, which need only Python and end when their parent
is gone, however it ended. One runs in the device's namespace and on its CPU, at normal priority: ten times a
second it reads how the CPU spends its time, how many connections are tracked, and the interface counters. It
reports its samples on request, after the load. A busy device does not let it run: ``view`` distinguishes
samples that were due from those that were taken, and uses only samples from the time of the load.

A management session has two: one on the device looks at the interface counters ten times a second, lists the
rules with the administrator's own tool, and sends the text over TCP to the other, in a separate namespace at
the other end of a separate cable.
"""

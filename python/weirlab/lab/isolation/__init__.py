"""Keeps the measuring CPUs free of all other work.

``partition`` isolates the CPUs of sender and device while a test bed is open, if the machine has CPUs to
spare; ``unified`` and ``legacy`` do that with control groups of version 2 and 1, which ``groups`` reads and
writes. ``aside`` keeps this process and its descendants off these CPUs during a trial. ``pages`` keeps the
kernel from moving thousands of free pages there at once.
"""

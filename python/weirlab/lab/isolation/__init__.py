"""The CPUs that measure kept free of everything else.

``partition`` isolates the CPUs of sender and device while a test bed is open, where the machine has CPUs
to spare; ``unified`` and ``legacy`` know how control groups of version 2 and 1 do that, ``groups`` reads and
writes them. ``aside`` keeps this process and what it started off these CPUs while a trial lasts.
"""

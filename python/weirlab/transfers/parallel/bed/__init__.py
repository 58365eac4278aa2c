"""Where attempts are made: ``base`` is what a bed is given and what it tells, ``namespaces`` is the real one.

``carriers`` send and receive by each method, ``mptcp`` asks the kernel for multipath TCP, ``watching``
samples connections by path.
"""

from weirlab.transfers.parallel.bed.base import AttemptObservation, OpenBed, ParallelAttempt, ParallelBed

__all__ = ["AttemptObservation", "OpenBed", "ParallelAttempt", "ParallelBed"]

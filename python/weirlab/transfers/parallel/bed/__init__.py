"""Where attempts are made: ``base`` is what a bed is given and what it tells, ``namespaces`` is the real one.

``carriers`` send and receive by each method, ``mptcp`` asks the kernel for multipath TCP.
"""

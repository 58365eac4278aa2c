"""An H.323 telephone for the lab: it registers with a gatekeeper, calls, answers calls and speaks.

``h225`` and ``h245`` read and write messages, ``call`` is one call, and ``registering`` what passes between
the telephone and its gatekeeper; none of them does I/O. ``session`` is a call with its sockets; ``serving``
is the whole telephone. ``settings`` says what it is to do. ``python -m`` runs it, and ``ordering`` gives it
an order.
"""

"""A management session with the device: the cross traffic of a monitoring system.

``agent`` runs on the device: ten times a second it looks at the interface counters, lists the
rules with the administrator's own tool and sends the text over TCP to the ``station``, which
sits in a separate namespace at the other end of a separate cable. Both are separate
programs that need only Python; they end when their parent is gone, however it ended.
``session`` starts and ends them.
"""

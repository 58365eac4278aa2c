"""A management session with the device: the cross traffic of a monitoring system.

``agent`` runs on the device: ten times a second it looks at the interface counters, lists the
rules with the administrator's own tool and sends the text over TCP to the ``station``, which
sits in a namespace of its own at the other end of a separate cable. Both are programs by
themselves that need nothing but Python; they end when the process that started them is gone,
however it went. ``session`` starts and ends them.
"""

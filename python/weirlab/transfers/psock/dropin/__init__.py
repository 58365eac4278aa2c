"""Programs that cannot be changed, over parallel sockets: ``weir psock run`` and ``weir psock proxy``.

``redirecting`` has the two ways in which connections are redirected, ``group`` is the control group of one,
``enter`` begins a program in it or under a seccomp filter, ``program`` looks after the program, ``account``
keeps what became of its connections, ``checking`` tells ``weir doctor`` which ways work here. See
``docs/psock-run.md``.
"""

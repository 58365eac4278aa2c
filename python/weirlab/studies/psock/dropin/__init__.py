"""Programs that cannot be changed, over parallel sockets: ``weir psock run`` and ``weir psock proxy``.

``group`` is the control group whose connections are redirected, ``enter`` begins a program in it, ``program``
looks after the program, ``account`` keeps what became of its connections, ``checking`` tells ``weir doctor``
whether this works here. See ``docs/psock-run.md``.
"""

"""Programs that cannot be changed, over parallel sockets: ``weir psock run`` and ``weir psock proxy``.

``group`` is the control group whose connections are redirected, ``enter`` begins a program in it, ``program``
looks after the program, ``account`` keeps what became of its connections, ``checking`` is what ``weir doctor``
says of all this. See ``docs/psock-run.md``.
"""

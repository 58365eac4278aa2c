"""Parallel sockets put to the test over emulated paths, all methods side by side.

``section`` is what a scenario may say, ``plan`` the attempts that follow from it. ``namespaces`` carries one
out: ``carriers`` send and receive by each method. ``recording`` makes rows of what was seen, ``findings``
conclusions of the rows.
"""

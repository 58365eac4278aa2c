"""Parallel sockets put to the test over emulated paths, all methods side by side.

``section`` is what a scenario may say, ``plan`` the attempts that follow from it, ``bed`` carries one out in
namespaces, ``campaign`` all of them, ``recording`` makes rows of what was seen, ``findings`` conclusions of
the rows.
"""

"""A numbering plan that several organisations change: kept in a database, with rights, history and undo.

``pieces`` says which pieces a plan has and makes it of them, ``places`` writes it as a document, ``state``
finds its mistakes. ``rights`` says who may change what, ``register`` makes and undoes changes, ``accounts``
lets users in, and ``publishing`` writes the zones and has BIND load them. ``database`` alone knows SQL.
"""

"""An H.323 gatekeeper in direct mode: it registers endpoints and resolves numbers (H.225.0 RAS).

``messages`` are the messages, ``ras`` reads and writes them. ``table`` is what the plan says,
``registrations`` who has registered, ``answering`` answers every request; ``enum`` queries the domain name
system. ``python -m`` runs it.
"""

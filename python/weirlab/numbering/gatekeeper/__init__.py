"""An H.323 gatekeeper in direct mode: it registers endpoints and resolves numbers (H.225.0 RAS).

``ras`` has the messages, ``datagrams`` reads and writes them. ``table`` is what the plan says, ``answering``
answers every request and keeps the registrations. ``python -m`` runs it and queries the domain name system.
"""

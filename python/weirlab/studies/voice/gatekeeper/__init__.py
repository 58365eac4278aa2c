"""A gatekeeper of H.323 in direct mode: it registers endpoints and says where numbers lead (H.225.0 RAS).

``messages`` are what is said, ``ras`` reads and writes them. ``table`` is what the plan says,
``registrations`` who is there, ``answering`` the answer to every request; ``enum`` asks the domain name
system. ``python -m`` runs it.
"""

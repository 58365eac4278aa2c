"""A gatekeeper of H.323 in direct mode: it registers gateways and says where numbers lead (H.225.0 RAS).

``ras`` reads and writes messages, ``table`` is what the plan says, ``registrations`` who is there,
``answering`` the answer to every request; ``enum`` asks the domain name system. ``python -m`` runs it.
"""

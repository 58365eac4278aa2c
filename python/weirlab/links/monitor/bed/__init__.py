"""A link with a monitor on it: sender, bridge in the middle, receiver, and whoever records.

``base`` names the methods and what is counted, ``wiring`` builds the namespaces, ``recording`` has those who
record, ``lab`` joins them.
"""

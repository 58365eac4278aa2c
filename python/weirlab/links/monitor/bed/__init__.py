"""A link with a monitor on it: sender, bridge in the middle, receiver, and whoever records.

``wiring`` builds the namespaces, ``recording`` has those who record, ``lab`` joins them.
"""

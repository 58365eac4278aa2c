"""Devices that are more than a packet filter on the path of routed packets, or take another path."""

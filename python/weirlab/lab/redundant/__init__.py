"""A redundant pair of firewalls: VRRP or CARP for the addresses, conntrackd for the states."""

"""Tunnels as devices: two gateways, and what they make of the packets between them."""

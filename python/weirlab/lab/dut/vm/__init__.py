"""Drivers of devices that are virtual machines: a filter in one, the gateways of a tunnel in two."""

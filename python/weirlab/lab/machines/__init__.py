"""Machines inside a lab: daemons in a namespace with a private /run, which end with their owner."""

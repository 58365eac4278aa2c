"""Machines inside a lab: daemons in a namespace, with a /run of their own, that end with their owner."""

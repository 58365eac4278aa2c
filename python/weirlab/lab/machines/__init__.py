"""Machines inside a lab, which end with their owner: daemons in a namespace, and virtual machines.

Daemons have a private /run. The kernel and the root of virtual machines come from Debian packages; QEMU runs
them, with an agent inside.
"""

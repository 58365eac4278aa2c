"""Packets with which two orders of the same rules are compared, and what a trace of them shows; pure."""

"""Scenarios started from the page: one at a time in a child process, the others in a queue."""

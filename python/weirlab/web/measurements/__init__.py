"""Captures, tests and scenarios under their data IDs: the room they take, and how long they are kept."""

"""The user interface of the link monitor."""

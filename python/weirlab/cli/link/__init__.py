"""The face of the link monitor."""

"""The face of everything about calls."""

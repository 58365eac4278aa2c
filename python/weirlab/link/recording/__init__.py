"""The recorder in a separate process, and its supervisor."""

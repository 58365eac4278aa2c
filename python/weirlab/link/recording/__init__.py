"""The recorder in a process of its own, and whoever watches over it."""

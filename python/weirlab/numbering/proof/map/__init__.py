"""The map of a plan's network: its content, its layout, and the ways that calls took."""

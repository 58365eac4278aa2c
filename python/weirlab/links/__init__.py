"""A link between two interfaces, emulated or monitored."""

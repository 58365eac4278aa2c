"""Commands about studies of any kind, about their runs, and about this machine."""

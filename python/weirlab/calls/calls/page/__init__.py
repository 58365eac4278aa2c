"""The page about one set of calls through a device: what each caller heard, and over time."""

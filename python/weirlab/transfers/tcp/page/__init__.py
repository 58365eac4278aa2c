"""The page about a transfer: why it was not faster, where the time went, everything on one time axis."""

"""How many calls a device carries, measured and predicted."""

"""``weir plan path.yaml``: what flows meet on a path of devices in series."""

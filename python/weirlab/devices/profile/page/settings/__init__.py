"""What differs between the settings of a profile: frame sizes, rule counts, trials beside the grid; and the
machine's own state over the load."""

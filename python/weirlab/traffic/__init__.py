"""Traffic as pure values: frame sizes, loads, flows, and the schedule that the engine plays."""

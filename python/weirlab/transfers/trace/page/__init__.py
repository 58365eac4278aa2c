"""The page about one connection of a capture: time-sequence graph, throughput, round trips, flight."""

"""The page about a run: methods beside the sum of independent streams, and throughput over time by path."""

"""The page about redundant pairs: arrivals around the switch, gaps of calls, pairs compared."""

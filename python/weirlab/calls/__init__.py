"""What callers hear: calls, capacity, failover of pairs, IPsec, and the quality of captured calls."""

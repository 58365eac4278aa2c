"""Files with rules of packet filters: their format, and what the filter's own tool makes of them."""

"""What crosses the wire during a call: packets, messages, DNS queries, speech. Pure."""

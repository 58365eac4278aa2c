"""What tunnels and encryption add to packets: one formula per encapsulation; pure."""

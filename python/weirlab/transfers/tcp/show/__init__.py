"""What ``weir tcp`` prints: tables and sentences, a live screen, JSON Lines."""

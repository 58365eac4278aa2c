"""What callers hear: packets that arrive in time, late or not at all, turned into MOS. Pure."""

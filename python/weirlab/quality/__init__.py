"""What callers hear: packets that came, came late or not at all, turned into MOS. Pure."""

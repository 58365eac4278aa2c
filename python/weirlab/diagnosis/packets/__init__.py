"""What captured packets show of their sender: when they left, what released them, how much was in flight."""

"""What captured packets show of their sender: when they left, what let them out, how much was in flight."""

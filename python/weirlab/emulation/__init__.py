"""What an emulated link does to frames: read from words, and accounted for. Its thread is the engine's."""

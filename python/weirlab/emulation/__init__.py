"""What an emulated link does to frames, as specified and as counted; the engine runs the link itself."""

"""The face of what captures tell."""

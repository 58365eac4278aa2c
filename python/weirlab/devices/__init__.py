"""What a device does to packets: profiles, searches, predictions, plans and comparisons."""

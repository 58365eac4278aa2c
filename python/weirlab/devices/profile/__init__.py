"""What a device does to packets, measured, modelled, and the models verified."""

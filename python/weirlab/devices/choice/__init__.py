"""The choice of a device: devices are profiled where that is missing, and compared by what they carry."""

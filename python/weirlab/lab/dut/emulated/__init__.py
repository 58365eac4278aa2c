"""An emulated link as a device under test: the driver, and the process that carries frames."""

"""Virtual machines as devices under test: their kernel and root from Debian packages, QEMU, the agent inside."""

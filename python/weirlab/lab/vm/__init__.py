"""Virtual machines: their kernel and root from Debian packages, QEMU, the agent inside, the cables."""

"""The lab between two ports of this machine: a device that is not built here, or a patch cable."""

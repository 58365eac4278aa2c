"""What the lab uses of the Linux kernel: system calls, network namespaces, interfaces, BPF."""

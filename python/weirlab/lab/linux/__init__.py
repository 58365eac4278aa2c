"""What the lab asks of the Linux kernel: system calls, network namespaces, interfaces, BPF."""

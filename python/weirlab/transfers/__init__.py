"""Why a transfer is slow, and how it gets faster: TCP tests, traces, parallel sockets."""

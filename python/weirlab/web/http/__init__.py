"""The HTTP server: connections of clients, with limits and deadlines."""

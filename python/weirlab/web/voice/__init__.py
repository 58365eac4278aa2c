"""Zone management: a numbering plan that several organisations change, each in its browser."""

"""Zone management: a numbering plan that several organisations change in their browsers."""

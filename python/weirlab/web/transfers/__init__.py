"""Live TCP tests: a bulk transfer to a host that runs ``weir tcp serve``, watched while it runs."""

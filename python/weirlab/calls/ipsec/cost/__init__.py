"""What a packet of speech costs with ESP: processing time by suite, mode, direction and size.

``section`` is what a scenario may say, ``rows`` what is stored, ``findings`` what it shows; ``study``
measures.
"""

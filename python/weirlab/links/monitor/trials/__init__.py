"""What a monitor records of a link, and what it costs the link.

``plan`` says which trials, ``accounting`` finds where frames were lost and whether the sums close,
``campaign`` carries trials out one after the other and ``rows`` keeps them, ``search`` finds the
greatest rate without loss, ``compare`` takes medians and ``sentences`` says what they mean.
"""

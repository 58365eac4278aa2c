"""What a monitor records of a link, and what it costs the link.

``plan`` says which trials, ``campaign`` carries them out and searches the greatest rate without loss,
``rows`` keeps them and finds where frames were lost, ``compare`` takes medians and says what they mean.
"""

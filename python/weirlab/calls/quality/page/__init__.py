"""The page of ``weir quality``: how the voice streams of a capture were heard."""

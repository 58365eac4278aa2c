"""``python -m weirlab`` is the command ``weir``."""

from weirlab.cli import main

main()

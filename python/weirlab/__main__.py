"""``python -m weirlab`` is the command ``weir``."""

import os
import sys

# ``-m`` puts the current folder first, and what lies there is none of Weir's.
if not sys.flags.safe_path and sys.path[:1] == [os.getcwd()]:
    del sys.path[0]

from weirlab.cli import main

main()

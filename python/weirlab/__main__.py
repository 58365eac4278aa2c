"""``python -m weirlab`` is the command ``weir``."""

import os
import sys

# ``-m`` puts the current folder first in sys.path, and the modules there are not Weir's.
if not sys.flags.safe_path and sys.path[:1] == [os.getcwd()]:
    del sys.path[0]

from weirlab.cli import main

main()

"""Writes what pages of the documentation say with published numbers, from the data files.

python docs/published.py            writes it
python docs/published.py --check    fails if something is out of date
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from weirlab.base.tables import Table
from weirlab.publications import publication
from weirlab.reproduction.firewall import thresholds

DOCS: Final = Path(__file__).parent
BLOCK: Final = re.compile(r"(<!-- published: ([a-z-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def markdown(table: Table) -> str:
    """``table`` as Markdown."""
    lines = [table.columns, tuple("---" for _ in table.columns), *table.rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


BLOCKS: Final[Mapping[str, Callable[[], str]]] = {
    "stages": lambda: markdown(thresholds.table(publication("lohmiller-2022"))),
}
"""What is written, by the name in the page."""


def written(text: str) -> str:
    """A page with its blocks written anew."""
    return BLOCK.sub(lambda block: f"{block[1]}{BLOCKS[block[2]]()}{block[3]}", text)


def main() -> int:
    """Write or check the pages."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="change nothing; exit with 1 if out of date")
    check = parser.parse_args().check
    stale = []
    for path in sorted(DOCS.glob("*.md")):
        text = path.read_text("utf-8")
        if (new := written(text)) != text:
            stale.append(path.name)
            if not check:
                path.write_text(new, "utf-8")
    if check and stale:
        print(f"out of date: {', '.join(stale)}; run python docs/published.py")
    return int(check and bool(stale))


if __name__ == "__main__":
    sys.exit(main())

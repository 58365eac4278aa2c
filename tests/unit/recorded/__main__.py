"""Ask every command anew and show what is not as recorded: ``python tests/unit/recorded [NAME...]``.

``--keep`` writes the new answers. ``--inputs`` makes the stored runs, captures and models anew first, and
with them all answers; ``--later`` makes those of the kinds that came later, ``--latest``, ``--newest``,
``--costs``, ``--listed``, ``--swept`` and ``--matrix`` of still newer ones. Only for a new kind of run,
since they stand for what users have.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import tempfile
from pathlib import Path

from answers import ADDED, ANSWERS, CLOSE, COMMANDS, FITTED, additions, answer, differences, kept, unpacked


def main(options: list[str]) -> int:
    named = [name for name in options if not name.startswith("--")]
    if not set(options) <= {"--keep", "--inputs", *(f"--{name}" for name in ADDED), *COMMANDS}:
        print(__doc__, file=sys.stderr)
        return 2
    for name in ("inputs", *ADDED):
        if f"--{name}" in options:
            import making

            making.make(name)
    os.environ["COLUMNS"] = "100"
    different = False
    ANSWERS.mkdir(exist_ok=True)
    for name in named or COMMANDS:
        with tempfile.TemporaryDirectory() as work, contextlib.chdir(work):
            found = answer(name, unpacked(Path(work).resolve()))
        before = kept(name) if (ANSWERS / f"{name}.json").exists() else {}
        changed = [*differences(before, found, close=FITTED.get(name, CLOSE)), *additions(before, found)]
        if changed:
            different = True
            print(f"{name}: weir {COMMANDS[name]}", *changed, sep="\n    ")
            if "--keep" in options:
                text = json.dumps(found, indent=1, ensure_ascii=False)
                (ANSWERS / f"{name}.json").write_text(f"{text}\n")
    for path in ANSWERS.glob("*.json"):
        if path.stem not in COMMANDS:
            different = True
            print(f"{path.stem}: no command any more")
            if "--keep" in options:
                path.unlink()
    return int(different and "--keep" not in options)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

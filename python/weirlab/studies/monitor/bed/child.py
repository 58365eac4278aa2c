"""The process of a recorder that is to be stopped; its argument is the request, as JSON.

Says ``recording`` when it does, ends with the first line that it reads, and prints what came of it.
"""

from __future__ import annotations

import json
import sys

from weirlab.studies.monitor.bed.recording import open_recorder


def main() -> None:
    request = json.loads(sys.argv[1])
    recorder = open_recorder(request["path"], **request["options"])
    recorder.start()
    print("recording", flush=True)
    sys.stdin.readline()
    print(json.dumps(recorder.stop()), flush=True)


if __name__ == "__main__":
    main()

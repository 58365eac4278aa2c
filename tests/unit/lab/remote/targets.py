"""A target whose commands have recorded answers."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence

from weirlab.lab.remote.target import Output

FREEBSD = {
    "pfctl -sr": 'scrub in all fragment reassemble\nanchor "weir" all\nblock drop all\n',
    "sh -c command -v pfctl": "/sbin/pfctl\n",
    "pfctl -a weir -sr": "",
}
"""As pfctl of FreeBSD 14 answers; written by hand after pfctl(8)."""

OPENWRT = {
    "sh -c command -v nft": "/usr/sbin/nft\n",
    "sh -c command -v fw4": "/sbin/fw4\n",
    "uci -q get firewall.@defaults[0].flow_offloading": "",
}


class RecordedTarget:
    """Answers each command as ``answers`` say, by its words; others fail with 127."""

    name = "fw1"

    def __init__(self, answers: Mapping[str, str], client: str = "") -> None:
        self.answers = dict(answers)
        self.commands: list[str] = []
        self._client = client

    def run(self, argv: Sequence[str], stdin: str = "") -> Output:
        words = " ".join(argv)
        self.commands.append(words)
        found = self.answers.get(words)
        return subprocess.CompletedProcess(list(argv), 127 if found is None else 0, found or "", "")

    def check_login(self) -> None:
        pass

    def client(self) -> str:
        return self._client

    def close(self) -> None:
        pass

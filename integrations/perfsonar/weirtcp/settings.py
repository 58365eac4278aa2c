"""The tool's configuration file: where ``weir`` is, and the server's port."""

from __future__ import annotations

import configparser
import os
import shutil
from pathlib import Path

FILE = "/etc/pscheduler/tool/weirtcp.conf"
VARIABLE = "WEIRTCP_CONF"
"""Names another file: for trying the plug-ins out."""
PORT = 29100
SETUP_S = 10.0
"""For both ends to start and to find each other."""


class Settings:
    """``weir`` (path of the program), ``port`` and ``setup`` (seconds) of the section ``weirtcp``.

    All may be left out.
    """

    def __init__(self) -> None:
        read = configparser.ConfigParser()
        path = Path(os.environ.get(VARIABLE, FILE))
        if path.exists():
            read.read(path, encoding="utf-8")
        section = read["weirtcp"] if read.has_section("weirtcp") else read["DEFAULT"]
        self.weir = section.get("weir", fallback="") or shutil.which("weir") or ""
        self.port = section.getint("port", fallback=PORT)
        self.setup_s = section.getfloat("setup", fallback=SETUP_S)
        self.file = path

    def problem(self) -> str:
        """Why the tool cannot run here; empty if it can."""
        if not self.weir:
            return f"weir is not on the PATH; install it, or name it in {self.file}"
        if not os.access(self.weir, os.X_OK):
            return f"{self.weir} cannot be executed; see {self.file}"
        return ""

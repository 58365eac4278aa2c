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


class Settings:
    """``weir`` (path of the program) and ``port`` of the section ``weirtcp``; both may be left out."""

    def __init__(self) -> None:
        read = configparser.ConfigParser()
        path = Path(os.environ.get(VARIABLE, FILE))
        if path.exists():
            read.read(path, encoding="utf-8")
        section = read["weirtcp"] if read.has_section("weirtcp") else read["DEFAULT"]
        self.weir = section.get("weir", fallback="") or shutil.which("weir") or ""
        self.port = section.getint("port", fallback=PORT)
        self.file = path

    def problem(self) -> str:
        """Why the tool cannot run here; empty if it can."""
        if not self.weir:
            return f"weir is not on the PATH; install it, or name it in {self.file}"
        if not os.access(self.weir, os.X_OK):
            return f"{self.weir} cannot be executed; see {self.file}"
        return ""

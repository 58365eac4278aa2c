from __future__ import annotations

from ..devices.profile.page.conftest import models, run, small_run

__all__ = ["models", "run", "small_run"]

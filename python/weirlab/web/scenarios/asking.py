"""What the page requests, and the ready-made scenarios that it offers."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from weirlab.base import limits
from weirlab.base.files import Inputs
from weirlab.cli.options import LabKind
from weirlab.scenario import document
from weirlab.scenario.model import Root
from weirlab.studies import ready, scenarios
from weirlab.studies.commands.scenarios import in_lab

INPUTS: Final = Inputs(
    "a scenario from the page may name no file of this host, nor use its ports and logins; leave it out, or "
    "run the scenario with weir run"
)
"""Users who may start scenarios may not read or write this host's files."""
_MOST_NAME: Final = 100


class ScenarioRequest(BaseModel):
    """A scenario file as ``text``. Messages put ``name`` before line numbers; ``lab`` None: the file's."""

    model_config = ConfigDict(extra="forbid")

    text: Annotated[str, Field(max_length=limits.MOST_BYTES)]
    name: Annotated[str, StringConstraints(strip_whitespace=True, max_length=_MOST_NAME)] = ""
    lab: LabKind | None = None


def offered() -> list[dict[str, str]]:
    """The ready-made scenarios: ``name``, ``about`` in a phrase, and the ``text`` of the file."""
    phrases = ready.phrases()
    return [
        {"name": name, "about": phrases[name], "text": document.source(path)}
        for name, path in ready.paths().items()
    ]


def understood(asked: ScenarioRequest) -> Root:
    """The requested scenario.

    Raises
    ------
    InputError
        With one line per problem, each beginning ``name:line:column``; also for a scenario that names a file.
    """
    read = document.parse(asked.text, asked.name or "scenario")
    what = scenarios.check(read, inputs=INPUTS)
    return in_lab(what, asked.lab)

"""Configurations of the engines and name servers of a plan, as text by path below one folder."""

from __future__ import annotations

from collections.abc import Callable

from weirlab.base.errors import InputError
from weirlab.numbering.configs import asterisk, gatekeeper, kamailio, named, sipp, telephone
from weirlab.numbering.configs.folder import put
from weirlab.numbering.routing import PlanNetwork

__all__ = ["configs", "put"]


def configs(network: PlanNetwork, root: str) -> dict[str, str]:
    """All files. ``root`` is their folder when the engines run, as some formats need absolute paths.

    Raises
    ------
    InputError
        The plan requires something that an engine cannot do; the message has its line.
    """
    if set(root) & set('"\n;'):
        raise InputError(
            "--root: engines cannot read a path with quotes, semicolons or line breaks; choose another"
        )
    makers: dict[str, Callable[[PlanNetwork, str, str], dict[str, str]]] = {
        "proxy": kamailio.files,
        "gateway": asterisk.files,
        "gatekeeper": gatekeeper.files,
    }
    found: dict[str, str] = {}
    for name, engine in network.plan.engines.items():
        maker = telephone.files if telephone.is_one(engine) else makers.get(engine.kind)
        if maker is not None:
            made = maker(network, name, f"{root.rstrip('/')}/{name}")
            found.update({f"{name}/{file}": text for file, text in made.items()})
    for server in named.servers(network):
        made = named.files(network, server, f"{root.rstrip('/')}/{server.name}")
        found.update({f"{server.name}/{file}": text for file, text in made.items()})
    found.update({f"sipp/{file}": text for file, text in sipp.files(network).items()})
    return dict(sorted(found.items()))

"""Configurations of the engines and name servers of a plan, as text by path below one folder."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Final

from weirlab.base import files, limits
from weirlab.base.errors import InputError
from weirlab.base.quantities import words
from weirlab.numbering import zones
from weirlab.numbering.configs import asterisk, h323, kamailio, parts, sipp
from weirlab.numbering.plan.model import EnumEntry
from weirlab.numbering.routing import PlanNetwork, profiles

MANIFEST: Final = "manifest.json"


def put(made: dict[str, str], folder: Path, about: dict[str, object]) -> list[str]:
    """Write ``made``, text by path, below ``folder``, and a manifest last.

    Files of an earlier manifest that are no longer generated are removed; other files stay.

    Parameters
    ----------
    about
        What the manifest contains besides the files and their digests.

    Raises
    ------
    InputError
        The folder is not empty and has no manifest: Weir did not write it.
    """
    files.check_folder(folder, "--out")
    files.make_folder(folder)
    before = _before(folder)
    for name, text in made.items():
        path = folder / name
        files.make_folder(path.parent)
        files.write_bytes(path, text.encode())
    for name in before - made.keys():
        (folder / name).unlink(missing_ok=True)
    digests = {name: hashlib.sha256(text.encode()).hexdigest() for name, text in made.items()}
    manifest = json.dumps({**about, "files": digests}, indent=2) + "\n"
    files.write_bytes(folder / MANIFEST, manifest.encode())
    return [*made, MANIFEST]


def _before(folder: Path) -> set[str]:
    """The files named in an earlier manifest."""
    path = folder / MANIFEST
    if not path.exists():
        if any(folder.iterdir()):
            raise InputError(
                f"--out {files.shown(folder)}: the folder is not empty, and Weir did not write it; choose "
                "another one"
            )
        return set()
    try:
        listed = json.loads(files.read_text(path, "a manifest", limits.MOST_INPUT_BYTES))["files"]
        names = set(map(str, listed))
    except (ValueError, KeyError, TypeError):
        raise InputError(
            f"{files.shown(path)}: this is not a manifest of weir voice configs; remove it"
        ) from None
    return {name for name in names if not Path(name).is_absolute() and ".." not in Path(name).parts}


__all__ = ["configs", "gaps", "put"]


def gaps(network: PlanNetwork) -> list[str]:
    """What the plan asks for and a file does not say, as sentences."""
    keepers = (name for name, engine in network.plan.engines.items() if engine.kind == "gatekeeper")
    lacking = [f"{name}/gnugk.ini lacks {gap}" for name in keepers for gap in h323.gaps(network, name)]
    return [*lacking, *(_foreign_zones(network) if network.plan.dns is not None else ())]


def _foreign_zones(network: PlanNetwork) -> Iterator[str]:
    """Zones and entries of others, for whom the plan's name server answers in the lab."""
    plan = network.plan
    assert plan.dns is not None
    owners: dict[str, set[str | None]] = {name: set() for name in plan.domains}
    for engine in plan.engines.values():
        if engine.host is not None and (domain := network.names.domain_of(engine.host)) is not None:
            owners[domain].add(engine.organisation)
    own = owners.get(network.names.domain_of(plan.dns.primary) or "", set())
    others = {name: known - {None} for name, known in owners.items() if own and known and not known & own}
    for name, known in others.items():
        whose = words(sorted(filter(None, known)))
        yield (
            f"named/named.conf has zone {name} of {whose}, which the lab needs: leave it out of your own "
            "name server, which would otherwise answer in place of theirs"
        )
    for name, tree in plan.trees.items():
        listed = [e for e in plan.enum if e.tree == name and e.holds(network.day)]
        foreign = [f"+{e.digits}" for e in listed if _leads_to(network, e, others)]
        if tree.visibility == "public" and foreign:
            yield (
                f"named/{tree.origin}.zone has entries for numbers of others ({words(foreign, most=3)}), "
                "which the lab needs: leave them out of your own public zone"
            )


def _leads_to(network: PlanNetwork, entry: EnumEntry, domains: Collection[str]) -> bool:
    """Do all URIs of an entry lead to hosts in these domains?"""
    hosts = (re.split("[!:;>]", each.expression.rpartition("@")[2])[0].lower() for each in entry.naptr)
    return all(network.names.domain_of(host) in domains for host in hosts)


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
    for i, route in enumerate(network.plan.routes):
        if limit := profiles.after_limit(network.plan.engines[route.at], route):
            raise parts.refuse(network, ("routes", i, "after_trees"), limit)
    makers: dict[str, Callable[[PlanNetwork, str, str], dict[str, str]]] = {
        "proxy": kamailio.files,
        "gateway": asterisk.files,
        "gatekeeper": h323.gatekeeper_files,
    }
    found: dict[str, str] = {}
    for name, engine in network.plan.engines.items():
        maker = h323.telephone_files if h323.is_one(engine) else makers.get(engine.kind)
        if maker is not None:
            made = maker(network, name, f"{root.rstrip('/')}/{name}")
            found.update({f"{name}/{file}": text for file, text in made.items()})
    for server in zones.servers(network):
        made = zones.server_files(network, server, f"{root.rstrip('/')}/{server.name}")
        found.update({f"{server.name}/{file}": text for file, text in made.items()})
    found.update({f"sipp/{file}": text for file, text in sipp.files(network).items()})
    return dict(sorted(found.items()))

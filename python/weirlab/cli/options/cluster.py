"""Options about a cluster of workers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

import typer

from weirlab.base.errors import InputError

if TYPE_CHECKING:
    from weirlab.jobs.cluster import ClusterAddress


@dataclass(frozen=True)
class ProtectionOptions:
    """How connections to a scheduler are protected."""

    PANEL: ClassVar = "Cluster"

    tls_ca: Annotated[
        Path | None, typer.Option(help="Certificates that are trusted (PEM).", metavar="FILE")
    ] = None
    tls_cert: Annotated[Path | None, typer.Option(help="Certificate of this end (PEM).", metavar="FILE")] = (
        None
    )
    tls_key: Annotated[Path | None, typer.Option(help="Its private key (PEM).", metavar="FILE")] = None
    plain: Annotated[
        bool, typer.Option("--plain", help="Allow tcp:// beyond this machine, in a trusted network.")
    ] = False

    def address(self, url: str) -> ClusterAddress:
        """The scheduler at ``url``."""
        from weirlab.jobs.cluster import ClusterAddress

        return ClusterAddress(url, self.tls_ca, self.tls_cert, self.tls_key, self.plain)


@dataclass(frozen=True)
class ClusterOptions(ProtectionOptions):
    """The cluster that does the work."""

    cluster: Annotated[
        str | None,
        typer.Option(help="Let the workers of this scheduler do it.", metavar="tcp://HOST:PORT"),
    ] = None

    def chosen(self) -> ClusterAddress | None:
        """The scheduler; None: this machine does the work alone."""
        if self.cluster is not None:
            return self.address(self.cluster)
        if self.tls_ca or self.tls_cert or self.tls_key or self.plain:
            raise InputError("--tls-ca, --tls-cert, --tls-key and --plain go with --cluster")
        return None

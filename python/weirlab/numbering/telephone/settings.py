"""The settings of a telephone: ``telephone.json``, as ``weir voice configs`` writes it. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from weirlab.base.documents import typed
from weirlab.numbering.gatekeeper.ras import Address
from weirlab.numbering.telephone.call import TelephoneIdentity


@dataclass(frozen=True)
class EngineAddress:
    """Where a gatekeeper or a gateway is."""

    engine: str
    address: str
    port: int

    @property
    def at(self) -> Address:
        return Address(self.address, self.port)


@dataclass(frozen=True)
class TelephoneCodec:
    """A codec and how it is sent: RTP payload type, and bytes in a packet of 20 ms."""

    codec: str
    payload: int
    bytes: int


@dataclass(frozen=True)
class TelephoneSettings:
    """The whole URI."""

    telephone: str
    plan: str
    address: str
    port: int
    """Where it takes calls (H.225.0)."""
    gatekeeper: EngineAddress | None
    """The gatekeeper with which it registers; None for none."""
    home: EngineAddress | None
    """The gateway to which it sends its calls; None if it asks its gatekeeper."""
    codecs: tuple[TelephoneCodec, ...]
    """The preferred one first."""
    orders: str
    """The Unix socket at which it takes orders."""

    @classmethod
    def of(cls, document: object) -> TelephoneSettings:
        """Read a document; raises ``ValueError`` if it is something else."""
        return typed(cls, document)

    @property
    def own(self) -> TelephoneIdentity:
        here = Address(self.address, self.port)
        return TelephoneIdentity(self.telephone, here, tuple(codec.codec for codec in self.codecs))

    @property
    def speech(self) -> dict[str, tuple[int, int]]:
        """Payload type and bytes of a packet, by codec."""
        return {codec.codec: (codec.payload, codec.bytes) for codec in self.codecs}

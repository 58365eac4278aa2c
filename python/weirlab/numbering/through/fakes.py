"""A fake device that carries nothing, but counts."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext

from weirlab.numbering.through.rows import PassageRow, Total, passed


class FakePassage:
    """A fake :class:`~weirlab.numbering.through.passage.DevicePassage`.

    Parameters
    ----------
    bypassing:
        So many of a hundred packets from the caller do not pass the device.
    dropping:
        So many of those that come to the device do not leave it.
    """

    title = "nftables with 50 rules"

    def __init__(self, bypassing: int = 0, dropping: int = 0) -> None:
        self._bypassing, self._dropping = bypassing, dropping

    @property
    def facts(self) -> Mapping[str, object]:
        return {"device": self.title}

    def carrying(self, address: str) -> AbstractContextManager[None]:
        return nullcontext()

    def beside_traffic(self) -> AbstractContextManager[None]:
        return nullcontext()

    def passed(self, index: int) -> list[PassageRow]:
        came = 100 - self._bypassing
        return passed(index, Total(), Total(100, 90, came, came - self._dropping, 90, 90))

    def close(self) -> None:
        pass

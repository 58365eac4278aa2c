"""The child process that reads the captures of a test, within limits; see :mod:`reading`."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from weirlab.transfers.tcp.measure.capturing import FILES
from weirlab.web.child import serve

SAMPLES: Final = "samples.parquet"
"""What both kernels reported."""


def _compare(request: dict[str, Any]) -> dict[str, Any]:
    import polars as pl

    from weirlab.base import files
    from weirlab.transfers.tcp.ends import TransferOutcome
    from weirlab.transfers.tcp.measure.captured import captured
    from weirlab.transfers.tcp.measure.capturing import TransferCapture
    from weirlab.transfers.tcp.measure.measuring import TransferMeasurement
    from weirlab.transfers.tcp.measure.samples import Start
    from weirlab.transfers.tcp.show import facts
    from weirlab.transfers.tcp.study import recording
    from weirlab.web.tables import for_page
    from weirlab.web.transfers import axis

    folder, connections = Path(request["folder"]), request["connections"]
    with files.open_regular(folder / SAMPLES) as file:
        samples = pl.read_parquet(file)
    # Times of captures are on the client's clock already.
    start = Start(0, 0, request["start_ns"])
    measured = TransferMeasurement(
        TransferOutcome([], [], {"connections": connections}), samples, start, None, True
    )
    captures = {
        end: TransferCapture(**{**told, "path": folder / told["path"]})
        for end, told in request["captures"].items()
    }
    found = captured(captures, measured)
    crossings, agreement = recording.crossings(found), recording.agreement(found)
    return {
        "axis": axis.drawn(measured, request["period_s"], found.packets),
        "connections": [
            {
                "diagnoses": [each.document() for each in found.diagnoses.get(number, {}).values()],
                "tables": [
                    for_page(table)
                    for table in (
                        *facts.crossings(
                            [crossing for crossing in crossings if crossing.connection == number]
                        ),
                        *facts.agreement(
                            [each for each in agreement if each.connection == number], many=False
                        ),
                    )
                ],
            }
            for number in range(len(connections))
        ],
    }


if __name__ == "__main__":
    serve({"compare": _compare}, FILES["server"])

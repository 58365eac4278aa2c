"""docs/tables.md describes every column of every stored table, and nothing else."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType

import polars as pl
import pytest

from weirlab.base import columns
from weirlab.calls.calls.study import PacketRow
from weirlab.calls.capacity.trials.rows import CallGapRow, CapacityRow, InsideRow
from weirlab.calls.failover.switches.rows import SwitchRow
from weirlab.calls.ipsec.cost import COSTS, EspCostRow
from weirlab.calls.ipsec.endpoints import rows as endpoints
from weirlab.campaigns.ranking import MeasureRow
from weirlab.campaigns.study import MEASURES, STEPS, StepRow
from weirlab.devices.simulation.findings import SIMULATIONS, SimulationRow
from weirlab.links.monitor.rows import MonitorRow
from weirlab.numbering.lab.device import DEVICE, PassageRow
from weirlab.numbering.load.findings import LIMITS, TRIALS, WORK, LoadLimitRow, LoadTrialRow, WorkRow
from weirlab.numbering.proof.findings import CALLS, LOGS, MESSAGES, LogRow, MessageRow, ProofCallRow
from weirlab.records import PacketLog
from weirlab.reproduction.contract import ROWS, ReproductionRow
from weirlab.store import rows
from weirlab.store.frames import schema_of
from weirlab.trace.schema import FILES
from weirlab.transfers.parallel.findings import ParallelAttemptRow, PathRow, ThroughputRow
from weirlab.transfers.tcp.study.columns import (
    AgreementRow,
    CaptureRow,
    ConnectionRow,
    CrossingRow,
    DiagnosisRow,
    DirectionRow,
    FindingRow,
    TransferRow,
)

DOCS = Path(__file__).resolve().parents[3] / "docs"


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_tables", DOCS / "tables.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Dataclasses look their module up.
    import sys

    sys.modules["docs_tables"] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def documented(generator: ModuleType) -> Mapping[str, type]:
    return {name: row for group in generator.GROUPS for name, row in group.tables.items()}


def test_the_document_is_what_the_row_classes_say(generator: ModuleType) -> None:
    text = (DOCS / "tables.md").read_text(encoding="utf-8")
    assert text == generator.page(), "python docs/tables.py writes it"


def test_every_key_of_a_numbering_plan_is_on_its_page_with_a_meaning(generator: ModuleType) -> None:
    text = (DOCS / "plan-keys.md").read_text(encoding="utf-8")
    assert text == generator.plan_keys(), "python docs/tables.py writes it"
    keys = [line for line in text.splitlines() if line.startswith("| `")]
    assert [line for line in keys if line.endswith("|  |") or "| text |  |" in line] == []


def test_the_page_of_causes_is_what_their_table_says(generator: ModuleType) -> None:
    text = (DOCS / "causes.md").read_text(encoding="utf-8")
    assert text == generator.causes(), "python docs/tables.py writes it"


def test_every_column_has_a_description_and_quantities_a_unit(documented: Mapping[str, type]) -> None:
    for name, row in documented.items():
        for column in columns.described(row):
            assert column.meaning.endswith("."), (name, column.name)
            assert column.unit or not re.search(r"_(ns|s|pps|bytes|ratio|ms)$", column.name), column


def test_tables_hold_the_columns_that_are_described(documented: Mapping[str, type]) -> None:
    stored: dict[str, list[str]] = {
        "trials": list(rows.TRIALS),
        **{name: list(kept) for name, kept in rows.DETAILS.items()},
        "capacity": list(schema_of(CapacityRow)),
        "inside": list(schema_of(InsideRow)),
        "gaps": list(schema_of(CallGapRow)),
        "switches": list(schema_of(SwitchRow)),
        "monitor": list(schema_of(MonitorRow)),
        "parallel": list(schema_of(ParallelAttemptRow)),
        "parallel_paths": list(schema_of(PathRow)),
        "parallel_series": list(schema_of(ThroughputRow)),
        **{
            name: list(schema_of(row))
            for name, row in {
                endpoints.ATTEMPTS: endpoints.EndpointAttemptRow,
                endpoints.DISTRIBUTIONS: endpoints.DistributionRow,
                endpoints.LIMITS: endpoints.EndpointLimitRow,
            }.items()
        },
        COSTS: list(schema_of(EspCostRow)),
        ROWS: list(schema_of(ReproductionRow)),
        STEPS: list(schema_of(StepRow)),
        MEASURES: list(schema_of(MeasureRow)),
        SIMULATIONS: list(schema_of(SimulationRow)),
        CALLS: list(schema_of(ProofCallRow)),
        MESSAGES: list(schema_of(MessageRow)),
        LOGS: list(schema_of(LogRow)),
        DEVICE: list(schema_of(PassageRow)),
        TRIALS: list(schema_of(LoadTrialRow)),
        WORK: list(schema_of(WorkRow)),
        LIMITS: list(schema_of(LoadLimitRow)),
        "transfers": list(schema_of(TransferRow)),
        "directions": list(schema_of(DirectionRow)),
        "connections": list(schema_of(ConnectionRow)),
        "diagnoses": list(schema_of(DiagnosisRow)),
        "findings": list(schema_of(FindingRow)),
        "captures": list(schema_of(CaptureRow)),
        "crossings": list(schema_of(CrossingRow)),
        "agreement": list(schema_of(AgreementRow)),
        **{name: list(kept) for name, kept in FILES.items()},
    }
    for name, names in stored.items():
        assert [column.name for column in columns.described(documented[name])] == names, name
    # Those that tests of their studies compare with real frames.
    assert documented.keys() - stored.keys() == {"packets", "switch_calls", "switch_series"}


def test_a_field_without_a_description_is_named() -> None:
    with pytest.raises(KeyError, match="flow"):
        columns.described(PacketLog)


def test_types_come_from_the_annotations() -> None:
    assert schema_of(PacketRow)["back"] == pl.Boolean()
    assert schema_of(PacketRow)["delay_ns"] == pl.Int64()


def test_optional_fields_have_the_type_of_their_values() -> None:
    assert columns._plain("int | None") == "int"

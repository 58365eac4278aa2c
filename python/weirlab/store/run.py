"""A run as read from the store."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from dataclasses import is_dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, Final, Literal, TypeVar, get_args, overload

import polars as pl

from weirlab.base import files
from weirlab.base.documents import typed
from weirlab.base.errors import InputError, StoreError, WeirError
from weirlab.base.limits import MOST_JSON_BYTES
from weirlab.records import Observation
from weirlab.store import states, tables
from weirlab.store.files import load_json, telling, write_json, write_with
from weirlab.store.frames import Schema, checked, rows_of
from weirlab.store.manifest import MANIFEST_FILE, Manifest
from weirlab.store.parquet import most_bytes
from weirlab.store.rows import TABLES
from weirlab.store.summary import shortage

ExportFormat = Literal["csv", "parquet"]
T = TypeVar("T")

_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]*")
HOST: Final = "host"
"""Name under which a run keeps the state of the host that its trials belong to."""

_COPIED: Final = (
    "index", "attempt", "trial_id", "started_at", "role", "label", "stateful", "places", "sizes_text",
    "rate_text", "flows", "spec",
)  # fmt: skip


class Run:
    """One run on disk, while it is being written or afterwards.

    Every method reads the disk again, so a run in progress shows what it has so far.
    """

    def __init__(self, path: Path, most_table_bytes: int | None = None) -> None:
        """``most_table_bytes``: memory that a table may take; None: see :func:`parquet.most_bytes`."""
        self.path = path
        self._most = most_bytes() if most_table_bytes is None else most_table_bytes

    @property
    def run_id(self) -> str:
        return self.path.name

    @property
    def manifest(self) -> Manifest:
        """The manifest; raises ``StoreError`` if it is missing or damaged."""
        return Manifest.load(self.path)

    def judge(self, unusable: str) -> None:
        """Keep in the manifest why the run does not count; empty if it does."""
        manifest = Manifest.stored(self.path)
        if (manifest.unusable or "") != unusable:
            replace(manifest, unusable=unusable or None).save(self.path)

    def trials(self) -> pl.DataFrame:
        """One row per attempt, ordered by ``index`` and ``attempt``; columns: ``rows.TRIALS``.

        Attempts made while the host was in another state than in most of the run's trials
        are invalid; see :mod:`weirlab.store.states`.
        """
        trials = self._attempts().sort("index", "attempt")
        return states.mark(trials, self._settled_host() or states.reference_ns(trials))

    def host_reference_ns(self) -> float | None:
        """The handover time that represents the host's state in this run; None if it was never measured."""
        return self._settled_host() or states.reference_ns(self._attempts())

    def _attempts(self) -> pl.DataFrame:
        """The table of trials; raises ``StoreError`` if it has fewer than the manifest counts."""
        counted = self.manifest.trials
        trials = tables.read(self.path, "trials", self._most)
        if counted is not None and (problem := shortage(self.path, trials.height, counted)):
            raise StoreError(problem)
        return trials

    def settle_host(self) -> float | None:
        """Fix the run's host state to that of most trials so far, and return it."""
        reference = self.host_reference_ns()
        if reference is not None:
            self.put_json(HOST, {"handover_ns": reference})
        return reference

    def keep_states(self) -> None:
        """Write into the table of trials which of them do not count because of the host's state."""
        attempts, trials = self._attempts(), self.trials()
        if trials["valid"].sum() < attempts["valid"].sum():
            self.settle_host()
            tables.replace(self.path, "trials", trials)

    def _settled_host(self) -> float | None:
        return self.get_json(HOST, lambda kept: float(kept["handover_ns"])) if self.has(HOST) else None

    def histograms(self) -> pl.DataFrame:
        """Delay histograms: ``trial_id, lower_ns, upper_ns, count``, one row per filled bucket."""
        return tables.read(self.path, "histograms", self._most)

    def series(self) -> pl.DataFrame:
        """Time series, one row per bin; ``start_ns`` counts from the start of recording."""
        return tables.read(self.path, "series", self._most)

    def flows(self) -> pl.DataFrame:
        """Per-flow results, one row per flow and attempt."""
        return tables.read(self.path, "flows", self._most)

    def observations(self, role: str | None = None, *, plain: bool = False) -> list[Observation]:
        """The valid attempts, of ``role`` if given, for fitting and checking models.

        ``rate_pps`` is the rate that the sender achieved, which is also defined if it sent as
        fast as possible; ``position`` is the mean matching position, for which packets of known flows count
        only if the profile goes through shares of new ones. Trials whose load or
        position changed during the trial (they mix regimes), trials with calls (both sides send)
        and trials in which nothing arrived (they have no delay) are left out here but stay in
        :meth:`trials`.

        With ``plain``, only trials of the device as the run's scenario sets it up are returned,
        without the extra trials that measure the cost of connection tracking or cross traffic.
        """
        rows = self.trials().filter(
            pl.col("valid")
            & (pl.col("received") > 0)
            & (pl.col("spec").str.json_path_match("$.traffic.steps[0]").is_null())
            & (pl.col("spec").str.json_path_match("$.traffic.calls").is_null())
        )
        if role is not None:
            rows = rows.filter(pl.col("role") == role)
        if plain:
            stateful, cross_traffic = self._base()
            rows = rows.filter((pl.col("stateful") == stateful) & (pl.col("cross_traffic") == cross_traffic))
        shares = self.new_flow_rules > 0 or rows["new_share"].drop_nulls().n_unique() > 1
        rows = rows.with_columns(arrivals=pl.col("spec").str.json_path_match("$.traffic.arrivals"))
        return [
            Observation(
                rate_pps=row["achieved_pps"],
                frame_bytes=row["frame_bytes"],
                position=row["mean_position"] if shares or row["new_share"] is None else row["position"],
                forwarding_pps=row["forwarding_pps"],
                loss_ratio=row["loss_ratio"],
                delay_mean_ns=row["delay_mean_ns"],
                delay_p50_ns=row["delay_p50_ns"],
                delay_p90_ns=row["delay_p90_ns"],
                delay_p99_ns=row["delay_p99_ns"],
                jitter_ns=row["jitter_ns"] if row["jitter_ns"] is not None else float("nan"),
                extra={name: row[name] for name in _COPIED},
                delay_p999_ns=row["delay_p999_ns"],
                gap_scv=float(row["arrivals"] == "poisson"),
                stateful=row["stateful"],
                cross_traffic=row["cross_traffic"],
                packets=row["received"],
            )
            for row in rows.iter_rows(named=True)
        ]

    @property
    def simulated(self) -> bool:
        """See :attr:`Manifest.simulated`."""
        return self.manifest.simulated

    @property
    def new_flow_rules(self) -> float:
        """Rules that first packets are compared with, if the profile goes through shares of such; else 0."""
        profile = self.manifest.section("profile")
        return float(profile["positions"][0]) if len(profile.get("new") or ()) > 1 else 0.0

    def _base(self) -> tuple[bool, bool]:
        """Whether the scenario's device tracks connections, and has cross traffic, throughout."""
        manifest = self.manifest
        dut, profile = manifest.section("dut"), manifest.section("profile")
        return bool(dut.get("stateful", False)), profile.get("cross_traffic") == [True]

    def has(self, name: str) -> bool:
        """Whether :meth:`put_json` kept something under ``name``."""
        return self._json_path(name).exists()

    @overload
    def get_json(self, name: str) -> Any: ...

    @overload
    def get_json(self, name: str, decode: type[T] | Callable[[Any], T]) -> T: ...

    def get_json(self, name: str, decode: Callable[[Any], Any] | None = None) -> Any:
        """The JSON kept under ``name``, decoded by ``decode``: a dataclass or a function.

        Raises ``StoreError`` if it is missing or damaged: not JSON, or not what ``decode`` expects.
        """
        path = self._json_path(name)
        if not path.exists():
            raise StoreError(f"run {self.run_id} has no {name} ({path} does not exist)")
        remedy = f"delete it and make the {name} of run {self.run_id} again"
        value = load_json(path, remedy)
        try:
            if decode is None:
                return value
            return typed(decode, value) if is_dataclass(decode) else decode(value)
        except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, WeirError) as error:
            reason = str(error) if isinstance(error, WeirError) else f"{type(error).__name__}: {error}"
            raise StoreError(f"{path} is damaged ({reason}); {remedy}") from error

    def put_json(self, name: str, value: object) -> None:
        """Keep ``value`` under ``name``, replacing what was there; NaN and infinity become null."""
        write_json(self._json_path(name), value)

    def calls(self) -> pl.DataFrame:
        """Results of the calls, one row per call, direction and attempt; empty if there were no calls."""
        return tables.read(self.path, "calls", self._most)

    def has_table(self, name: str) -> bool:
        """Whether the study has a table ``name``, written with its trials or by :meth:`put_table`."""
        return self._table_path(name).exists() or name in self.own_tables

    @property
    def own_tables(self) -> list[str]:
        """The names of the study's own tables, which not every run has, sorted."""
        return tables.names_of_own(self.path, self._most)

    def table(self, name: str, columns: type | Schema | None = None) -> pl.DataFrame:
        """The study's own table ``name``.

        Raises ``StoreError`` if it is missing or damaged, or lacks some of ``columns`` (``frames.checked``).
        """
        path = self._table_path(name)
        found = tables.read_own(self.path, name, self._most)
        if found is None:
            raise StoreError(f"run {self.run_id} has no table {name} ({path} does not exist)")
        return found if columns is None else checked(columns, found, self._called(name))

    def _called(self, name: str) -> str:
        return f"the table {name} of run {self.run_id}"

    def rows(self, row: type[T], name: str) -> list[T]:
        """The table ``name`` as dataclasses; empty if there is no such table. See ``frames.rows_of``."""
        return rows_of(row, self.table(name), self._called(name)) if self.has_table(name) else []

    def put_table(self, name: str, frame: pl.DataFrame) -> None:
        """Keep ``frame`` under ``name``, atomically replacing what was there."""
        write_with(self._table_path(name), lambda file: frame.write_parquet(file))

    def export(self, dest: Path, format: ExportFormat = "csv") -> list[Path]:
        """Write the tables that have rows and all JSON into the folder ``dest``; returns the files written.

        ``dest`` is made if missing. In CSV a null is an empty field. Trials are valid as in :meth:`trials`.
        """
        if format not in get_args(ExportFormat):
            known = ", ".join(get_args(ExportFormat))
            raise InputError(f"export format '{format}' is not known; choose one of {known}")
        Manifest.load(self.path)
        every = (*(name for name in TABLES if name != "trials"), "trials", *self.own_tables)
        # A damaged run exports nothing. Only one table at a time is in memory.
        names = [table for table in every if not self._exported(table).is_empty()]
        exported = {dest / f"{table}.{format}": table for table in names}
        copied = {dest / source.name: source for source in sorted(self.path.glob("*.json"))}
        is_new = not dest.exists()
        files.make_folder(dest)
        try:
            for target in (*exported, *copied):
                files.check_output(target)
            for target, table in exported.items():
                with telling(target, "write"):
                    files.write(target, partial(_write, self._exported(table), format))
            for target, source in copied.items():
                with telling(source, "read"):
                    content = files.read_regular(source, MOST_JSON_BYTES)
                files.write_bytes(target, content)
        except BaseException:
            if is_new:
                shutil.rmtree(dest, ignore_errors=True)
            raise
        return [*exported, *copied]

    def _exported(self, table: str) -> pl.DataFrame:
        if table == "trials":
            return self.trials()
        return tables.read(self.path, table, self._most) if table in TABLES else self.table(table)

    def _table_path(self, name: str) -> Path:
        if not _NAME.fullmatch(name) or name in TABLES:
            raise ValueError(f"not a name for a table of its own in a run: {name!r}")
        return self.path / f"{name}.parquet"

    def _json_path(self, name: str) -> Path:
        if not _NAME.fullmatch(name) or f"{name}.json" == MANIFEST_FILE:
            raise ValueError(f"not a name for JSON in a run: {name!r}")
        return self.path / f"{name}.json"


def _write(frame: pl.DataFrame, format: ExportFormat, file: BinaryIO) -> None:
    if format == "csv":
        frame.write_csv(file)
    else:
        frame.write_parquet(file)

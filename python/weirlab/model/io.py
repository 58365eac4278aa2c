"""Fitted models as JSON files, and which models there are."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from weirlab.errors import ModelError
from weirlab.model.base import Model
from weirlab.model.piecewise import Piecewise
from weirlab.model.queueing import Queueing
from weirlab.records import Observation

FORMAT: Final = "weir-model"
VERSION: Final = 1

KINDS: Final[dict[str, type[Queueing] | type[Piecewise]]] = {
    Queueing.name: Queueing,
    Piecewise.name: Piecewise,
}
"""Every model by its name; a new one is added here."""


def fit_all(observations: Iterable[Observation]) -> dict[str, Model]:
    """Fit every model to the same trials; raises ``ModelError`` when one lacks data."""
    rows = list(observations)
    return {name: kind.fit(rows) for name, kind in KINDS.items()}


def to_document(models: Mapping[str, Model]) -> dict[str, Any]:
    """What :func:`save` writes: plain JSON values, NaN and infinities as null."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "models": {name: _plain(model.to_json()) for name, model in models.items()},
    }


def from_document(data: Any, where: str) -> dict[str, Model]:
    """The inverse of :func:`to_document`; ``where`` names the source in messages."""
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise ModelError(f"{where} is not a model file: 'format' must be '{FORMAT}'; weir fit writes one")
    if data.get("version") != VERSION:
        raise ModelError(
            f"{where} has version {data.get('version')!r} of the model format, this Weir reads {VERSION}; "
            "fit again with weir fit"
        )
    entries = data.get("models")
    if not isinstance(entries, dict) or not entries:
        raise ModelError(f"{where} holds no models; fit again with weir fit")
    models: dict[str, Model] = {}
    for name, fields in entries.items():
        if name not in KINDS:
            raise ModelError(f"{where} holds a model '{name}'; known are {', '.join(KINDS)}")
        try:
            models[name] = KINDS[name].from_json(_numbers(fields))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ModelError(
                f"{where}: model '{name}' is incomplete or damaged ({error!r}); fit again with weir fit"
            ) from error
    return models


def save(models: Mapping[str, Model], path: Path) -> None:
    """Write models to ``path`` at once: after a failure the old file, or none, is there."""
    text = json.dumps(to_document(models), indent=1, allow_nan=False) + "\n"
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        part.write_text(text, encoding="utf-8")
        part.replace(path)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise ModelError(
            f"cannot write the model to {path}: {error.strerror}; give a writable place"
        ) from error


def load(path: Path) -> dict[str, Model]:
    """Read what :func:`save` wrote; raises ``ModelError`` saying what is wrong with the file."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ModelError(f"cannot read the model {path}: {error.strerror}; weir fit writes one") from error
    except ValueError as error:
        raise ModelError(f"{path} is not a model file ({error}); weir fit writes one") from error
    return from_document(data, str(path))


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(v) for key, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _numbers(value: Any, key: str = "") -> Any:
    """Nulls become NaN again, but for the one field where null has a meaning."""
    if isinstance(value, dict):
        return {k: _numbers(v, k) for k, v in value.items()}
    if isinstance(value, list):
        return [_numbers(v) for v in value]
    return math.nan if value is None and key != "q" else value

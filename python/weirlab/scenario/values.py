"""Values in scenario files: text and numbers with their ranges and examples."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field

from weirlab.base import limits
from weirlab.base.amounts import parse_budget
from weirlab.base.errors import InputError
from weirlab.base.quoting import quoted


def _number_as_text(value: object) -> object:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return f"{value:g}" if isinstance(value, float) else str(value)
    return value


def readable(read: Callable[[str], object]) -> AfterValidator:
    """A validator for text that ``read`` accepts. It stays text; errors have the message of ``read``."""

    def check(text: str) -> str:
        try:
            read(text)
        except InputError as error:
            raise ValueError(str(error)) from None
        return text

    return AfterValidator(check)


def _rate(text: str) -> object:
    from weirlab.traffic.load import parse_rate

    return parse_rate(text)


def _sizes(text: str) -> object:
    from weirlab.traffic.sizes import parse_sizes

    return parse_sizes(text)


def _places(text: str) -> object:
    from weirlab.traffic.places import parse_places

    return parse_places(text)


def no_repeats(values: tuple[Any, ...]) -> tuple[Any, ...]:
    seen = set()
    for value in values:
        if value in seen:
            raise ValueError(f"{quoted(value)} is listed twice")
        seen.add(value)
    return values


def _text_or_number(number: str, *examples: object) -> Callable[[dict[str, Any]], None]:
    """Changes a JSON Schema for text that may also be written as a plain number."""

    def replace(schema: dict[str, Any]) -> None:
        schema.pop("type", None)
        plain = {"type": number, "exclusiveMinimum": 0}
        schema.update(anyOf=[{"type": "string"}, plain], examples=list(examples))

    return replace


RateText = Annotated[
    str,
    BeforeValidator(_number_as_text),
    readable(_rate),
    Field(json_schema_extra=_text_or_number("number", "2Mpps", "40%@10Gbit/s", "max")),
]


SizesText = Annotated[
    str,
    BeforeValidator(_number_as_text),
    readable(_sizes),
    Field(json_schema_extra=_text_or_number("integer", 64, "imix", "poisson:64-200")),
]


TimeText = Annotated[
    str,
    BeforeValidator(_number_as_text),
    readable(parse_budget),
    Field(json_schema_extra=_text_or_number("number", "6min", "90s", "1h")),
]


PlacesText = Annotated[str, readable(_places), Field(json_schema_extra={"examples": ["1:50,99:50"]})]


Position = Annotated[int, Field(strict=True, ge=0, le=limits.MOST_RULES)]


Share = Annotated[float, Field(gt=0, le=10, allow_inf_nan=False)]


Seconds = Annotated[float, Field(gt=0, le=limits.LONGEST_S, allow_inf_nan=False)]


Count = Annotated[int, Field(strict=True, ge=1, le=limits.MOST_FLOWS)]


NotNegative = Annotated[float, Field(ge=0, le=limits.LONGEST_S * 1e9, allow_inf_nan=False)]


Repetitions = Annotated[int, Field(strict=True, ge=1, le=limits.MOST_REPETITIONS)]


Attempts = Annotated[int, Field(strict=True, ge=1, le=limits.MOST_ATTEMPTS)]


Seed = Annotated[int, Field(strict=True, ge=0, le=limits.HIGHEST_SEED)]


WarmUp = Annotated[float, Field(ge=0, le=limits.LONGEST_S, allow_inf_nan=False)]


MayBeEmpty = Field(max_length=limits.MOST_ITEMS)


NotEmpty = Field(min_length=1, max_length=limits.MOST_ITEMS)


Positions = Annotated[tuple[Position, ...], NotEmpty, AfterValidator(no_repeats)]


SizeList = Annotated[tuple[SizesText, ...], NotEmpty, AfterValidator(no_repeats)]


Shares = Annotated[tuple[Share, ...], NotEmpty, AfterValidator(no_repeats)]


Compared = Annotated[tuple[bool, ...], MayBeEmpty, AfterValidator(no_repeats)]

"""What a user can set: names, defaults and meanings, read from the dataclasses."""

from dataclasses import MISSING, Field, fields, is_dataclass
from typing import Any, NamedTuple

import yaml
from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue

from segpl.em.priors import Prior
from segpl.foundation.named import Named, plain
from segpl.settings.run import Run

PRIORS: dict[str, type[Prior]] = Prior.family()
FROM_DATA = "from the data"
NOT_FOR_USERS = ("data", "method", "why")
"""Fields of a run that have options of their own or that the plan writes."""

PLANNED = frozenset(
    {
        "batch",
        "channels",
        "exchange",
        "learning_rate",
        "mirror",
        "orientation",
        "patch",
        "ratio",
        "spacing",
        "steps",
        "strides",
        "validate_every",
        "window",
        "method.match_size",
        "method.mirror",
        "method.nested",
        "method.single_component",
    }
)
"""Settings that the plan derives from the data unless the user gives them."""


class Setting(NamedTuple):
    """One setting as a user sees it."""

    key: str
    """As in `--set key=value`."""
    default: str
    meaning: str


def summary(kind: type[Any]) -> str:
    """The first sentence of a class's docstring."""
    return (kind.__doc__ or "").partition("\n")[0]


def method_settings(kind: type[Any]) -> list[Setting]:
    """The settings of a method."""
    return _settings(kind, "method.")


def prior_settings(kind: type[Any]) -> list[Setting]:
    """The settings of a prior."""
    return _settings(kind, "method.prior.")


def run_settings() -> list[Setting]:
    """The settings that every training has."""
    return [setting for setting in _settings(Run, "") if setting.key not in NOT_FOR_USERS]


def _settings(kind: type[Any], prefix: str) -> list[Setting]:
    meanings = _meanings(kind)
    settings = []
    for field in fields(kind):
        key = f"{prefix}{field.name}"
        default = FROM_DATA if key in PLANNED else _default(field)
        settings.append(Setting(key, default, meanings.get(field.name, "")))
    return settings


def _default(field: Field) -> str:
    """The default as a user would write it."""
    value = field.default
    if field.default_factory is not MISSING:
        value = field.default_factory()
    if isinstance(value, Named):
        return value.name()
    text: str = yaml.safe_dump(plain(value), default_flow_style=True, width=1000)
    return text.removesuffix("...\n").strip()


class _WithDocstrings(GenerateJsonSchema):
    """A JSON schema that also describes fields without a JSON type, such as a method."""

    def handle_invalid_for_json_schema(self, schema: Any, error_info: str) -> JsonSchemaValue:
        return {}


def _meanings(kind: type[Any]) -> dict[str, str]:
    """The docstrings of the fields, those of inherited fields included."""
    meanings = {}
    for base in reversed(kind.__mro__):
        if is_dataclass(base):
            schema = TypeAdapter(base).json_schema(schema_generator=_WithDocstrings)
            for name, field in schema["properties"].items():
                if "description" in field:
                    meanings[name] = " ".join(field["description"].split())
    return meanings

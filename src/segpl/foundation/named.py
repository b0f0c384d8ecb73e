"""Settings chosen by name: a mapping with a `name` in YAML, a frozen dataclass in Python."""

import inspect
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any, ClassVar

from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails, core_schema

from segpl.foundation.errors import UserError
from segpl.foundation.suggestions import suggest

Settings = dict[str, Any]
"""Settings by name, as YAML holds them."""
LONGEST_INPUT = 80
"""Characters of a wrong value that an error message quotes."""


class Named:
    """A family such as the methods or the priors: its abstract class reads any member by name.

    Without the name, a saved member could be read back as another one whose fields happen to fit.
    A key that the member does not have is an error and never ignored.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(
        extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True
    )

    @classmethod
    def name(cls) -> str:
        """The name of this member in YAML."""
        return cls.__name__.lower()

    @classmethod
    def family(cls) -> dict[str, type[Any]]:
        """All concrete subclasses of this class, by name."""
        members = {}
        for member in cls._subclasses():
            if not inspect.isabstract(member):
                members[member.name()] = member
        return members

    @classmethod
    def _subclasses(cls) -> Iterator[type[Any]]:
        for subclass in cls.__subclasses__():
            yield subclass
            yield from subclass._subclasses()

    @classmethod
    def choose(cls, value: Any) -> Any:
        """The member that a name, or a mapping with a name, describes."""
        if isinstance(value, cls):
            return value
        settings = dict(value) if isinstance(value, dict) else {"name": value}
        name = settings.pop("name", None)
        members = cls.family()
        family = cls.__name__.lower()
        known = ", ".join(sorted(members))
        if name is None:
            raise UserError(f"a {family} needs a name: add name, one of {known}.")
        if not isinstance(name, str) or name not in members:
            hint = suggest(name, members)
            message = f"there is no {family} {name!r}: choose one of {known}.{hint}"
            raise UserError(message, where=("name",))
        return validated(members[name], settings, f"{name}: ")

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> core_schema.CoreSchema:
        if inspect.isabstract(cls):
            # The schema describes the fields of the abstract class to those who document them.
            return core_schema.with_info_plain_validator_function(
                cls._choose_field, json_schema_input_schema=handler(source)
            )
        return handler(source)

    @classmethod
    def _choose_field(cls, value: Any, field: Any) -> Any:
        """Choose the member for a field of other settings; errors carry the field's name."""
        try:
            return cls.choose(value)
        except UserError as error:
            raise error.within(str(field.field_name)) from None


def validated(kind: type[Any], settings: Settings, prefix: str = "") -> Any:
    """An instance of the dataclass `kind`; a `UserError` describes the first invalid setting."""
    try:
        return TypeAdapter(kind).validate_python(settings)
    except ValidationError as error:
        first = error.errors()[0]
        message = prefix + _explain(first, kind)
        raise UserError(message, where=first["loc"]) from None


def _explain(error: ErrorDetails, kind: type[Any]) -> str:
    """One sentence about what pydantic rejected."""
    key = ".".join(str(part) for part in error["loc"])
    if error["type"] == "unexpected_keyword_argument":
        names = [field.name for field in fields(kind)]
        return f"unknown setting {key!r}: it takes {', '.join(names)}.{suggest(key, names)}"
    if error["type"] == "missing":
        return f"{key} is missing: add it."
    value = repr(error["input"])
    if len(value) >= LONGEST_INPUT:
        value = value[:LONGEST_INPUT] + "..."
    reason = error["msg"].replace("Input", "it")
    return f"{key} is {value}, but {reason}."


def plain(value: Any) -> Any:
    """Settings as mappings, lists, numbers and strings, which YAML can hold."""
    if is_dataclass(value):
        return _plain_dataclass(value)
    if isinstance(value, tuple | list):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return str(value)


def _plain_dataclass(value: Any) -> Settings:
    """The fields of a dataclass; a member of a family has its name first."""
    settings: Settings = {}
    if isinstance(value, Named):
        settings["name"] = value.name()
    for field in fields(value):
        settings[field.name] = plain(getattr(value, field.name))
    return settings


def merged(settings: Settings, given: Settings) -> Settings:
    """`settings` updated with `given`, whose keys may be dotted: `method.alpha` is nested.

    Neither argument is changed.
    """
    result = {}
    for key, value in settings.items():
        result[key] = dict(value) if isinstance(value, dict) else value
    for key, value in given.items():
        _set_nested(result, key, value)
    return result


def _set_nested(settings: Settings, dotted: str, value: Any) -> None:
    """Set the value of a dotted key in place; mappings on the way to it are copied."""
    keys = tuple(dotted.split("."))
    mapping = settings
    for key in keys[:-1]:
        nested = mapping.get(key, {})
        if not isinstance(nested, dict | str):
            message = f"{dotted}: {key} has no settings of its own: leave out what follows it."
            raise UserError(message, where=keys)
        # A method given by its name alone becomes a mapping that can hold settings.
        nested = {"name": nested} if isinstance(nested, str) else dict(nested)
        mapping[key] = nested
        mapping = nested
    mapping[keys[-1]] = value

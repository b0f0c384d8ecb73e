"""Settings that are chosen by name: a mapping with a `name` in YAML, a frozen dataclass in Python."""

import inspect
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any, ClassVar

from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic_core import core_schema

from segpl.foundation.errors import UserError


class Named:
    """A family such as the methods or the priors: its abstract class reads whichever member the name asks for.

    Without the name, a saved member could be read back as another one whose fields happen to fit; and a key that the
    member does not have is an error, never ignored.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid", allow_inf_nan=False)

    @classmethod
    def name(cls) -> str:
        """What YAML calls it."""
        return cls.__name__.lower()

    @classmethod
    def family(cls) -> dict[str, type[Any]]:
        """All concrete members below this class, by name."""
        return {
            member.name(): member for member in cls._members() if not inspect.isabstract(member)
        }

    @classmethod
    def _members(cls) -> Iterator[type[Any]]:
        for member in cls.__subclasses__():
            yield member
            yield from member._members()

    @classmethod
    def choose(cls, value: Any) -> Any:
        """The member that a name, or a mapping with a name, describes."""
        if isinstance(value, cls):
            return value
        settings = dict(value) if isinstance(value, dict) else {"name": value}
        name, kind = settings.pop("name", None), cls.__name__.lower()
        if name is None:
            raise UserError(
                f"a {kind} needs a name: add name, one of {', '.join(sorted(cls.family()))}."
            )
        if not isinstance(name, str) or name not in cls.family():
            known = ", ".join(sorted(cls.family()))
            raise UserError(f"there is no {kind} {name!r}: choose one of {known}.", where=("name",))
        return validated(cls.family()[name], settings, f"{name}: ")

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> core_schema.CoreSchema:
        if inspect.isabstract(cls):
            return core_schema.with_info_plain_validator_function(cls._choose_field)
        return handler(source)

    @classmethod
    def _choose_field(cls, value: Any, field: Any) -> Any:
        """The member that a field of other settings describes; a mistake in it is one in that field."""
        try:
            return cls.choose(value)
        except UserError as error:
            raise error.within(str(field.field_name)) from None


def first_sentence(error: ValidationError) -> str:
    """What pydantic found first, as the end of a sentence."""
    first = error.errors()[0]
    shown = repr(first["input"])
    return f"is {shown if len(shown) < 80 else shown[:80] + '...'}, but {first['msg'].replace('Input', 'it')}"


def validated(kind: type[Any], settings: dict[str, Any], prefix: str = "") -> Any:
    """An instance with these settings, or one sentence about the first that does not fit, and where it is."""
    try:
        return TypeAdapter(kind).validate_python(settings)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(map(str, first["loc"]))
        if first["type"] == "unexpected_keyword_argument":
            known = ", ".join(field.name for field in fields(kind))
            sentence = f"unknown setting {key!r}: it takes {known}."
        elif first["type"] == "missing":
            sentence = f"{key} is missing: add it."
        else:
            sentence = f"{key} {first_sentence(error)}."
        raise UserError(f"{prefix}{sentence}", where=first["loc"]) from None


def plain(value: Any) -> Any:
    """Settings as YAML can hold them."""
    if is_dataclass(value):
        name: dict[str, Any] = {"name": value.name()} if isinstance(value, Named) else {}
        return name | {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, tuple | list):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def merged(settings: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """Settings with dotted keys such as method.alpha put in their place."""
    result = {
        key: dict(value) if isinstance(value, dict) else value for key, value in settings.items()
    }
    for key, value in given.items():
        *path, last = key.split(".")
        place = result
        for part in path:
            inner = place.get(part, {})
            if not isinstance(inner, dict | str):
                raise UserError(
                    f"{key}: {part} has no settings of its own: leave out what follows it.",
                    where=tuple(key.split(".")),
                )
            place[part] = place = {"name": inner} if isinstance(inner, str) else dict(inner)
        place[last] = value
    return result

"""Arguments as models give them: checked strictly, with errors that a model can act on.

Owns the base of every tool's arguments and the words of their errors. Knows no tool.
"""

import difflib
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from acp_bridge.content import JsonObject
from acp_bridge.errors import ToolError


class Arguments(BaseModel):
    """The base of a tool's arguments. A parameter that may be left out may also be null: some models send it so."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


ArgumentsT = TypeVar("ArgumentsT", bound=Arguments)


def checked(form: type[ArgumentsT], arguments: JsonObject) -> JsonObject:
    """Return `arguments` with defaults filled in.

    Raises:
        ToolError: `INVALID_ARGUMENTS`, naming each parameter that is wrong and what it should be.
    """
    return parsed(form, arguments).model_dump()


def parsed(form: type[ArgumentsT], arguments: JsonObject) -> ArgumentsT:
    """Return `arguments` as a value of `form`; raises as `checked` does."""
    try:
        return form.model_validate(arguments)
    except ValidationError as exc:
        errors = exc.errors(include_url=False, include_input=False, include_context=False)
        said = "; ".join(_sentence(form, error["type"], error["loc"], error["msg"]) for error in errors[:5])
        raise ToolError(said, code="INVALID_ARGUMENTS") from exc


def _sentence(form: type[Arguments], kind: str, place: tuple[int | str, ...], said: str) -> str:
    name = ".".join(str(part) for part in place)[:80]
    if kind == "missing":
        return f"parameter {name!r} is missing"
    if kind == "extra_forbidden":
        near = difflib.get_close_matches(name, form.model_fields, n=1, cutoff=0.5)
        known = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(form.model_fields)}"
        return f"unknown parameter {name!r}; {known}"
    return f"parameter {name!r}: {said[:1].lower()}{said[1:]}"

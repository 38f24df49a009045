"""A tool's arguments as one pydantic model: what a model is told of them, and what they are held to.

Owns the base of the built-in tools' arguments, the JSON Schema that is made of a model, and the words for arguments
that do not fit. Knows no tool.
"""

import difflib
from functools import cache
from typing import Any, Self, cast

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from acp_bridge.content import JsonObject
from acp_bridge.errors import ToolError


class Arguments(BaseModel):
    """The base of a tool's arguments. A parameter that may be left out may also be null: some models send it so."""

    # Deferred, since a session is made before any of its tools is called: the first use builds the validator.
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, defer_build=True)

    @classmethod
    def check(cls, arguments: JsonObject) -> JsonObject:
        """Return `arguments` with defaults filled in.

        Raises:
            ToolError: `INVALID_ARGUMENTS`, naming each parameter that is wrong and what it should be.
        """
        try:
            return cls.model_validate(arguments).model_dump()
        except ValidationError as exc:
            errors = exc.errors(include_url=False, include_input=False, include_context=False)
            said = "; ".join(cls._sentence(error["type"], error["loc"], error["msg"]) for error in errors[:5])
            raise ToolError(said, code="INVALID_ARGUMENTS") from exc

    @classmethod
    def of(cls, checked: JsonObject) -> Self:
        """Return what `check` returned as a value; nothing is checked again, and what lies in lists stays JSON."""
        return cls.model_construct(**checked)

    @classmethod
    def _sentence(cls, kind: str, place: tuple[int | str, ...], said: str) -> str:
        name = ".".join(str(part) for part in place)[:80]
        if kind == "missing":
            return f"parameter {name!r} is missing"
        if kind == "extra_forbidden":
            near = difflib.get_close_matches(name, cls.model_fields, n=1, cutoff=0.5)
            known = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(cls.model_fields)}"
            return f"unknown parameter {name!r}; {known}"
        return f"parameter {name!r}: {said[:1].lower()}{said[1:]}"


@cache
def schema_of(model: type[BaseModel]) -> JsonObject:
    """Return the JSON Schema of a model's fields as providers take it: no titles, no references, no null defaults."""
    schema = model.model_json_schema(schema_generator=_ParameterSchema)
    return cast("JsonObject", _inline(schema, schema.get("$defs", {})))


class _ParameterSchema(GenerateJsonSchema):
    """Pydantic's schema without what tells a model nothing."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        """Leave titles out: they repeat the names."""
        del schema
        return False

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        """Leave the class's name out."""
        made = super().model_schema(schema)
        made.pop("title", None)
        return made

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        """Show a parameter that is null by default as one that may be left out: null is taken, but not asked for."""
        inner = schema["schema"]
        if schema.get("default", ...) is None and inner["type"] == "nullable":
            return self.generate_inner(cast("core_schema.NullableSchema", inner)["schema"])
        return super().default_schema(schema)


def _inline(value: Any, definitions: JsonObject) -> Any:
    """Put definitions where they are referred to: not every provider follows a reference."""
    match value:
        case {"$ref": str(name)}:
            return _inline(definitions[name.rpartition("/")[2]], definitions)
        case dict():
            members = cast("JsonObject", value).items()
            return {name: _inline(member, definitions) for name, member in members if name != "$defs"}
        case list():
            return [_inline(item, definitions) for item in cast("list[Any]", value)]
        case _:
            return value

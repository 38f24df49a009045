"""What a model is told of a tool's arguments is what they are held to: one model, built when it is first used."""

import subprocess
import sys
from typing import Any

import pytest
from pydantic import BaseModel
from support.parts import Greet, spec

from acp_bridge.content import JsonObject
from acp_bridge.errors import ConfigError, ToolError
from acp_bridge.text import mended
from acp_bridge.tools import Tool, builtin_tools, contained
from acp_bridge.tools.arguments import Arguments, schema_of

TOOLS = {tool.spec.name: tool for tool in builtin_tools()}
NOISE = {"title", "$defs", "$ref", "anyOf"}
BOUNDS = {"minimum", "maximum", "exclusiveMinimum", "minLength", "maxLength", "minItems", "maxItems", "enum"}
SOUND: dict[str, JsonObject] = {
    "read_file": {"path": "a", "offset": 2},
    "write_file": {"path": "a", "content": "x"},
    "edit_file": {"path": "a", "old_text": "x", "new_text": ""},
    "list_files": {},
    "search_files": {"pattern": "x"},
    "run_command": {"command": "ls", "timeout_s": 2},
    "update_plan": {"entries": [{"content": "x", "status": "pending"}]},
    "ask_user": {"question": "?", "options": ["a"]},
}


def model_of(tool: Tool) -> type[Arguments]:
    model = tool.spec.parameters
    assert isinstance(model, type)
    assert issubclass(model, Arguments)
    return model


def members(schema: Any) -> list[str]:
    """Return every member's name in a schema, those of parameters aside."""
    match schema:
        case dict():
            return [
                name
                for key, value in schema.items()
                for name in ([key] if key != "properties" else [])
                + (members(value) if key != "properties" else [n for each in value.values() for n in members(each)])
            ]
        case list():
            return [name for item in schema for name in members(item)]
        case _:
            return []


@pytest.mark.parametrize("tool", TOOLS.values(), ids=TOOLS)
def test_a_tools_schema_and_its_model_say_the_same(tool: Tool) -> None:
    fields, schema = model_of(tool).model_fields, tool.spec.schema
    assert (schema["type"], schema["additionalProperties"]) == ("object", False)
    assert list(schema["properties"]) == list(fields)
    assert schema.get("required", []) == [name for name, field in fields.items() if field.is_required()]
    for name, field in fields.items():
        assert schema["properties"][name].get("description") == field.description
    assert not NOISE.intersection(members(schema))


def wrong_values(parameter: JsonObject) -> list[Any]:
    """Return a value beyond each bound of a parameter."""
    beyond = {
        "minimum": lambda bound: bound - 1,
        "maximum": lambda bound: bound + 1,
        "exclusiveMinimum": lambda bound: bound,
        "minLength": lambda bound: "x" * (bound - 1),
        "maxLength": lambda bound: "x" * (bound + 1),
        "maxItems": lambda bound: (
            [SOUND["update_plan"]["entries"][0] if "properties" in parameter["items"] else "x"] * (bound + 1)
        ),
        "enum": lambda bound: f"{bound[0]}?",
    }
    return [beyond[name](bound) for name, bound in parameter.items() if name in BOUNDS]


@pytest.mark.parametrize("tool", TOOLS.values(), ids=TOOLS)
def test_every_bound_that_a_model_is_told_is_kept_and_every_one_that_is_kept_is_told(tool: Tool) -> None:
    sound = SOUND[tool.spec.name]
    assert tool.check(sound)
    for name, parameter in tool.spec.schema["properties"].items():
        for wrong in wrong_values(parameter):
            with pytest.raises(ToolError, match=name):
                tool.check({**sound, name: wrong})
    kept = sum(len(field.metadata) for field in model_of(tool).model_fields.values())
    told = sum(name in BOUNDS for parameter in tool.spec.schema["properties"].values() for name in parameter)
    assert told == kept


def test_the_entries_of_a_plan_are_told_as_they_are_kept() -> None:
    [entries] = TOOLS["update_plan"].spec.schema["properties"].values()
    entry = entries["items"]
    assert entry["required"] == ["content", "status"]
    assert entry["properties"]["status"]["enum"] == ["pending", "in_progress", "completed"]
    assert entry["properties"]["priority"] == {
        "default": "medium",
        "enum": ["high", "medium", "low"],
        "type": "string",
    }
    for name, parameter in entry["properties"].items():
        for wrong in wrong_values(parameter):
            with pytest.raises(ToolError, match=name):
                TOOLS["update_plan"].check({"entries": [{"content": "x", "status": "pending", name: wrong}]})


@pytest.mark.parametrize("tool", TOOLS.values(), ids=TOOLS)
def test_checked_arguments_are_the_same_values_without_a_second_check(tool: Tool) -> None:
    """What body and judgement read is what was checked and logged."""
    model = model_of(tool)
    checked = tool.check(SOUND[tool.spec.name])
    assert mended(checked) == checked
    assert {name: getattr(model.of(checked), name) for name in model.model_fields} == checked


def test_no_model_is_built_before_its_tool_is_asked_for_it() -> None:
    program = (
        "from acp_bridge.tools import builtin_tools, composed_tools\n"
        "tools = {tool.spec.name: tool for tool in composed_tools(builtin_tools(), ())}\n"
        "assert not any(tool.spec.parameters.__pydantic_complete__ for tool in tools.values())\n"
        "assert tools['read_file'].spec.schema\n"
        "built = [name for name, tool in tools.items() if tool.spec.parameters.__pydantic_complete__]\n"
        "assert built == ['read_file'], built\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


class Meeting(BaseModel):
    """Two people of one kind, and one who may be nobody."""

    class Person(BaseModel):
        name: str

    host: Person
    guest: Person
    chair: str | None


def test_a_model_of_somebody_elses_tool_is_told_without_references_and_with_null_where_that_means_something() -> None:
    person = {"properties": {"name": {"type": "string"}}, "required": ["name"], "type": "object"}
    assert schema_of(Meeting)["properties"] == {
        "host": person,
        "guest": person,
        "chair": {"anyOf": [{"type": "string"}, {"type": "null"}]},
    }


def test_a_tool_whose_model_has_no_schema_is_refused_by_name() -> None:
    tool = Greet()
    tool.spec = spec(parameters=int)
    with pytest.raises(ConfigError, match="the tool 'mine:Greet' cannot be offered: no JSON Schema can be made"):
        contained(tool, "'mine:Greet'")

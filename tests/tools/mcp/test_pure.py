"""Names, lines, arguments and schemas, without a server."""

import contextlib
import re
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from acp_bridge.content import JsonObject
from acp_bridge.errors import ToolError
from acp_bridge.rpc import Invalid, Success
from acp_bridge.tools.mcp.checking import check_arguments
from acp_bridge.tools.mcp.lines import Throttle, message_in
from acp_bridge.tools.mcp.names import full_names, labels
from acp_bridge.tools.mcp.offer import Offer, offers
from acp_bridge.tools.mcp.results import output_of
from acp_bridge.tools.mcp.tool import McpTool
from acp_bridge.tools.tool import Workspace

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"n": {"type": "integer"}, "s": {"type": "string"}, "any": {}, "maybe": {"type": ["string", "null"]}},
    "required": ["n"],
    "additionalProperties": False,
}


@given(st.lists(st.text(), max_size=8), st.lists(st.text(), max_size=20, unique=True))
def test_names_are_unique_and_of_the_form_that_models_take(servers: list[str], tools: list[str]) -> None:
    names = [name for label in labels(servers) for name in full_names(label, tools)]
    assert all(re.fullmatch("[a-zA-Z0-9_-]{1,64}", name) for name in names)
    assert len(set(names)) == len(names)


def test_a_plain_name_stays_as_it_is_whatever_stands_beside_it() -> None:
    assert labels(["git hub", "a__b", "a_b", "", "x" * 90]) == ["git_hub", "a_b", "a_b_2", "server", "x" * 24]
    assert full_names("s", ["a_b", "read"]) == ["mcp__s__a_b", "mcp__s__read"]
    assert full_names("s", ["a.b", "a_b"])[1] == "mcp__s__a_b"
    assert full_names("s", ["b", "a.b"]) == ["mcp__s__b", "mcp__s__a_b"]


@pytest.mark.parametrize(
    ("arguments", "kept"),
    [
        ({"n": 1}, {"n": 1}),
        ({"n": 1.0, "s": None}, {"n": 1.0}),
        ({"n": 1, "any": None, "maybe": None}, {"n": 1, "any": None, "maybe": None}),
    ],
)
def test_arguments_that_may_be_right_are_let_through(arguments: Any, kept: Any) -> None:
    assert check_arguments(SCHEMA, arguments) == kept


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "parameter 'n' is missing"),
        ({"n": None}, "parameter 'n' must be of the type integer"),
        ({"n": True}, "parameter 'n' must be of the type integer"),
        ({"n": 1, "s": 2}, "parameter 's' must be of the type string"),
        ({"n": 1, "x": 2}, "unknown parameter 'x'; there are n, s, any, maybe"),
    ],
)
def test_arguments_that_are_surely_wrong_are_named(arguments: Any, words: str) -> None:
    with pytest.raises(ToolError, match=words) as caught:
        check_arguments(SCHEMA, arguments)
    assert caught.value.code == "INVALID_ARGUMENTS"


def test_a_message_that_no_json_can_carry_is_mended() -> None:
    assert message_in(b'{"jsonrpc": "2.0", "id": 1, "result": {"a": "\\ud83d", "b": NaN}}') == Success(
        1, {"a": "\ufffd", "b": "nan"}
    )
    assert isinstance(message_in(b"{" * 100_000), Invalid)
    assert message_in(b'{"a": ' * 500 + b"NaN" + b"}" * 500) is not None


async def test_a_writer_that_is_faster_than_the_rate_is_made_to_wait() -> None:
    throttle = Throttle(rate=1000, burst=100)
    started = anyio.current_time()
    with anyio.fail_after(5):
        await throttle.pay(100)
        assert anyio.current_time() - started < 0.05
        await throttle.pay(150)
    assert anyio.current_time() - started >= 0.1


def test_no_room_in_the_session_is_said() -> None:
    listed = [{"name": "a"}, {"name": "b"}]
    made, words = offers("s", "s", listed, room=1)
    assert [offer.tool for offer in made] == ["a"]
    assert words == "of its 2 tools, 1 can be used: 'b' is more than there is room for"
    assert offers("s", "s", listed, room=2)[1] == ""


def test_of_a_list_without_measure_only_the_beginning_is_looked_at() -> None:
    made, words = offers("s", "s", [None] * 100_000 + [{"name": "a"}], room=2)
    assert made == []
    assert (
        words == "of its 100001 tools, 0 can be used: one has no name, one has no name, one has no name, and 510 more"
    )


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
    max_leaves=12,
)


@settings(max_examples=60)
@given(JSON)
def test_no_result_and_no_list_can_raise(value: Any) -> None:
    assert output_of({"content": value}).content
    assert output_of({"content": [value]}).content
    assert output_of({"structuredContent": value}).content
    listed = [value, {"name": "a", "inputSchema": value}, {"name": "b", "inputSchema": {"properties": value}}]
    made, _ = offers("s", "s", [*listed, {"name": "c", "inputSchema": {"required": value}}], room=9)
    for offer in made:
        with contextlib.suppress(ToolError):
            check_arguments(offer.parameters, {"x": value})


def test_a_grant_does_not_outlive_the_definition_it_was_given_for() -> None:
    async def call(offer: Offer, arguments: JsonObject, key: str) -> JsonObject:
        raise AssertionError((offer, arguments, key))

    workspace = Workspace(cwd=Path("/"), roots=(Path("/"),))

    def scope(description: str) -> str:
        offer = Offer(name="mcp__s__t", tool="t", description=description, parameters={"type": "object"})
        return McpTool("s", offer, call).access({}, workspace).scope

    scopes = {scope(description) for description in ("lists files", "removes files", "lists files")}
    assert len(scopes) == 2

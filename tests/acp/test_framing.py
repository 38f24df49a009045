"""Lines on stdin and stdout: what comes out is one object a line, whatever goes in."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from support.client import Client, choosing, prompt_params
from support.script import AWKWARD

START = Callable[..., Client]


def spoken(agent: Client, session: str) -> str:
    """Return what the agent has said in a session."""
    return "".join(update["content"]["text"] for update in agent.updates(session, kind="agent_message_chunk"))


def test_every_line_of_a_turn_is_one_json_object_of_version_2(agent: Client, session: str) -> None:
    """R1: every stdout line parses as one JSON object with jsonrpc 2.0 (the client holds each line against it)."""
    agent.permit = choosing("allow_once")
    assert agent.prompted(session, "do three things") == "end_turn"
    assert all(message.get("jsonrpc") == "2.0" for message in agent.received)
    agent.check()


def test_tool_output_with_invalid_bytes_comes_as_valid_utf_8(agent: Client, session: str) -> None:
    """R2: stdout is valid UTF-8, also for text beyond the basic plane and for tool output with invalid bytes."""
    agent.permit = choosing("allow_once")
    agent.prompted(session, "print odd bytes")
    [shown] = agent.update("tool_call_update", session=session, status="completed")["content"]
    assert "😀" in shown["content"]["text"]
    assert "end" in shown["content"]["text"]


def test_a_text_with_newlines_separators_and_nul_comes_whole(agent: Client, session: str) -> None:
    """R3: no embedded newline; a text with newline, U+2028 and NUL round-trips."""
    agent.prompted(session, "say something awkward")
    assert spoken(agent, session) == AWKWARD


def test_a_prompt_with_newlines_separators_and_nul_is_replayed_as_it_was(
    agent: Client, session: str, tmp_path: Path
) -> None:
    """R3: the same, on the way in and out again."""
    agent.prompted(session, AWKWARD)
    mark = agent.mark
    agent.call("session/load", {"sessionId": session, "cwd": str(tmp_path), "mcpServers": []})
    said = agent.updates(session, since=mark, kind="user_message_chunk")
    assert [update["content"] for update in said] == [{"type": "text", "text": AWKWARD}]


TOOL_THAT_PRINTS = """
import os, subprocess, sys, warnings
from acp_bridge.content import Text
from acp_bridge.tools import Access, Presentation, ToolOutput, ToolSpec

print("printed when it was imported")

class Chatty:
    spec = ToolSpec(name="chatty", description="x", parameters={"type": "object"}, effect="read", kind="other")
    def check(self, arguments): return arguments
    def present(self, arguments, workspace): return Presentation(title="chatty", kind="other")
    def access(self, arguments, workspace): return Access(kind="none")
    async def run(self, arguments, call):
        print("printed", flush=True)
        sys.__stdout__.write("written\\n"); sys.__stdout__.flush()
        os.write(1, b"to the descriptor\\n")
        warnings.warn("a warning")
        subprocess.run(["sh", "-c", "echo from a child; cat"], check=True)
        return ToolOutput(content=(Text(text="quiet"),))
"""


def test_what_tools_libraries_and_children_print_never_reaches_stdout(start: START, tmp_path: Path) -> None:
    """R4: nothing before the first request; nothing from libraries, warnings or children."""
    (tmp_path / "chatty.py").write_text(TOOL_THAT_PRINTS)
    (tmp_path / "script.json").write_text(json.dumps([{"tools": [{"name": "chatty"}]}, {"text": "Done."}]))
    environment = {"PYTHONPATH": str(tmp_path), "ACP_BRIDGE_TOOLS": "chatty:Chatty", "PYTHONWARNINGS": "always"}
    agent = start(script=tmp_path / "script.json", environment=environment)
    agent.initialize()
    assert agent.received[0]["id"] == 1
    assert agent.prompted(agent.new_session(tmp_path), "go") == "end_turn"
    agent.check()
    assert "from a child" in agent.stderr
    assert "to the descriptor" in agent.stderr


def conversation() -> bytes:
    """Return the bytes of a short conversation up to three answers."""
    messages = [
        {
            "id": 1,
            "method": "initialize",
            "params": {"protocolVersion": 1, "clientInfo": {"name": "é😀", "version": "1"}},
        },
        {"id": "zwei-é", "method": "session/list", "params": {"cwd": "/nowhere/é"}},
        {"id": 3, "method": "_not/there"},
    ]
    return b"".join(
        json.dumps({"jsonrpc": "2.0", **message}, ensure_ascii=False).encode() + b"\n" for message in messages
    )


@pytest.mark.parametrize("size", [1, 10_000])
def test_however_the_input_is_cut_the_answers_are_the_same(start: START, size: int) -> None:
    """R5: input split at every byte boundary, and many messages in one write, give the same result."""
    agent, data = start(), conversation()
    for at in range(0, len(data), size):
        agent.write(data[at : at + size])
    answers = [agent.answer(request_id) for request_id in (1, "zwei-é", 3)]
    assert "result" in answers[0]
    assert answers[1]["result"] == {"sessions": []}
    assert answers[2]["error"]["code"] == -32601


def test_carriage_returns_and_blank_lines_are_tolerated(agent: Client) -> None:
    """R6: CRLF and blank lines tolerated."""
    agent.write(b'\r\n\n  \n\t\r\n{"jsonrpc":"2.0","id":"crlf","method":"session/list"}\r\n\r\n')
    assert "result" in agent.answer("crlf")
    agent.settle()
    assert not [message for message in agent.received if message.get("id", "") is None]


def error_of(agent: Client, line: bytes, named: object = None) -> dict[str, object]:
    """Return the one error that a line is answered with, which names that request; then check that the agent lives."""
    mark = agent.mark
    agent.write(line + b"\n")
    answer = agent.wait_for(lambda m: "id" in m and m["id"] == named, since=mark, what=f"an error for {line[:40]!r}")
    end = agent.settle()
    assert [m for m in agent.received[mark:end] if "id" in m and m["id"] == named] == [answer]
    return answer["error"]


@pytest.mark.parametrize(
    "line",
    [b'{"jsonrpc":"2.0","id":1,"method"', b"not json", b"{'id': 1}", b'{"id": NaN}', b"\x00", b"Content-Length: 20"],
)
def test_malformed_json_is_a_parse_error_and_the_connection_lives(agent: Client, line: bytes) -> None:
    """R7: malformed JSON → -32700, id null; connection lives."""
    assert error_of(agent, line)["code"] == -32700


@pytest.mark.parametrize("line", [b'{"jsonrpc":"2.0","id":1,"method":"\xff\xfe"}', b"\xc3\x28", b'"\xed\xa0\x80"'])
def test_invalid_utf_8_is_a_parse_error_and_the_connection_lives(agent: Client, line: bytes) -> None:
    """R8: invalid UTF-8 line → -32700, id null; connection lives."""
    assert error_of(agent, line)["code"] == -32700


@pytest.mark.parametrize(
    "line", [b"[]", b'[{"jsonrpc":"2.0","id":1,"method":"session/list"},{"jsonrpc":"2.0","id":2}]']
)
def test_a_batch_is_one_invalid_request(agent: Client, line: bytes) -> None:
    """R9: JSON array, empty or full → exactly one -32600, id null."""
    assert error_of(agent, line)["code"] == -32600


@pytest.mark.parametrize("line", [b"1", b"-0.5", b'"text"', b"true", b"null"])
def test_a_scalar_is_an_invalid_request(agent: Client, line: bytes) -> None:
    """R10: scalar or null line → -32600, id null; process lives."""
    assert error_of(agent, line)["code"] == -32600


def test_an_object_that_is_no_message_is_an_invalid_request(agent: Client) -> None:
    """R11: {"foo":"bar"} → -32600."""
    assert error_of(agent, b'{"foo":"bar"}')["code"] == -32600


def test_a_prompt_of_10_mib_is_taken(agent: Client, session: str) -> None:
    """R12: a 10 MiB prompt is accepted."""
    request_id = agent.prompt(session, "say hello " + "x" * 10 * 2**20)
    assert agent.result(request_id, timeout_s=20) == {"stopReason": "end_turn"}
    assert spoken(agent, session) == "Hello, you."


def resident_kib(pid: int) -> int:
    """Return how much memory a process has at its peak; 0 where the system does not say."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))


def test_a_line_of_100_mib_is_an_error_held_by_nobody_and_the_connection_goes_on(start: START) -> None:
    """R12: a line above the cap gives an error, bounded memory, and a working connection afterwards."""
    agent = start()
    agent.initialize()
    agent.call("session/list", {})
    before = resident_kib(agent.process.pid)
    block = b"x" * 2**20
    for _ in range(100):
        agent.write(block)
    agent.write(b"\n")
    answer = agent.wait_for(lambda m: "id" in m and m["id"] is None)
    assert answer["error"]["code"] == -32600
    assert agent.call("session/list", {}) == {"sessions": []}
    assert resident_kib(agent.process.pid) - before < 80 * 1024


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (
            b'{"jsonrpc":"2.0","id":"d","method":"m","params":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
            -32600,
        ),
        (b'{"jsonrpc":"2.0","id":"d","method":"m","params":' + b'{"a":' * 100_000 + b"1", -32600),
        (b'\xef\xbb\xbf{"jsonrpc":"2.0","id":1,"method":"session/list"}', -32700),
        (b'{"jsonrpc":"2.0","id":1234567890123456789012345678901234567890,"method":"session/list"}', -32600),
        (b'{"jsonrpc":"2.0","id":1.0,"method":"session/list"}', -32600),
        (b'{"jsonrpc":"2.0","id":true,"method":"session/list"}', -32600),
    ],
    ids=["arrays", "objects", "mark", "long id", "fraction", "boolean"],
)
def test_hostile_json_gets_an_error_and_the_process_lives(agent: Client, line: bytes, code: int) -> None:
    """R13: deep nesting, BOM, lone-surrogate escape, 40-digit id: an error reply, process lives."""
    assert error_of(agent, line, "d" if b'"id":"d"' in line else None)["code"] == code


def test_half_a_line_at_the_end_of_the_input_is_nobodys(start: START) -> None:
    """R90: half a line and then the end: nothing is answered for it, and the agent ends with 0."""
    agent = start()
    agent.initialize()
    agent.write(json.dumps({"jsonrpc": "2.0", "id": 9, "method": "session/list"}).encode())
    agent.close_stdin()
    assert agent.wait() == 0
    assert [message["id"] for message in agent.received] == [1]


def test_a_whole_request_before_the_end_of_the_input_is_answered_or_refused(start: START, tmp_path: Path) -> None:
    """JSON-RPC 2.0, 5: at the end of the input what was read is still answered, once."""
    agent = start()
    agent.initialize()
    session = agent.new_session(tmp_path)
    agent.send(agent.made("session/prompt", prompt_params(session, "say hello")))
    agent.close_stdin()
    assert agent.wait() == 0
    assert len([message for message in agent.received if message.get("id") == 3]) == 1

"""`initialize` that lies in the pipe at the start is answered before the event loop is imported; all else waits."""

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import orjson
import pytest
from support.client import Client, clean_environment
from support.script import say, written

from acp_bridge.acp import ClientCapabilities
from acp_bridge.descriptors import Claimed
from acp_bridge.startup import Begun, begin

INITIALIZE = {"jsonrpc": "2.0", "id": 7, "method": "initialize", "params": {"protocolVersion": 1}}
PLAIN = orjson.dumps(INITIALIZE) + b"\n"
ODD = [
    PLAIN[:-1],  # not whole yet
    b"\n" + PLAIN,
    b"not json\n",
    b"[" + PLAIN[:-1] + b"]\n",
    b"\xff\n",
    *(
        orjson.dumps({**INITIALIZE, **change}) + b"\n"
        for change in (
            {"id": True},
            {"id": 1.5},
            {"id": None},
            {"id": [1]},
            {"jsonrpc": "1.0"},
            {"method": "session/new"},
            {"params": [1]},
            {"params": {}},
            {"params": {"protocolVersion": "1"}},
            {"params": {"protocolVersion": 1, "_meta": [[[]]] * 60}},
            {"result": {}},
        )
    ),
    orjson.dumps({name: value for name, value in INITIALIZE.items() if name != "id"}) + b"\n",
]


class Pipes:
    """The two descriptors of a start, and the client's ends of them."""

    def __init__(self) -> None:
        source, self.to_agent = os.pipe()
        self.from_agent, sink = os.pipe()
        self.claimed = Claimed(source, sink)

    def begin(self) -> Begun:
        return begin(self.claimed, program_version="1", auth_methods=())

    def answered(self) -> bytes:
        os.set_blocking(self.from_agent, False)
        try:
            return os.read(self.from_agent, 65536)
        except BlockingIOError:
            return b""

    def close(self) -> None:
        for fd in (*self.claimed, self.to_agent, self.from_agent):
            with contextlib.suppress(OSError):
                os.close(fd)


@pytest.fixture
def pipes():
    pipes = Pipes()
    yield pipes
    pipes.close()


def test_a_plain_initialize_is_answered_and_what_follows_goes_on(pipes: Pipes) -> None:
    os.write(pipes.to_agent, PLAIN + b'{"jsonrpc":"2.0","id":8,')
    assert pipes.begin() == Begun(ClientCapabilities(), b'{"jsonrpc":"2.0","id":8,')
    answer = orjson.loads(pipes.answered())
    assert (answer["id"], answer["result"]["protocolVersion"]) == (7, 1)


@pytest.mark.parametrize("line", ODD)
def test_whatever_is_odd_is_left_to_the_peer_byte_for_byte(pipes: Pipes, line: bytes) -> None:
    os.write(pipes.to_agent, line + b"more")
    assert pipes.begin() == Begun(None, line + b"more")
    assert pipes.answered() == b""


def test_nothing_is_waited_for(pipes: Pipes) -> None:
    assert pipes.begin() == Begun()


def test_the_end_of_the_input_stays_there_to_be_read(pipes: Pipes) -> None:
    os.close(pipes.to_agent)
    assert pipes.begin() == Begun()
    assert os.read(pipes.claimed.source, 1) == b""


def test_a_client_that_takes_nothing_is_not_waited_for(pipes: Pipes) -> None:
    os.set_blocking(pipes.claimed.sink, False)
    with pytest.raises(BlockingIOError):
        while True:
            os.write(pipes.claimed.sink, bytes(65536))
    os.write(pipes.to_agent, PLAIN)
    assert pipes.begin() == Begun()
    assert os.read(pipes.claimed.source, 65536) == PLAIN


def test_a_client_that_has_gone_is_found_by_the_wire(pipes: Pipes) -> None:
    os.close(pipes.from_agent)
    os.write(pipes.to_agent, PLAIN)
    assert pipes.begin().client is None


PROBE = """
import os, sys
real = os.write
def write(fd, data):
    if b'"protocolVersion"' in bytes(data):
        real(2, b"LOADED " + " ".join(sorted(sys.modules)).encode() + b"\\n")
    return real(fd, data)
os.write = write
sys.argv[0] = "acp-bridge"
from acp_bridge.__main__ import main
main()
"""


def started(tmp_path: Path, said: bytes, command: tuple[str, ...]) -> "subprocess.Popen[bytes]":
    """Start an agent that finds `said` in its pipe."""
    source, sink = os.pipe()
    os.write(sink, said)
    os.close(sink)
    environment = clean_environment(tmp_path, f"scripted:{written(tmp_path / 's.json', say('x'))}")
    with os.fdopen(source, "rb") as stdin:
        return subprocess.Popen(
            command, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment, cwd=tmp_path
        )


def test_the_event_loop_is_not_imported_before_the_answer(tmp_path: Path) -> None:
    """What the first answer waits for is the interpreter, orjson and this program's own few modules."""
    with started(tmp_path, PLAIN, (sys.executable, "-P", "-c", PROBE)) as process:
        out, err = process.communicate(timeout=10)
    assert orjson.loads(out)["id"] == 7
    assert process.returncode == 0
    [loaded] = [line for line in err.splitlines() if line.startswith(b"LOADED ")]
    modules = set(loaded.decode().split())
    assert "orjson" in modules
    assert not modules & {"anyio", "asyncio", "logging", "threading", "tomllib", "acp_bridge.rpc", "acp_bridge.app"}


def test_a_whole_conversation_that_lies_in_the_pipe_is_answered_in_order(tmp_path: Path) -> None:
    new = {"jsonrpc": "2.0", "id": 8, "method": "session/new", "params": {"cwd": str(tmp_path), "mcpServers": []}}
    again = {**INITIALIZE, "id": 9}
    said = b"".join(orjson.dumps(message) + b"\n" for message in (INITIALIZE, again, new))
    with started(tmp_path, said, (sys.executable, "-m", "acp_bridge")) as process:
        out, err = process.communicate(timeout=10)
    answers = {answer["id"]: answer for answer in map(orjson.loads, out.splitlines()) if "id" in answer}
    assert next(iter(answers)) == 7, err
    assert "came a second time" in answers[9]["error"]["message"]
    assert "sessionId" in answers.get(8, {}).get("result", {}) or "ending" in answers[8]["error"]["message"]


def test_the_first_answer_is_the_peers_own_byte_for_byte(tmp_path: Path) -> None:
    """A line before it that is blank sends `initialize` the long way."""
    lines: list[bytes] = []
    for said in (PLAIN, b"\n" + PLAIN):
        with started(tmp_path, said, (sys.executable, "-m", "acp_bridge")) as process:
            out, err = process.communicate(timeout=10)
        assert process.returncode == 0, err
        lines.append(out)
    assert lines[0] == lines[1] != b""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_right_behind_the_first_answer_is_an_end_like_any_other(tmp_path: Path, number: int) -> None:
    with Client(tmp_path / "home", written(tmp_path / "s.json", say("x"))) as client:
        client.initialize()
        client.signal(number)
        assert client.wait() == 128 + number

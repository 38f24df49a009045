"""What a start costs, and what it needs."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from support.client import Client, clean_environment
from support.script import say, written

HEAVY = (
    "pydantic",
    "pydantic_core",
    "mcp",
    "openai",
    "anthropic",
    "httpx",
    "rich",
    "platformdirs",
    "jsonschema",
    "acp",
)

PROBE = """
import os, sys
real = os.write
def write(fd, data):
    if b'"protocolVersion"' in bytes(data):
        loaded = sorted({name.partition(".")[0] for name in sys.modules})
        real(2, b"LOADED " + " ".join(loaded).encode() + b"\\n")
    return real(fd, data)
os.write = write
sys.argv[0] = "acp-bridge"
from acp_bridge.__main__ import main
main()
"""
"""Says on stderr which packages are loaded at the moment at which the answer to `initialize` is written."""

LAST_PROBE = """
import os, sys
real = os._exit
def end(code):
    real_write(2, ("LOADED " + " ".join({name.partition(".")[0] for name in sys.modules})).encode())
    real(code)
os._exit, real_write = end, os.write
sys.argv[0] = "acp-bridge"
from acp_bridge.__main__ import main
main()
"""
"""Says the same at the very end."""


def loaded_at_the_answer(tmp_path: Path, more: str = "") -> set[str]:
    command = (sys.executable, "-c", more + PROBE)
    with Client(tmp_path / "home", written(tmp_path / "s.json", say("x")), command=command) as client:
        client.initialize()
        client.call("session/list", {})
        found = [line for line in client.stderr.splitlines() if line.startswith("LOADED ")]
    assert len(found) == 1, client.stderr
    return set(found[0].split()[1:])


@pytest.mark.cold_start
def test_nothing_heavy_is_imported_before_the_answer_to_initialize(tmp_path: Path) -> None:
    """R97: at the answer to initialize no pydantic, mcp, openai, anthropic, httpx or rich is loaded."""
    loaded = loaded_at_the_answer(tmp_path)
    assert "orjson" in loaded
    assert not loaded & set(HEAVY)


def test_the_probe_sees_what_is_imported_too_early(tmp_path: Path) -> None:
    """R97: the guard above is one: it sees an import that is planted."""
    assert "pydantic" in loaded_at_the_answer(tmp_path, more="import pydantic\n")


@pytest.mark.cold_start
def test_a_scripted_route_imports_no_providers_sdk(tmp_path: Path) -> None:
    """R97: the warm-up imports what the configured route needs, and no more."""
    client = Client(
        tmp_path / "home", written(tmp_path / "s.json", say("x")), command=(sys.executable, "-c", LAST_PROBE)
    )
    client.initialize()
    session = client.new_session(tmp_path)
    client.prompted(session, "x")
    client.close_stdin()
    assert client.wait() == 0
    loaded = set(client.stderr.partition("LOADED ")[2].split())
    assert "pydantic" in loaded
    assert not loaded & {"openai", "anthropic", "mcp", "httpx", "rich"}


@pytest.mark.cold_start
def test_what_comes_before_the_warm_up_is_done_waits_and_is_answered_in_order(tmp_path: Path) -> None:
    """R25, R31: a whole start in one write: initialize, a session, a list."""
    with Client(tmp_path / "home", written(tmp_path / "s.json", say("x"))) as client:
        messages = [
            client.made("initialize", {"protocolVersion": 1}),
            client.made("session/new", {"cwd": str(tmp_path), "mcpServers": []}),
            client.made("session/list", {}),
        ]
        client.send(*messages)
        for message in messages:
            client.result(message["id"])
        assert client.received[0]["id"] == messages[0]["id"]


@pytest.mark.parametrize(
    "environment",
    [
        {"ACP_BRIDGE_MODEL": "nonsense"},
        {"ACP_BRIDGE_MODEL": "scripted:/not/there.json"},
        {"ACP_BRIDGE_MODEL": "openai:gpt-5"},
        {},
    ],
)
def test_an_unusable_model_does_not_keep_the_agent_from_starting(tmp_path: Path, environment: dict[str, str]) -> None:
    """R36: initialize is answered; session/new then says -32000 and what to set."""
    with Client(tmp_path / "home", environment=environment) as client:
        client.initialize()
        failure = client.refused("session/new", {"cwd": str(tmp_path), "mcpServers": []})
        assert failure.code == -32000
        assert failure.data["details"]


@pytest.mark.cold_start
def test_a_setting_that_is_not_known_ends_the_start_with_a_word(tmp_path: Path) -> None:
    """Unknown keys are errors that name the nearest known key; stdout stays clean."""
    ran = subprocess.run(
        [sys.executable, "-m", "acp_bridge"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env=clean_environment(tmp_path, "", {"ACP_BRIDGE_HOMME": "x"}),
        timeout=10,
        check=False,
    )
    assert (ran.returncode, ran.stdout) == (2, b"")
    assert b"ACP_BRIDGE_HOME" in ran.stderr
    assert b"Traceback" not in ran.stderr


@pytest.mark.cold_start
def test_a_start_under_a_foreign_code_page_reads_and_writes_utf_8(tmp_path: Path) -> None:
    """PYTHONUTF8=0 and a C locale: bytes are UTF-8 all the same, in the log too."""
    environment = {"PYTHONUTF8": "0", "LC_ALL": "C", "PYTHONIOENCODING": "cp1252", "PYTHONCOERCECLOCALE": "0"}
    with Client(tmp_path / "home", written(tmp_path / "s.json", say("Grüße 😀")), environment=environment) as client:
        client.initialize()
        session = client.new_session(tmp_path)
        message = client.made("session/prompt", {"sessionId": session, "prompt": [{"type": "text", "text": "Ünï 😀"}]})
        client.write(json.dumps({"jsonrpc": "2.0", **message}, ensure_ascii=False).encode() + b"\n")
        assert client.result(message["id"]) == {"stopReason": "end_turn"}
        assert client.update("agent_message_chunk", session=session)["content"]["text"] == "Grüße 😀"
        assert client.update("session_info_update", session=session)["title"] == "Ünï 😀"


@pytest.mark.parametrize(
    ("arguments", "environment", "words"),
    [
        ([], {"ACP_BRIDGE_MODE": "yolo"}, "yolo"),
        ([], {"ACP_BRIDGE_MODE": "sk-0123456789", "MY_API_KEY": "sk-0123456789"}, "[MY_API_KEY]"),
        (["--nope"], {}, "--nope"),
    ],
)
def test_what_keeps_the_agent_from_starting_is_the_answer_to_initialize(
    tmp_path: Path, arguments: list[str], environment: dict[str, str], words: str
) -> None:
    """An editor shows its user no stderr: the agent was simply not there."""
    asked = {"jsonrpc": "2.0", "id": "one", "method": "initialize", "params": {"protocolVersion": 1}}
    done = subprocess.run(
        [sys.executable, "-m", "acp_bridge", "serve", *arguments],
        input=json.dumps(asked) + "\n",
        capture_output=True,
        text=True,
        env=clean_environment(tmp_path, "", environment),
        timeout=20,
        check=False,
    )
    answer = json.loads(done.stdout)
    assert (answer["id"], answer["error"]["code"]) == ("one", -32603)
    assert answer["error"]["message"].startswith("acp-bridge cannot start: ")
    assert words in answer["error"]["message"]
    assert (done.returncode, words in done.stderr) == (2, True)


@pytest.mark.parametrize(
    "said", ["", "{}\n", "no JSON\n", '{"jsonrpc":"2.0","id":1,"method":"session/new","params":{}}\n']
)
def test_who_does_not_ask_to_begin_is_told_nothing_by_an_agent_that_cannot_start(tmp_path: Path, said: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "acp_bridge", "serve"],
        input=said,
        capture_output=True,
        text=True,
        env=clean_environment(tmp_path, "", {"ACP_BRIDGE_MODE": "yolo"}),
        timeout=20,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")


SDK_PROBE = """
import os, sys
real = os.write
def write(fd, data):
    if b'"sessionId"' in bytes(data) and b'"id"' in bytes(data):
        real(2, b"LOADED " + " ".join(sorted(name for name in sys.modules if "." not in name)).encode() + b"\\n")
    return real(fd, data)
class Held:
    def find_spec(self, name, path=None, target=None):
        if name == "openai":
            gate.wait(10)
        return None
import threading
gate = threading.Event()
sys.meta_path.insert(0, Held())
os.write = write
sys.argv[0] = "acp-bridge"
from acp_bridge.__main__ import main
main()
"""


def test_a_session_is_made_while_its_providers_library_is_still_being_imported(tmp_path: Path) -> None:
    environment = {"ACP_BRIDGE_MODEL": "openai:gpt-5", "OPENAI_API_KEY": "sk-0123456789abcdef"}
    command = (sys.executable, "-c", SDK_PROBE)
    with Client(tmp_path / "home", environment=environment, command=command) as client:
        client.initialize()
        client.new_session(tmp_path)
        [found] = [line for line in client.stderr.splitlines() if line.startswith("LOADED ")]
    assert "pydantic" in found.split()
    assert "openai" not in found.split()

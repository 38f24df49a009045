"""How `run` ends when it is ended from outside: in order, and so that the turn can be gone on with."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest


def started(folder: Path) -> subprocess.Popen[bytes]:
    answer = {"deltas": [{"text": "hello\n"}, {"pause_s": 0.5}, {"text": "x", "repeat": 50}, {"hang": True}]}
    (folder / "script.json").write_text(json.dumps([answer]))
    env = {"PATH": os.environ["PATH"], "HOME": str(folder), "ACP_BRIDGE_HOME": str(folder / "home")}
    env["ACP_BRIDGE_MODEL"] = f"scripted:{folder}/script.json"
    argv = [sys.executable, "-m", "acp_bridge", "run", "--json", "--cwd", str(folder), "hi"]
    root = Path(__file__).parents[2]
    pipe = subprocess.PIPE
    return subprocess.Popen(argv, env=env, cwd=root, stdout=pipe, stderr=pipe, start_new_session=True)


def ends(folder: Path) -> list[Any]:
    [log] = (folder / "home" / "sessions").glob("*/log.jsonl")
    records = [json.loads(line) for line in log.read_bytes().splitlines()]
    turns = [record["data"] for record in records if record.get("type") == "turn/end"]
    return [(turn["reason"], turn.get("by")) for turn in turns]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_ends_the_turn_as_the_programs_end_and_not_as_the_users_cancel(tmp_path: Path, number: int) -> None:
    process = started(tmp_path)
    assert process.stdout is not None
    while json.loads(process.stdout.readline())["type"] != "chunk":
        pass
    process.send_signal(number)
    process.communicate(timeout=20)
    assert (process.returncode, ends(tmp_path)) == (128 + number, [("cancelled", "shutdown")])


@pytest.mark.cold_start
def test_an_output_that_nobody_reads_ends_the_turn_with_a_plain_sentence(tmp_path: Path) -> None:
    process = started(tmp_path)
    assert process.stdout is not None
    while json.loads(process.stdout.readline())["type"] != "chunk":
        pass
    process.stdout.close()
    assert process.stderr is not None
    said = process.stderr.read()
    assert (process.wait(20), ends(tmp_path)) == (141, [("cancelled", "shutdown")])
    assert said == b"acp-bridge run: nobody reads the output any more, so the turn was ended\n"

"""A user's mistake is told in plain words, wherever it comes to light, and the way that needs no key is among them."""

import json
from typing import Any

import pytest
from cli.conftest import Run

NO_ROUTE = [
    ("", "no model is configured"),
    ("loca", "did you mean 'local:model.gguf'?"),
    ("opnai:gpt-5", "did you mean 'openai:MODEL'?"),
    ("gpt-5", "'openai:gpt-5'"),
    ("Claude-sonnet-4-5", "'anthropic:Claude-sonnet-4-5'"),
    ("meta/llama-3", "'openrouter:meta/llama-3'"),
    ("qwen3", "'ollama:qwen3'"),
    ("nothing:x", "known are openai, anthropic"),
    ("openai", "write e.g. 'openai:MODEL'"),
    ("openai:gpt-5", "set OPENAI_API_KEY"),
]


@pytest.mark.parametrize(("route", "words"), NO_ROUTE)
def test_whoever_has_no_usable_model_is_told_how_to_go_on_without_a_key(run: Run, route: str, words: str) -> None:
    """In a shell, in a script and by the doctor alike; never as a defect of the program."""
    given = ("-m", route) if route else ()
    shell = run("run", *given, "hi")
    script = run("run", "--json", *given, "hi")
    doctor = run("doctor", "--json", **{"ACP_BRIDGE_MODEL": route} if route else {})
    failure: Any = json.loads(script.out)["failure"]
    [model] = [check for check in json.loads(doctor.out)["checks"] if check["name"] == "Model"]
    assert (shell.code, script.code, failure["kind"]) == (2, 2, "configuration")
    assert shell.err.startswith("acp-bridge: ")
    for said in (shell.err, failure["message"]):
        assert words in said
    for said in (shell.err, failure["message"], f"{model['detail']} {model['remedy']}"):
        assert "the model 'demo'" in said
        assert "internal" not in said
        assert "?." not in said


@pytest.mark.parametrize(
    ("argv", "words", "code", "kind"),
    [
        (("--resume", "abc"), "no session 'abc'; `acp-bridge sessions list`", 1, "storage"),
        (("-m", "scripted:/nope"), "cannot read the script '/nope'", 2, "configuration"),
        (("-m", "replay:/nope"), "no recording in '/nope'", 2, "configuration"),
    ],
)
def test_a_wrong_argument_of_run_is_one_line_in_plain_words(
    run: Run, argv: tuple[str, ...], words: str, code: int, kind: str
) -> None:
    shell = run("run", "-m", "demo", *argv, "hi")
    script = run("run", "--json", "-m", "demo", *argv, "hi")
    assert (shell.code, script.code, json.loads(script.out)["failure"]["kind"]) == (code, code, kind)
    assert shell.err.startswith("acp-bridge: ")
    assert words in shell.err
    assert shell.err.count("\n") == 1


def test_a_wrong_model_among_those_that_are_offered_is_a_problem(run: Run) -> None:
    doctor = run("doctor", ACP_BRIDGE_MODEL="demo", ACP_BRIDGE_MODELS="gpt-5")
    assert doctor.code == 1
    assert "the model 'gpt-5' has no provider" in doctor.out

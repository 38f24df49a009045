"""Routes, keys and addresses; what is imported when; servers on this machine; recordings."""

import subprocess
import sys
from pathlib import Path

import anyio
import orjson
import pytest
from support.server import CUT, STALL, serving, status

from acp_bridge.composition import DEFAULT_MODELS
from acp_bridge.config import KEY_VARIABLES
from acp_bridge.content import Failure, Text, Usage
from acp_bridge.errors import ConfigError
from acp_bridge.llm import (
    LOCAL_PROVIDERS,
    PRESETS,
    AuthRequired,
    Delta,
    Failed,
    Finished,
    Kept,
    LocalServer,
    Model,
    ModelSettings,
    Options,
    Recorder,
    Route,
    ScriptedModel,
    TextDelta,
    ThoughtDelta,
    ToolDelta,
    detect_local,
    no_model_configured,
    open_model,
    options_from,
    parse_route,
    script_from,
)
from acp_bridge.llm.endpoint import endpoint_of
from acp_bridge.llm.facts import facts_of
from acp_bridge.session import FromAssistant, FromUser, ModelRequest


def test_a_route_is_split_at_its_first_colon() -> None:
    assert parse_route("ollama:qwen3:8b") == Route("ollama", "qwen3:8b")
    assert parse_route("openrouter:openai/gpt-4o:free") == Route("openrouter", "openai/gpt-4o:free")
    assert parse_route("demo") == Route("demo")
    assert str(parse_route("ollama:qwen3:8b")) == "ollama:qwen3:8b"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("opnai:gpt-4o", "did you mean 'openai:MODEL'?"),
        ("gpt-4o", "'provider:model'"),
        ("openai", "names no model; write e.g. 'openai:MODEL'"),
        ("scripted:", "scripted:answers.json"),
        ("", "has no provider"),
        ("qwen3:8b", "the model 'qwen3:8b' has no provider; write it as 'provider:model', e.g. 'ollama:qwen3:8b'"),
        ("deepseek-r1:7b-q4_0", "e.g. 'ollama:deepseek-r1:7b-q4_0'"),
        ("llama3:latest", "e.g. 'ollama:llama3:latest'"),
        ("qwen/qwen3-coder:free", "e.g. 'openrouter:qwen/qwen3-coder:free'"),
        ("mine:Echo8b", "there is no model provider 'mine'"),
    ],
)
def test_a_malformed_route_is_refused_with_a_remedy(text: str, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_route(text)
    assert words in str(caught.value)


@pytest.mark.parametrize("provider", [name for name, preset in PRESETS.items() if preset.needs_key])
def test_a_missing_key_says_what_to_set(provider: str) -> None:
    with pytest.raises(AuthRequired) as caught:
        open_model(Route(provider, "m"))
    assert caught.value.provider == provider
    assert caught.value.variables == (PRESETS[provider].key_variable,)
    assert PRESETS[provider].key_variable in str(caught.value)


def test_nothing_configured_says_what_to_set() -> None:
    assert "ACP_BRIDGE_MODEL" in str(no_model_configured())
    assert "ANTHROPIC_API_KEY" in no_model_configured().variables


def test_keys_and_addresses_come_from_the_environment_given() -> None:
    environ = {
        "OPENAI_API_KEY": " sk-1 ",
        "ANTHROPIC_BASE_URL": "http://x",
        "MISTRAL_API_KEY": "",
        "OLLAMA_HOST": "0.0.0.0",
    }
    options = options_from(environ)
    assert options.keys == {"openai": "sk-1"}
    assert options.base_urls == {"anthropic": "http://x", "ollama": "http://127.0.0.1:11434/v1"}
    assert "sk-1" not in repr(options)


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("127.0.0.1:9999", "http://127.0.0.1:9999/v1"),
        ("box", "http://box:11434/v1"),
        ("https://box.example", "https://box.example:443/v1"),
        ("http://box:1/", "http://box:1/v1"),
        (":8000", "http://127.0.0.1:8000/v1"),
    ],
)
def test_the_address_of_ollama_is_read_as_ollama_does(host: str, url: str) -> None:
    assert options_from({"OLLAMA_HOST": host}).base_urls["ollama"] == url


def test_an_address_said_outright_goes_before_the_host_of_ollama() -> None:
    environ = {"OLLAMA_BASE_URL": "http://box/v1", "OLLAMA_HOST": "other"}
    assert options_from(environ).base_urls == {"ollama": "http://box/v1"}


def test_a_key_goes_to_its_own_provider_alone() -> None:
    options = Options(keys={"openai": "secret"}, base_urls={"ollama": "http://127.0.0.1:5/v1"})
    endpoint = endpoint_of(Route("ollama", "m"), options)
    assert (endpoint.base_url, endpoint.key) == ("http://127.0.0.1:5/v1", "")
    assert "secret" not in repr(endpoint_of(Route("openai", "m"), options))


def test_an_address_that_is_none_is_refused() -> None:
    with pytest.raises(ConfigError, match="must begin with http"):
        endpoint_of(Route("openai", "m"), Options(base_urls={"openai": "localhost:1"}))


def test_a_server_of_ones_own_needs_no_key() -> None:
    assert endpoint_of(Route("openai", "m"), Options(base_urls={"openai": "http://box/v1"})).key == ""


def test_windows_and_pictures_are_known_of_common_models() -> None:
    assert facts_of("claude-sonnet-4-5").context_window == 200_000
    assert facts_of("openai/gpt-4o").takes_images
    assert facts_of("qwen3:8b").context_window is None


@pytest.mark.parametrize(
    "model",
    ["kimi-k2.5", "zai/glm-4.5v", "glm-4.6v", "grok-4", "my-own-model", "llama3.2-vision:11b", "qwen3-vl:8b", "gemma3"],
)
def test_images_are_sent_to_models_that_nothing_is_known_of(model: str) -> None:
    assert facts_of(model).takes_images
    assert takes(f"openai:{model}")


@pytest.mark.parametrize(
    "model", ["qwen3:8b", "llama3.1", "deepseek-chat", "gpt-3.5-turbo", "gpt-oss-120b", "glm-4.6", "kimi-k2-0905"]
)
def test_images_are_not_sent_to_models_that_are_known_to_see_nothing_unless_the_user_says_so(model: str) -> None:
    assert not takes(f"openai:{model}")
    assert takes(f"openai:{model}", images=True)


def takes(route: str, images: bool | None = None) -> bool:
    options = Options(keys={"openai": "k"}, models={route: ModelSettings(images=images)})
    return endpoint_of(parse_route(route), options).takes_images


def test_what_the_user_says_of_a_model_holds_for_that_one_alone() -> None:
    said = {"openai:mine": ModelSettings(window=5_000, images=False)}
    options = Options(keys={"openai": "k"}, models=said, context_window=7_000)
    mine, other = (endpoint_of(Route("openai", model), options) for model in ("mine", "other"))
    assert (mine.context_window, mine.takes_images) == (5_000, False)
    assert (other.context_window, other.takes_images) == (7_000, True)


@pytest.mark.parametrize(
    ("route", "imported"),
    [("demo", []), ("openai:m", ["openai"]), ("anthropic:m", ["anthropic"])],
)
def test_a_route_imports_its_own_sdk_and_no_other(route: str, imported: list[str]) -> None:
    keys = "Options(keys={'openai': 'k', 'anthropic': 'k'})"
    code = (
        "import sys; from acp_bridge.llm import open_model, Options;"
        "heavy = ('openai', 'anthropic', 'httpx', 'httpx2', 'pydantic');"
        f"assert not set(heavy) & set(sys.modules); open_model({route!r}, {keys});"
        "print(*[name for name in heavy[:2] if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.split() == imported, done.stderr


async def test_the_environment_of_the_sdks_reaches_no_other_server(monkeypatch: pytest.MonkeyPatch) -> None:
    variables = {
        "OPENAI_API_KEY": "sk-leak-1",
        "OPENAI_ADMIN_KEY": "sk-leak-2",
        "OPENAI_ORG_ID": "leak-3",
        "OPENAI_PROJECT_ID": "leak-4",
        "OPENAI_CUSTOM_HEADERS": "x-corp: leak-5",
        "OPENAI_BASE_URL": "http://127.0.0.1:9",
    }
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    async with serving([status(500)]) as server:
        model = open_model("ollama:m", Options(base_urls={"ollama": f"{server.url}/v1"}))
        await read(model)
        await model.aclose()
    (request,) = server.requests
    assert "leak" not in repr(request)


async def read(model: Model, *messages: FromUser | FromAssistant) -> list[Delta]:
    request = ModelRequest(route="r", system="", messages=messages or (FromUser((Text(text="hi"),)),))
    with anyio.fail_after(5):
        return [delta async for delta in model.stream(request)]


async def test_a_local_server_with_a_model_is_found_and_silent_ones_do_not_delay_it() -> None:
    models = {"data": [{"id": "nomic-embed-text"}, {"id": "qwen3:8b"}, {"id": "llama3"}]}
    async with serving([[STALL]]) as silent, serving([status(200, models)]) as server, serving([[CUT]]) as cut:
        urls = {"ollama": f"{silent.url}/v1", "lmstudio": f"{server.url}/v1", "llamacpp": f"{cut.url}/v1"}
        with anyio.fail_after(2):
            found = await detect_local(urls, timeout_s=0.2)
    assert found == LocalServer("lmstudio:qwen3:8b", "lmstudio", ("qwen3:8b", "llama3"))
    assert server.requests[0].path == "/v1/models"


@pytest.mark.parametrize("reply", ["<html>", {"data": []}, {"data": [3]}, ["x"], {"data": {"id": "x"}}, None])
async def test_what_is_no_model_server_is_left_alone(reply: object) -> None:
    async with serving([status(200, reply)], repeat_last=True) as server:
        urls = dict.fromkeys(LOCAL_PROVIDERS, f"{server.url}/v1")
        with anyio.fail_after(2):
            assert await detect_local(urls, timeout_s=0.5) is None


async def test_a_recording_answers_as_the_model_did(tmp_path: Path) -> None:
    pieces = [
        {"thought": "hm", "signature": "s", "form": "thinking"},
        {"text": "a"},
        {"tool": {"index": 0, "name": "f", "arguments": "{"}},
        {"tool": {"index": 0, "arguments": "}"}},
    ]
    fail = {"fail": {"kind": "rate_limit", "message": "slow", "status": 429, "retryable": True, "retry_after_s": 1.5}}
    kept = {"message": {"trace": [1]}, "calls": {"0": {"seal": "x"}}}
    script = [{"deltas": pieces, "usage": {"input_tokens": 3}, "kept": kept}, {"deltas": [{"text": "b"}, fail]}]
    recorder = Recorder(ScriptedModel(script_from(script, "x")), tmp_path)
    user, assistant = FromUser((Text(text="hi"),)), FromAssistant((Text(text="a"),))
    live = [await read(recorder, user), await read(recorder, user, assistant, user)]
    await recorder.aclose()
    replayed = open_model(f"replay:{tmp_path}")
    assert [await read(replayed, user), await read(replayed, user, assistant, user)] == live
    assert live == [
        [
            ThoughtDelta("hm", "s", "thinking"),
            TextDelta("a"),
            ToolDelta(0, "f", "{"),
            ToolDelta(0, "", "}"),
            Finished("tools", Usage(input_tokens=3), Kept({"trace": [1]}, {0: {"seal": "x"}})),
        ],
        [TextDelta("b"), Failed(Failure(kind="rate_limit", message="slow", status=429), True, 1.5)],
    ]
    assert orjson.loads((tmp_path / "0001.json").read_bytes())["request"]["last_message"] == "hi"


def test_an_empty_or_broken_recording_is_a_configuration_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no recording"):
        open_model(f"replay:{tmp_path}")
    (tmp_path / "0001.json").write_text("[")
    with pytest.raises(ConfigError, match=r"0001\.json"):
        open_model(f"replay:{tmp_path}")


def test_a_provider_that_needs_a_key_is_found_by_it_and_has_a_usual_model() -> None:
    """Three tables know of a provider, each in the layer that needs it; a new row is in all of them."""
    needed = {name: preset.key_variable for name, preset in PRESETS.items() if preset.needs_key}
    assert set(KEY_VARIABLES) == set(needed.values())
    assert set(DEFAULT_MODELS) == set(needed)

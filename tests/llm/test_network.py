"""What people set for the way to a provider: read as they meant it, or refused with the variable and the place."""

from pathlib import Path
from typing import Any

import anyio
import pytest
from support.dialects import KEY, AnthropicDialect, Dialect, OpenAIDialect
from support.server import serving, sse
from support.socks import socks_proxy

from acp_bridge.content import Text
from acp_bridge.errors import ConfigError
from acp_bridge.llm import Delta, Failed, Finished, Model, Options, Route, open_model, options_from
from acp_bridge.llm.endpoint import endpoint_of
from acp_bridge.session import FromUser, ModelRequest


@pytest.fixture(params=[OpenAIDialect(), AnthropicDialect()], ids=lambda dialect: dialect.name)
def speak(request: pytest.FixtureRequest) -> Dialect:
    return request.param


async def read(model: Model) -> list[Delta]:
    request = ModelRequest(route="r", system="", messages=(FromUser((Text(text="hi"),)),))
    with anyio.fail_after(5):
        return [delta async for delta in model.stream(request)]


def refused(environ: dict[str, str], route: str = "openai:m") -> str:
    with pytest.raises(ConfigError) as caught:
        open_model(route, options_from({"OPENAI_API_KEY": KEY, **environ}))
    assert "in the environment of the agent" in str(caught.value)
    assert KEY not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("provider", "text", "meant"),
    [
        ("anthropic", "https://h.example/v1", "https://h.example"),
        ("anthropic", "https://h.example/v1/", "https://h.example"),
        ("anthropic", "https://h.example/v1/messages", "https://h.example"),
        ("anthropic", "https://h.example//anthropic//v1", "https://h.example/anthropic"),
        ("anthropic", "https://h.example/api/v1beta", "https://h.example/api/v1beta"),
        ("openai", "https://h.example/v1", "https://h.example/v1"),
        ("openai", "https://h.example//v1//", "https://h.example/v1"),
        ("openai", " https://h.example/v1 \n", "https://h.example/v1"),
        ("openai", "\ufeffhttps://h.example/v1\u200b", "https://h.example/v1"),
        ("openai", '"https://h.example/v1"', "https://h.example/v1"),
        ("openai", "HTTPS://h.example/v1", "https://h.example/v1"),
        ("openai", "https://h.example/v1/chat/completions", "https://h.example/v1"),
        ("openai", "https://h.example/v1/chat/completions/?a=b#c", "https://h.example/v1?a=b"),
        ("openai", "https://h.example:8443/openai/deployments/d?api-version=7", None),
        ("openai", "https://api.openai.com", "https://api.openai.com/v1"),
        ("openai", "https://h.example", "https://h.example"),
        ("openrouter", "https://openrouter.ai/", "https://openrouter.ai/api/v1"),
        ("lmstudio", "http://box:1234", "http://box:1234/v1"),
        ("ollama", "http://box:11434/api", "http://box:11434/v1"),
        ("llamacpp", "http://[::1]:8080/", "http://[::1]:8080/v1"),
    ],
)
def test_an_address_is_read_as_it_was_meant(provider: str, text: str, meant: str | None) -> None:
    options = options_from({f"{provider.upper()}_BASE_URL": text})
    assert options.base_urls == {provider: meant or text}
    address, _, query = (meant or text).partition("?")
    for given in (options, Options(base_urls={provider: text})):
        endpoint = endpoint_of(Route(provider, "m"), given)
        assert endpoint.base_url == address
        assert "&".join(f"{name}={value}" for name, value in endpoint.query) == query


@pytest.mark.parametrize("end", ["", "/", "/v1", "/v1/", "//v1", "/v1/messages", "/v1/chat/completions"])
async def test_a_request_goes_to_the_same_place_however_the_address_ends(speak: Dialect, end: str) -> None:
    if speak.name == "openai" and end in ("", "/", "/v1/messages"):
        return  # its addresses hold the version
    answer = sse(*speak.start(), *speak.text("a"), *speak.end())
    async with serving([answer]) as server:
        urls = {
            speak.name: f"{server.url}{end.replace('/chat/completions', '') if speak.name != 'openai' else end}?x=1&y"
        }
        model = open_model(Route(speak.name, "m"), Options(keys={speak.name: KEY}, base_urls=urls))
        assert isinstance((await read(model))[-1], Finished)
        await model.aclose()
    assert server.requests[0].path == f"{speak.path}?x=1&y="


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("localhost:8000/v1", "must begin with http"),
        ("ftp://h/v1", "must begin with http"),
        ("https://", "no host"),
        ("https://:80/v1", "no host"),
        ("https://h:99999/v1", "out of range"),
        ("https://h:0/v1", "no host"),
        ("https://[::1/v1", "Invalid IPv6"),
        ("https://h .example/v1", "U+0020 (space) as character 10"),
        ("https://h/v1\u200b/x", "U+200B (zero width space)"),
    ],
)
def test_an_address_that_is_none_is_refused_with_its_variable(url: str, words: str) -> None:
    said = refused({"OPENAI_BASE_URL": url})
    assert "OPENAI_BASE_URL" in said
    assert words in said


@pytest.mark.parametrize("odd", ["…", "\u200b", "\n", "\r", "é", " ", "\u00a0", "\x00", "\ud83d"])
def test_a_key_that_was_spoiled_is_refused_with_its_variable_and_without_itself(odd: str) -> None:
    said = refused({"OPENAI_API_KEY": f"{KEY}{odd}{KEY}"})
    assert "OPENAI_API_KEY" in said
    assert f"U+{ord(odd):04X}" in said
    assert f"character {len(KEY) + 1} of" in said


def test_the_mistakes_of_one_provider_are_not_anothers() -> None:
    environ = {"OPENAI_API_KEY": KEY, "MISTRAL_API_KEY": "x…", "ANTHROPIC_BASE_URL": "nowhere"}
    assert endpoint_of(Route("openai", "m"), options_from(environ)).key == KEY


@pytest.mark.parametrize(
    ("variable", "value", "words"),
    [
        ("HTTPS_PROXY", "ftp://h:1", "'ftp' is no kind of proxy"),
        ("https_proxy", "socks4://h:1", "'socks4' is no kind of proxy"),
        ("ALL_PROXY", "http://", "no host"),
        ("all_proxy", "http://h:port", "port"),
        ("HTTP_PROXY", "http://h: 1", "U+0020"),
    ],
)
def test_a_proxy_that_is_none_is_refused_with_its_variable(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str, words: str
) -> None:
    monkeypatch.setenv(variable, value)
    said = refused({variable: value})
    assert variable in said
    assert words in said


def test_what_the_http_library_refuses_beyond_that_is_a_setting_that_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "ftp://h:1")
    with pytest.raises(ConfigError, match=r"openai at https://api.openai.com/v1 cannot be reached as it is set up"):
        open_model("openai:m", Options(keys={"openai": KEY}))


def test_a_password_in_an_address_is_shown_nowhere() -> None:
    for url in ("user:pass1@h/v1", "ftp://user:pass1@h/v1", "https://user:pass1@:80/v1", "https://user:pass1@h:99999"):
        assert "pass1" not in refused({"OPENAI_BASE_URL": url})
    for url in (
        "ftp://user:pass1@h:1",
        "http://user:pass1@h:port",
        "http://user:pa:pass1@:1",
        "http://user:pass1@h: 1",
    ):
        assert "pass1" not in refused({"HTTPS_PROXY": url})


def test_a_proxy_is_not_looked_at_where_none_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", "ftp://h:1")
    for more in ({"NO_PROXY": "a, *"}, {"OPENAI_BASE_URL": "http://127.0.0.1:1/v1"}):
        environ = {"ALL_PROXY": "ftp://h:1", "OPENAI_API_KEY": KEY, **more}
        endpoint_of(Route("openai", "m"), options_from(environ))


def test_certificates_that_are_not_there_are_refused_with_their_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    junk = tmp_path / "junk.pem"
    junk.write_text("no certificate")
    for variable, value in (
        ("SSL_CERT_FILE", str(tmp_path / "missing.pem")),
        ("SSL_CERT_FILE", str(tmp_path)),
        ("SSL_CERT_FILE", str(junk)),
        ("SSL_CERT_DIR", str(junk)),
        ("SSLKEYLOGFILE", str(tmp_path / "missing" / "keys.log")),
    ):
        with monkeypatch.context() as patched:
            patched.setenv(variable, value)
            assert variable in refused({variable: value})


async def test_a_socks_proxy_is_used_for_a_provider_that_is_not_on_this_machine(
    speak: Dialect, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = sse(*speak.start(), *speak.text("a"), *speak.end())
    async with serving([answer]) as server, socks_proxy(server.port) as proxy:
        monkeypatch.setenv("ALL_PROXY", f"socks5://127.0.0.1:{proxy.port}")
        url = "http://model.example" + ("/v1" if speak.name == "openai" else "")
        model = open_model(Route(speak.name, "m"), Options(keys={speak.name: KEY}, base_urls={speak.name: url}))
        assert isinstance((await read(model))[-1], Finished)
        await model.aclose()
    assert proxy.targets == ["model.example:80"]


@pytest.mark.parametrize("variable", ["HTTP_PROXY", "ALL_PROXY"])
async def test_a_proxy_that_is_not_there_is_named_where_the_provider_cannot_be_reached(
    monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.setenv(variable, "http://127.0.0.1:9")
    options = options_from({"OPENAI_BASE_URL": "http://model.example/v1", variable: "http://127.0.0.1:9"})
    model = open_model("openai:m", options)
    last: Any = (await read(model))[-1]
    await model.aclose()
    assert isinstance(last, Failed)
    assert last.failure.kind == "connection"
    assert variable in last.failure.message


@pytest.mark.parametrize("variable", ["OPENAI_ORG_ID", "OPENAI_PROJECT_ID"])
async def test_another_header_that_cannot_be_sent_is_no_defect_of_the_program(
    monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.setenv(variable, "org-…")
    async with serving([]) as server:
        model = open_model("openai:m", Options(keys={"openai": KEY}, base_urls={"openai": f"{server.url}/v1"}))
        last: Any = (await read(model))[-1]
        await model.aclose()
    assert isinstance(last, Failed)
    assert last.failure.kind == "unavailable"
    assert variable in last.failure.message

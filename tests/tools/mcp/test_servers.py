"""MCP servers as a session has them: real processes, good and bad ones."""

import contextlib
import json
import os
import sys
import time
from pathlib import Path

import anyio
import pytest

from acp_bridge.content import Text
from acp_bridge.errors import ToolError
from acp_bridge.tools import McpServers, ServerSpec, earlier_commands_ended

from ..conftest import Marked  # noqa: TID252 - tests are no package to import from
from .conftest import SERVERS, Benched, Odd, journal

pytestmark = pytest.mark.slow


TWICE = ". It was started twice and is not started any more; open the session again to have it tried anew"
BOTH = pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])


def rss() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@BOTH
async def test_a_good_server_is_offered_asked_for_drawn_and_called(bench: Benched, odd: Odd) -> None:
    async with bench(odd("good")) as it:
        assert "mcp__good__echo" in it.names
        tool = it.servers.tools["mcp__good__echo"]
        assert tool.spec.effect == "write"  # whatever its annotations say
        assert tool.spec.kind == "other"
        assert tool.spec.description == "does echo"
        assert not tool.spec.parallel
        access = tool.access({}, it.desk.workspace)
        assert access.kind == "execute"
        assert access.scope.startswith("mcp__good__echo as defined now (")
        assert tool.present({"text": 7}, it.desk.workspace).title == "good: echo"
        assert await it.text("mcp__good__echo", text="grüße, 世界 👋") == "grüße, 世界 👋"
        assert it.servers.problems == []


async def test_a_server_on_the_official_sdk_is_called(bench: Benched) -> None:
    spec = ServerSpec(name="official", command=sys.executable, args=(str(SERVERS / "official.py"),))
    async with bench(spec) as it:
        assert it.names == ["mcp__official__add"]
        assert await it.text("mcp__official__add", a=2, b=40) == "42"


async def test_what_a_server_says_of_its_tools_holds_no_secret(bench: Benched, odd: Odd) -> None:
    async with bench(odd("tells", TOKEN="token-12345")) as it:
        spec = it.servers.tools["mcp__tells__t"].spec
        assert "token-" not in str(spec)
        assert spec.schema["properties"]["as"]["description"] == "d" * 9 + "[TOKEN]"


@BOTH
async def test_bad_servers_cost_only_themselves_and_are_named_with_the_reason(bench: Benched, odd: Odd) -> None:
    told: list[tuple[str, str]] = []
    bad = ["exit", "only-junk", "hang", "old", "closes", "no-list", "orphan"]
    specs = [odd(how, TOKEN="token-12345") for how in bad]
    async with bench(
        odd("one"), odd("two"), ServerSpec(name="absent", command="no-such-command"), *specs, start_s=1.5
    ) as it:
        it.servers.on_problem(lambda server, reason: told.append((server, reason)))
        assert await it.text("mcp__one__echo", text="a") == "a"
        assert await it.text("mcp__two__echo", text="b") == "b"
        problems = dict(it.servers.problems)
        assert told == it.servers.problems
        assert len(told) == len(bad) + 3  # those that hang are told of each time
        assert problems["absent"] == "its command 'no-such-command' was not found"
        assert problems["exit"] == (  # no secret, no escape
            r"it exited with code 3: no licence found for [TOKEN] \e[2J" + TWICE
        )
        assert problems["hang"] == "it did not answer initialize within 1.5 s" + TWICE
        assert problems["only-junk"] == (
            "it did not answer initialize within 1.5 s; "
            "a line on its stdout was no JSON-RPC, the first: Usage: server [OPTIONS]" + TWICE
        )
        assert "1999-01-01" in problems["old"]
        assert problems["closes"] == "it closed its stdin or stdout" + TWICE
        assert problems["no-list"] == "it answered tools/list without a list"
        assert problems["orphan"] == "it exited with code 4" + TWICE


async def test_ready_returns_within_its_budget_while_a_server_hangs(bench: Benched, odd: Odd) -> None:
    started = time.monotonic()
    async with bench(odd("hang"), wait_s=0.2) as it:
        assert time.monotonic() - started < 1
        assert it.names == []


async def test_junk_before_a_message_is_passed_over(bench: Benched, odd: Odd) -> None:
    async with bench(odd("junk")) as it:
        assert await it.text("mcp__junk__echo", text="a") == "a"
        assert it.servers.problems == []


async def test_a_server_without_tools_is_no_problem(bench: Benched, odd: Odd) -> None:
    async with bench(odd("no-tools")) as it:
        assert (it.names, it.servers.problems) == ([], [])


async def test_floods_are_bounded_in_memory_and_leave_others_alone(bench: Benched, odd: Odd) -> None:
    async with bench(odd("good")):
        pass  # what the library itself takes is no flood's
    before = rss()
    floods = [odd("flood"), odd("long-line"), odd("flood-stderr")]
    async with bench(odd("good"), *floods, start_s=3, wait_s=1) as it:
        slowest = 0.0
        for _ in range(20):
            started = time.monotonic()
            assert await it.text("mcp__good__echo", text="a") == "a"
            slowest = max(slowest, time.monotonic() - started)
            await anyio.sleep(0.05)
        await it.servers.ready(10)
        assert {reason[:39] for _, reason in it.servers.problems} == {"it did not answer initialize within 3 s"}
        assert slowest < 1
    assert rss() - before < 100 << 20


@BOTH
async def test_a_cancelled_call_returns_at_once_and_the_server_is_told(
    bench: Benched, odd: Odd, tmp_path: Path
) -> None:
    async with bench(odd("good")) as it:
        started = time.monotonic()
        with anyio.move_on_after(0.3):
            await it.use("mcp__good__slow")
        assert time.monotonic() - started < 1
        assert await it.text("mcp__good__echo", text="next") == "next"
        said = journal(tmp_path, "good")
        call = next(message for message in said if message.get("params", {}).get("name") == "slow")
        assert call["params"]["_meta"]["acp-bridge/callKey"] == "s1:c1"
        cancelled = [message["params"] for message in said if message["method"] == "notifications/cancelled"]
        assert [params["requestId"] for params in cancelled] == [call["id"]]


async def test_a_call_that_is_not_answered_in_time_ends_and_the_server_is_told(
    bench: Benched, odd: Odd, tmp_path: Path
) -> None:
    async with bench(odd("good"), call_s=0.3) as it:
        with pytest.raises(ToolError, match=r"did not answer tools/call within 0.3 s.*may have done it") as caught:
            await it.use("mcp__good__slow")
        assert caught.value.code == "TIMED_OUT"
        assert await it.text("mcp__good__echo", text="a") == "a"
        assert [m["method"] for m in journal(tmp_path, "good")].count("notifications/cancelled") == 1


async def test_a_server_that_does_not_read_holds_up_no_cancelled_call(bench: Benched, odd: Odd) -> None:
    async with bench(odd("good")) as it:
        with anyio.move_on_after(0.1):
            await it.use("mcp__good__ask")  # from here on it waits for answers of ours
        os.kill(_pid(it.servers), 19)  # SIGSTOP: it reads nothing
        started = time.monotonic()
        for _ in range(40):
            with anyio.move_on_after(0.01), contextlib.suppress(ToolError):
                await it.use("mcp__good__echo", text="x" * 100_000)  # more than its pipe takes
        assert time.monotonic() - started < 3
        with pytest.raises(ToolError, match="does not read what it is sent"):
            await it.use("mcp__good__echo", text="y")


def _pid(servers: McpServers) -> int:
    """The process of the only server."""
    token = servers._servers[0].spec.env["MARK"]
    return next(pid for pid in Marked(token).pids() if b"odd.py" in _argv(pid) and b"_guardian" not in _argv(pid))


def _argv(pid: int) -> bytes:
    return Path(f"/proc/{pid}/cmdline").read_bytes()


async def test_results_are_read_bounded_and_named(bench: Benched, odd: Odd) -> None:
    async with bench(odd("good")) as it:
        giant = await it.text("mcp__good__giant")
        assert len(giant) < 100_000
        assert "2920000 characters left out" in giant
        failed = await it.use("mcp__good__fail")
        assert (failed.is_error, failed.code) == (True, "FAILED")
        with pytest.raises(ToolError, match=r"answered with an error \(-32602\): not like this"):
            await it.use("mcp__good__refuse")
        with pytest.raises(ToolError, match="the answer is no object"):
            await it.use("mcp__good__junk")
        assert await it.text("mcp__good__half") == "half \ufffd"
        assert json.loads(await it.text("mcp__good__data")) == {"rows": 3}
        words, _picture = (await it.use("mcp__good__pictures")).content
        assert isinstance(words, Text)
        assert words.text.splitlines() == [
            "[picture 1, below]",
            "[resource file:///a]",
            "inside",
            "[resource left out: file:///b, x/y, 3 bytes; only text and pictures are taken]",
            "[link to a resource, not its content: file:///c c]",
            "[content of the type hologram left out]",
            "[content of no known form left out]",
        ]
        with pytest.raises(ToolError, match="longer than 16 MiB and was dropped"):
            await it.use("mcp__good__endless")
        assert await it.text("mcp__good__echo", text="still there") == "still there"


async def test_a_server_is_offered_nothing_and_its_pings_are_answered(bench: Benched, odd: Odd, tmp_path: Path) -> None:
    async with bench(odd("good")) as it:
        pong, *declined = json.loads(await it.text("mcp__good__ask"))
        assert pong == {"jsonrpc": "2.0", "id": "q0", "result": {}}
        assert [answer["error"]["code"] for answer in declined] == [-32601] * 3
        hello = next(m for m in journal(tmp_path, "good") if m["method"] == "initialize")
        assert hello["params"]["capabilities"] == {}
        assert hello["params"]["clientInfo"]["name"] == "acp-bridge"


async def test_a_server_gets_its_own_variables_the_usual_ones_and_no_key(
    bench: Benched, odd: Odd, marked: Marked
) -> None:
    servers = McpServers((), env={"OPENAI_API_KEY": "k", "PATH": "/bin"}, cwd=Path("/"))
    assert servers._env == {"PATH": "/bin"}
    async with bench(odd("good", OWN="1")) as it:
        env, cwd = json.loads(await it.text("mcp__good__env"))
        assert {"PATH": marked.env["PATH"], "OWN": "1"}.items() <= env.items()
        assert cwd == str(it.desk.root)


async def test_a_list_is_cut_where_it_is_too_much_and_that_is_said(bench: Benched, odd: Odd) -> None:
    async with bench(odd("many"), odd("pages"), odd("endless-pages"), odd("bad-schemas"), odd("good")) as it:
        of = {
            name: [n for n in it.names if n.startswith(f"mcp__{name}__")] for name in ("many", "pages", "endless-pages")
        }
        assert len(of["many"]) == 64
        assert of["pages"] == [f"mcp__pages__t{n}" for n in range(4)]
        assert len(of["endless-pages"]) == 32
        assert len(it.names) <= 128
        assert all(len(tool.spec.description) <= 4000 for tool in it.servers.tools.values())
        problems = dict(it.servers.problems)
        assert problems["many"].startswith("of its 300 tools, 64 can be used: 't64' is more than there is room for")
        assert problems["endless-pages"] == "it lists more tools than are asked for; 32 can be used"
        assert problems["bad-schemas"] == (
            "of its 5 tools, 2 can be used: 'deep' has a deeper schema than a model can be given, "
            "'wide' has a longer schema than a model can be given, 'named' has parameters that models cannot be told of"
        )
        for name in ("choice", "none"):
            parameters = it.servers.tools[f"mcp__bad-schemas__{name}"].spec.schema
            assert parameters["type"] == "object"
            assert "oneOf" not in parameters


async def test_odd_names_become_ones_that_every_model_takes(bench: Benched, odd: Odd) -> None:
    async with bench(odd("odd-names", name="ö__x"), odd("good", name="ö__x")) as it:
        assert len(set(it.names)) == len(it.names)
        assert len([name for name in it.names if name.startswith("mcp__x__")]) == 7
        assert "mcp__x__a_b" in it.names
        assert "mcp__x_2__echo" in it.names
        odd_one = next(name for name in it.names if name.startswith("mcp__x__a_b_"))
        assert await it.text(odd_one) == "ran a b"


@BOTH
async def test_closing_ends_a_server_and_its_grandchild_within_a_second(
    bench: Benched, odd: Odd, marked: Marked, tmp_path: Path
) -> None:
    async with bench(odd("grandchild"), odd("stays")) as it:
        assert len(marked.pids()) >= 5  # two servers, two guards, one grandchild
        assert not await earlier_commands_ended(tmp_path / "s1.running", 0)
        started = time.monotonic()
        await it.servers.aclose()
        assert time.monotonic() - started < 1.3
        assert not marked.pids()
        assert await earlier_commands_ended(tmp_path / "s1.running", 0)
        assert it.servers.problems == []
        with pytest.raises(ToolError, match="ended with the session"):
            await it.use("mcp__stays__echo", text="a")


async def test_a_call_under_way_ends_with_its_session(bench: Benched, odd: Odd) -> None:
    async with bench(odd("good")) as it:
        async with anyio.create_task_group() as tg:

            async def call() -> None:
                with pytest.raises(ToolError, match="ended in the middle"):
                    await it.use("mcp__good__slow")

            tg.start_soon(call)
            await anyio.wait_all_tasks_blocked()
            await it.servers.aclose()


@BOTH
async def test_cancelling_the_run_ends_everything_also_while_servers_start(
    odd: Odd, marked: Marked, tmp_path: Path
) -> None:
    servers = McpServers((odd("hang"), odd("grandchild")), env=marked.env, cwd=tmp_path)
    with anyio.fail_after(5):
        with anyio.move_on_after(0.2):
            await servers.run()
        assert not marked.pids()
        await servers.ready(0)
        await servers.aclose()


async def test_closing_before_the_start_starts_nothing(odd: Odd, marked: Marked, tmp_path: Path) -> None:
    servers = McpServers((odd("good"),), env=marked.env, cwd=tmp_path)
    with anyio.fail_after(5):
        await servers.aclose()
        await servers.run()
    assert not (tmp_path / "good.journal").exists()


async def test_an_observer_that_fails_changes_nothing(bench: Benched) -> None:
    def broken(server: str, reason: str) -> None:
        raise ValueError(server)

    async with bench(ServerSpec(name="absent", command="")) as it:
        it.servers.on_problem(broken)
        assert [name for name, _ in it.servers.problems] == ["absent"]


async def test_what_can_be_no_command_is_a_problem_and_no_failure(bench: Benched, desk: object) -> None:
    specs = [
        ServerSpec(name="nul", command="a\0b"),
        ServerSpec(name="surrogate", command="true", args=("\ud800",)),
        ServerSpec(name="variable", command="true", env={"A=B": "1"}),
    ]
    async with bench(*specs) as it:
        assert sorted(name for name, _ in it.servers.problems) == ["nul", "surrogate", "variable"]

"""Servers that die, hang or come up late: started once more, said to be, and gone only for good. Real processes."""

import os
from functools import partial
from pathlib import Path

import anyio
import pytest

from acp_bridge.errors import ToolError
from acp_bridge.tools import McpServers, ServerSpec

from ..conftest import Marked  # noqa: TID252 - tests are no package to import from
from .conftest import Bench, Benched, Odd

pytestmark = pytest.mark.slow

BOTH = pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
BEING_STARTED = ". It is being started again, once; a call that was under way is not repeated"
TWICE = ". It was started twice and is not started any more; open the session again to have it tried anew"
GONE = "GONE, do not call it: "


def starts(folder: Path, name: str) -> int:
    return len((folder / f"{name}.journal.starts").read_text())


class Told:
    """What somebody is told of servers."""

    def __init__(self, servers: McpServers) -> None:
        self.problems: list[tuple[str, str]] = []
        self.news: list[tuple[str, str]] = []
        self._more = anyio.Event()
        servers.on_problem(partial(self._take, self.problems))
        servers.on_news(partial(self._take, self.news))

    def _take(self, told: list[tuple[str, str]], server: str, words: str) -> None:
        told.append((server, words))
        more, self._more = self._more, anyio.Event()
        more.set()

    async def until(self, told: list[tuple[str, str]], count: int) -> None:
        while len(told) < count:
            await self._more.wait()


def description(it: Bench, name: str) -> str:
    return it.servers.tools[name].spec.description


@BOTH
async def test_a_server_that_dies_in_a_call_is_started_again_and_the_call_is_not_repeated(
    bench: Benched, odd: Odd, tmp_path: Path
) -> None:
    async with bench(odd("one"), odd("two")) as it:
        told, offered = Told(it.servers), dict(it.servers.tools)
        with pytest.raises(
            ToolError, match=r"(?s)'one' ended in the middle.*code 7: out of luck. .*not known: look.*started again"
        ) as caught:
            await it.use("mcp__one__die")
        assert caught.value.code == "ABORTED"
        assert await it.text("mcp__one__echo", text="a") == "a"  # it waits for the start
        assert told.problems == [("one", "it exited with code 7: out of luck" + BEING_STARTED)]
        assert told.news == [("one", "It was started again and can be called")]
        assert dict(it.servers.tools) == offered  # nothing changes for a model, and no grant is void
        assert starts(tmp_path, "one") == 2
        said = (tmp_path / "one.journal").read_text()
        assert said.count('"name":"die"') == 1


@BOTH
async def test_a_server_that_dies_twice_is_told_of_and_its_tools_are_shown_as_gone(
    bench: Benched, odd: Odd, tmp_path: Path
) -> None:
    async with bench(odd("one"), odd("two")) as it:
        before = it.names
        with pytest.raises(ToolError, match="in the middle"):
            await it.use("mcp__one__die")
        with pytest.raises(ToolError, match="in the middle") as caught:
            await it.use("mcp__one__die")
        assert "cannot be called any more: go on without them" in str(caught.value)
        assert it.servers.problems[1] == ("one", "it exited with code 7: out of luck" + TWICE)
        assert it.names == before
        gone = it.servers.tools["mcp__one__echo"]
        assert gone.spec.description == GONE + "the MCP server 'one' ended and is not started any more."
        with pytest.raises(ToolError, match=r"It was not run: .*ended.*code 7: out of luck. Go on without") as caught:
            gone.check({"text": "a"})  # so nobody is asked, and nothing is logged as begun
        assert caught.value.code == "UNKNOWN_TOOL"
        assert gone.present({}, it.desk.workspace).title == "one: echo"
        assert await it.text("mcp__two__echo", text="a") == "a"
        assert starts(tmp_path, "one") == 2


@pytest.mark.parametrize("how", ["killed", "closes its pipe"])
async def test_a_server_that_ends_between_calls_is_started_again(
    bench: Benched, odd: Odd, marked: Marked, how: str
) -> None:
    async with bench(odd("one")) as it:
        told = Told(it.servers)
        if how == "killed":
            for pid in marked.pids():
                if b"_guardian" not in Path(f"/proc/{pid}/cmdline").read_bytes():
                    os.kill(pid, 9)
        else:
            with anyio.move_on_after(0.1):
                await it.use("mcp__one__close")
        await told.until(told.problems, 1)
        assert await it.text("mcp__one__echo", text="a") == "a"
        words = "ended by signal 9" if how == "killed" else "closed its stdin or stdout"
        assert words + BEING_STARTED in told.problems[0][1]


async def test_what_a_server_offers_otherwise_after_a_restart_hurts_only_its_own_tools(
    bench: Benched, odd: Odd, tmp_path: Path
) -> None:
    async with bench(odd("liar"), odd("good")) as it:
        told, before = Told(it.servers), dict(it.servers.tools)
        with pytest.raises(ToolError, match="in the middle"):
            await it.use("mcp__liar__die")
        await told.until(told.news, 1)
        [(_, words)] = told.news
        assert words.startswith("It was started again and can be called. Its tools are not what they were (")
        assert words.endswith("(gone: 'dropped'; new: 'new'; defined anew: 'twisted')")
        assert it.servers.problems[1:] == [("liar", "of its 5 tools, 4 can be used: 'twisted' is listed twice")]
        assert description(it, "mcp__liar__dropped").startswith(GONE + "the MCP server 'liar' was started again and")
        now = dict(it.servers.tools)
        assert now["mcp__liar__kept"] is before["mcp__liar__kept"]
        assert await it.text("mcp__liar__new") == "ran new"
        scopes = [tools["mcp__liar__twisted"].access({}, it.desk.workspace).scope for tools in (before, now)]
        assert scopes[0] != scopes[1]
        it.servers = _as(before)
        with pytest.raises(ToolError, match="was started again, and this tool is gone or is defined in another way"):
            await it.use("mcp__liar__twisted")  # as a model asked for it, and a person allowed it, before
        assert await it.text("mcp__good__echo", text="a") == "a"
        assert '"twisted"' not in (tmp_path / "liar.journal").read_text()


def _as(tools: object) -> McpServers:
    class Then:
        pass

    then: object = Then()
    then.tools = tools  # type: ignore[attr-defined]
    return then  # type: ignore[return-value]


async def test_a_server_that_fails_at_its_first_start_only_is_simply_there(
    bench: Benched, odd: Odd, tmp_path: Path
) -> None:
    async with bench(odd("exits-first"), odd("hangs-first"), start_s=1.5) as it:
        assert it.servers.problems == [
            ("hangs-first", "it did not answer initialize within 1.5 s. It is being started again, once")
        ]
        for name in ("exits-first", "hangs-first"):
            assert await it.text(f"mcp__{name}__echo", text="a") == "a"
            assert starts(tmp_path, name) == 2


async def test_what_cannot_be_executed_is_named_and_not_tried_twice(bench: Benched, odd: Odd, tmp_path: Path) -> None:
    plain, text = tmp_path / "plain", tmp_path / "text"
    plain.write_text("#!/bin/sh\n")
    text.write_text("no program")
    text.chmod(0o755)
    specs = [
        ServerSpec(name=name, command=command)
        for name, command in {
            "absent": "no-such-command",
            "plain": str(plain),
            "folder": str(tmp_path),
            "text": str(text),
            "bare": "",
        }.items()
    ]
    async with bench(*specs, odd("old")) as it:
        problems = dict(it.servers.problems)
        assert len(it.servers.problems) == len(specs) + 1
        assert problems["absent"] == "its command 'no-such-command' was not found"
        for name, path in {"plain": plain, "folder": tmp_path}.items():
            assert (
                problems[name] == f"its command '{path}' may not be executed: it is a folder, or lacks the permission"
            )
        assert problems["text"] == f"its command '{text}' cannot be executed: exec format error"
        assert "1999-01-01" in problems["old"]
        assert starts(tmp_path, "old") == 1


@BOTH
async def test_a_server_that_is_waited_for_is_named_and_news_once_it_is_there(
    bench: Benched, odd: Odd, tmp_path: Path
) -> None:
    async with bench(odd("late"), odd("good"), wait_s=0) as it:
        told = Told(it.servers)
        assert it.servers.late() == ["late", "good"]
        it.servers.go_on_without_late()
        await told.until(told.news, 1)
        assert it.servers.late() == ["late"]
        (tmp_path / "late.journal.go").touch()
        await it.servers.ready(10)
        there = "It is there now; its tools are offered from the next request on"
        assert told.news == [("good", there), ("late", there)]
        assert await it.text("mcp__late__echo", text="a") == "a"


async def test_a_call_that_waits_for_a_restart_is_cancelled_at_once_and_ends_with_the_session(
    bench: Benched, odd: Odd
) -> None:
    async with bench(odd("hangs-second", "one")) as it:
        with pytest.raises(ToolError, match="in the middle"):
            await it.use("mcp__one__die")
        with anyio.move_on_after(0) as scope:
            await it.use("mcp__one__echo", text="a")
        assert scope.cancelled_caught
        async with anyio.create_task_group() as tg:

            async def call() -> None:
                with pytest.raises(ToolError, match=r"It was not run: .* ended with the session"):
                    await it.use("mcp__one__echo", text="a")

            tg.start_soon(call)
            await anyio.wait_all_tasks_blocked()
            await it.servers.aclose()

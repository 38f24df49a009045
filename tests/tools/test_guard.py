"""Commands under guard, by real processes. S7."""

import os
import resource
import signal
import time
from pathlib import Path
from typing import Any

import anyio
import pytest
from support.loops import TRIO_WHEN_SLOW

from acp_bridge.content import Text
from acp_bridge.errors import ToolError
from acp_bridge.tools import Ended, GuardedCommands, child, earlier_commands_ended
from acp_bridge.tools.unattended import UNATTENDED

from .conftest import Desk, Marked

SPAWN_ALL_SORTS = """
setsid sh -c 'trap "" TERM INT HUP; while :; do sleep 0.2; done' >/dev/null 2>&1 &
(setsid setsid sleep 1000 >/dev/null 2>&1 & )
(sh -c 'sleep 1000 & sleep 1000 &' &)
sh -c 'kill -STOP $$' &
"""
"""A TERM-ignorer in a session of its own, double forks, orphans, and a stopped process."""

BOTH = pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])


@pytest.fixture
def anyio_backend() -> str:
    """One loop, unless a test says `BOTH`: what is tested here is mostly in other processes."""
    return "asyncio"


async def run(commands: GuardedCommands, command: str, cwd: Path, timeout_s: float = 10, **more: Any) -> Ended:
    with anyio.fail_after(15):
        return await commands.run(
            command,
            cwd=cwd,
            timeout_s=timeout_s,
            name=more.get("name", "c1"),
            progress=more.get("progress", lambda output: None),
        )


def rss() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.parametrize(
    ("command", "ended"),
    [
        ("echo out; echo err >&2", Ended(code=0, output="out\nerr\n")),
        ("exit 3", Ended(code=3, output="")),
        ("kill -9 $$", Ended(code=137, output="")),
        ("cat", Ended(code=0, output="")),
        ("readlink /proc/self/fd/0", Ended(code=0, output="/dev/null\n")),
        ("printf 'a\\377b'", Ended(code=0, output="a\ufffdb")),
        ("echo 'it''s'; echo \"$0\"", Ended(code=0, output="its\n/bin/sh\n")),
        ("sleep 0.05 & wait", Ended(code=0, output="")),
    ],
)
async def test_a_command_ends_with_its_code_and_output(
    commands: GuardedCommands, tmp_path: Path, command: str, ended: Ended
) -> None:
    assert await run(commands, command, tmp_path) == ended


async def test_a_command_runs_in_its_folder_and_not_this_process(commands: GuardedCommands, desk: Desk) -> None:
    before = os.getcwd()
    assert (await run(commands, "pwd", desk.root)).output == f"{desk.root}\n"
    assert os.getcwd() == before


async def test_a_command_gets_listed_variables_and_no_key(tmp_path: Path) -> None:
    env = {
        "PATH": os.environ["PATH"],
        "LC_TIME": "C",
        "HOME": "/h",
        "OPENAI_API_KEY": "sk-1",
        "ANTHROPIC_API_KEY": "sk-2",
        "ACP_BRIDGE_HOME": "/x",
        "LD_PRELOAD": "",
        "EXTRA": "e",
    }
    commands = GuardedCommands(env, ("EXTRA",))
    names = {line.partition("=")[0] for line in (await run(commands, "env", tmp_path)).output.splitlines()}
    assert names - {"PWD", "OLDPWD", "SHLVL", "_", *UNATTENDED} == {"PATH", "LC_TIME", "HOME", "EXTRA"}
    parents = (await run(commands, "cat /proc/$PPID/environ", tmp_path)).output
    assert "sk-" not in parents


async def test_a_command_inherits_no_descriptor_and_default_signals(commands: GuardedCommands, tmp_path: Path) -> None:
    fd = os.open(tmp_path, os.O_RDONLY)
    os.set_inheritable(fd, True)
    try:
        output = (
            await run(commands, "ls /proc/$$/fd; grep -E '^Sig(Ign|Blk)|NoNewPrivs' /proc/self/status", tmp_path)
        ).output
    finally:
        os.close(fd)
    numbers, facts = output.split("Sig", 1)
    assert [n for n in numbers.split() if int(n) <= 2] == ["0", "1", "2"]
    assert not [n for n in numbers.split() if 2 < int(n) < 10]  # dash keeps its own copy of something at 10
    assert facts.split() == ["Blk:", "0" * 16, "SigIgn:", "0" * 16, "NoNewPrivs:", "1"]


@BOTH
async def test_a_job_that_holds_the_pipe_does_not_hold_the_command(
    commands: GuardedCommands, marked: Marked, tmp_path: Path
) -> None:
    started = time.monotonic()
    ended = await run(commands, "sleep 1000 & echo started", tmp_path)
    assert time.monotonic() - started < 1
    assert ended == Ended(code=0, output="started\n", left_running=1)
    assert marked.pids()  # it lives …
    with anyio.fail_after(5):
        await commands.aclose()
    assert marked.all_gone_within(0.5)  # … until the session closes


async def test_a_job_that_goes_on_writing_is_not_stopped_by_its_pipe(commands: GuardedCommands, tmp_path: Path) -> None:
    ended = await run(commands, "(sleep 0.5; head -c 300000 /dev/zero; touch done) & echo x", tmp_path)
    assert ended.left_running
    with anyio.fail_after(5):
        while not (tmp_path / "done").exists():  # noqa: ASYNC110 - another process makes it
            await anyio.sleep(0.02)


async def test_a_job_that_floods_does_not_hold_the_command(commands: GuardedCommands, tmp_path: Path) -> None:
    started = time.monotonic()
    assert (await run(commands, "yes & sleep 0.2", tmp_path)).left_running == 1
    assert time.monotonic() - started < 2


async def test_all_that_a_command_started_ends_with_its_session(
    commands: GuardedCommands, marked: Marked, tmp_path: Path
) -> None:
    assert (await run(commands, SPAWN_ALL_SORTS, tmp_path)).left_running >= 5
    assert len(marked.pids()) >= 6
    with anyio.fail_after(3):
        await commands.aclose()
    assert marked.all_gone_within(0.1)


@BOTH
async def test_a_cancelled_command_has_ended_with_its_tree_before_the_cancel_passes(
    commands: GuardedCommands, marked: Marked, tmp_path: Path
) -> None:
    gone: list[bool] = []
    with anyio.fail_after(10):
        async with anyio.create_task_group() as tg:

            async def cancelled() -> None:
                try:
                    await run(commands, f"{SPAWN_ALL_SORTS}\ntouch ready; sleep 1000", tmp_path, 1000)
                finally:
                    gone.append(not marked.pids())

            tg.start_soon(cancelled)
            while not (tmp_path / "ready").exists():  # noqa: ASYNC110 - likewise
                await anyio.sleep(0.01)
            assert marked.pids()
            tg.cancel_scope.cancel()
    assert gone == [True]


async def test_a_shell_that_is_ended_does_not_go_on_when_what_it_waits_for_has_ended(
    commands: GuardedCommands, tmp_path: Path
) -> None:
    waiting = "mkfifo p; sleep 60 > p & for i in $(seq 300); do sleep 60 & done; (read x < p; : > went-on) & wait"
    ended = await run(commands, waiting, tmp_path, 0.7)
    assert ended.code is None
    assert not (tmp_path / "went-on").exists()


@BOTH
@pytest.mark.parametrize("after_s", [0, 0.001, 0.003, 0.006, 0.01, 0.015, 0.02, 0.03])
async def test_a_cancel_at_any_moment_leaves_nothing(
    commands: GuardedCommands, marked: Marked, tmp_path: Path, after_s: float
) -> None:
    before = len(os.listdir("/proc/self/fd"))
    with anyio.move_on_after(after_s):
        await run(commands, "sleep 1000", tmp_path)
    assert not marked.pids()
    assert len(os.listdir("/proc/self/fd")) <= before + 1  # the first thread's event descriptor may have come


@BOTH
async def test_a_time_limit_ends_the_tree_and_keeps_the_output(
    commands: GuardedCommands, marked: Marked, tmp_path: Path
) -> None:
    ended = await run(commands, f"echo before; {SPAWN_ALL_SORTS}\nsleep 1000", tmp_path, 0.4)
    assert (ended.code, ended.left_running) == (None, 0)
    assert ended.output.startswith("before\n")
    assert not marked.pids()


async def test_a_polite_program_may_say_goodbye(commands: GuardedCommands, tmp_path: Path) -> None:
    ended = await run(commands, "trap 'sleep 0.1; echo bye; exit' TERM; while :; do sleep 0.02; done", tmp_path, 0.3)
    assert ended.code is None
    assert ended.output.endswith("bye\n")


@TRIO_WHEN_SLOW
async def test_a_flood_is_bounded_in_memory_and_told_ten_times_a_second(
    commands: GuardedCommands, tmp_path: Path
) -> None:
    told: list[int] = []
    await run(commands, "true", tmp_path)
    before = rss()
    ended = await run(commands, "yes", tmp_path, 0.8, progress=lambda output: told.append(len(output)))
    assert rss() - before < 32 * 1024 * 1024
    assert ended.cut > 1_000_000
    assert len(ended.output) < 70_000
    assert f"\n[… {ended.cut} bytes left out …]\n" in ended.output
    assert 3 <= len(told) <= 9
    assert max(told) < 70_000
    assert ended.spilled is not None
    assert ended.spilled == tmp_path / "sessions" / "s1" / "c1.txt"
    assert ended.spilled.stat().st_size <= 64 * 1024 * 1024
    assert ended.spilled.stat().st_mode & 0o777 == 0o600


async def test_what_is_left_out_is_whole_in_the_spilled_file(commands: GuardedCommands, tmp_path: Path) -> None:
    ended = await run(commands, "seq 1 40000; printf Ende", tmp_path, name="../c/1")
    whole = "".join(f"{n}\n" for n in range(1, 40001)) + "Ende"
    assert ended.spilled is not None
    assert ended.spilled.parent == tmp_path / "sessions" / "s1"
    assert ended.spilled.read_text() == whole
    head, _, tail = ended.output.partition(f"\n[… {ended.cut} bytes left out …]\n")
    assert whole.startswith(head)
    assert whole.endswith(tail)
    assert len(head) + len(tail) + ended.cut == len(whole)


async def test_output_that_fits_is_spilled_nowhere(commands: GuardedCommands, tmp_path: Path) -> None:
    ended = await run(commands, "head -c 65536 /dev/zero", tmp_path)
    assert (len(ended.output), ended.cut, ended.spilled) == (65536, 0, None)


async def test_a_cut_inside_a_character_shows_no_damage(commands: GuardedCommands, tmp_path: Path) -> None:
    ended = await run(commands, "printf x; for i in $(seq 20000); do printf ääääää; done", tmp_path)
    assert ended.cut
    assert "\ufffd" not in ended.output


async def test_a_spill_that_fails_costs_only_the_file(marked: Marked, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    commands = GuardedCommands(marked.env, spill=tmp_path / "file" / "s1")
    ended = await run(commands, "seq 1 40000", tmp_path)
    assert ended.cut
    assert ended.spilled is None


@pytest.mark.parametrize(
    ("command", "cwd"), [("true", "nowhere"), ("true", "file"), ("a\0b", "."), ("echo " + "x" * 200_000, ".")]
)
async def test_what_cannot_be_started_is_said_to_be(
    commands: GuardedCommands, tmp_path: Path, command: str, cwd: str
) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ToolError, match="could not be started: "):
        await run(commands, command, tmp_path / cwd)


@BOTH
async def test_without_descriptors_left_a_command_fails_and_does_not_hang(
    commands: GuardedCommands, marked: Marked, tmp_path: Path
) -> None:
    await run(commands, "true", tmp_path)
    old = resource.getrlimit(resource.RLIMIT_NOFILE)
    top = max(map(int, os.listdir("/proc/self/fd")))
    for room in range(1, 8):
        resource.setrlimit(resource.RLIMIT_NOFILE, (top + room, old[1]))
        try:
            await run(commands, "exit 3", tmp_path)
        except ToolError as exc:
            assert "too many open files" in str(exc)  # noqa: PT017 - either outcome is right, hanging is not
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, old)
    assert not marked.pids()
    assert (await run(commands, "exit 3", tmp_path)).code == 3


async def test_a_command_that_kills_its_guard_is_told_and_ended(
    commands: GuardedCommands, marked: Marked, tmp_path: Path
) -> None:
    with pytest.raises(ToolError, match="guard was killed"):
        await run(commands, "kill -9 $PPID; sleep 1000", tmp_path)
    assert marked.all_gone_within(1)


async def test_a_guard_that_is_stopped_does_not_hold_the_session(
    commands: GuardedCommands, marked: Marked, tmp_path: Path
) -> None:
    started = time.monotonic()
    ended = await run(commands, "kill -STOP $PPID; sleep 1000", tmp_path, 0.2)
    assert ended.code is None
    assert time.monotonic() - started < 5
    assert marked.all_gone_within(1)


@pytest.mark.parametrize(
    ("there", "instead"), [('sys.platform.startswith("linux")', "False"), ("import _ctypes ", "import _no_ctypes ")]
)
async def test_without_a_reaper_a_tree_is_found_by_its_process_group(
    commands: GuardedCommands, marked: Marked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, there: str, instead: str
) -> None:
    """What macOS has: no `/proc`, no subreaper. And a Python that cannot ask for one."""
    script = Path(child.__file__).with_name("_guardian.py").read_text()
    assert there in script
    (tmp_path / "guardian.py").write_text(script.replace(there, instead))
    monkeypatch.setattr(child, "_GUARDIAN", str(tmp_path / "guardian.py"))
    assert await run(commands, "echo x; exit 3", tmp_path) == Ended(code=3, output="x\n")
    assert (await run(commands, "(sleep 1000 &); sleep 1000 & true", tmp_path)).left_running == 2
    assert (await run(commands, "(trap '' TERM; sleep 1000 & sleep 1000)", tmp_path, 0.2)).code is None
    with anyio.fail_after(3):
        await commands.aclose()
    assert not marked.pids()


@BOTH
async def test_children_of_this_process_are_left_alone(commands: GuardedCommands, tmp_path: Path) -> None:
    """A flood of SIGCHLD, and children that are not the guard's, change nothing."""
    async with anyio.create_task_group() as tg:

        async def one(n: int) -> None:
            assert (await run(commands, f"for i in $(seq 50); do true & done; exit {n}", tmp_path)).code == n

        for n in range(8):
            tg.start_soon(one, n)
        os.kill(os.getpid(), signal.SIGCHLD)


async def test_whether_earlier_commands_ended_is_known_by_their_lock(commands: GuardedCommands, tmp_path: Path) -> None:
    running = tmp_path / "s1.running"
    assert await earlier_commands_ended(running, 0)  # there never was one
    await run(commands, "true", tmp_path)
    assert await earlier_commands_ended(running, 0.5)
    await run(commands, "sleep 1000 &", tmp_path)
    assert not await earlier_commands_ended(running, 0.1)
    assert (await run(commands, "true", tmp_path)).code == 0  # many may hold it
    await commands.aclose()
    assert await earlier_commands_ended(running, 0)


async def test_the_model_is_told_what_output_does_not_show(desk: Desk, commands: GuardedCommands) -> None:
    with anyio.fail_after(10):
        output = await desk.use("run_command", commands=commands, command="echo x; sleep 1000 & exit 4")
        assert output.content == (
            Text(
                text="x\n[exit code 4]\n[1 of its processes still running in the background, until the session closes]"
            ),
        )
        assert (output.is_error, output.code) == (True, "FAILED")
        output = await desk.use("run_command", commands=commands, command="sleep 1000", timeout_s=0.1)
        assert (output.is_error, output.code) == (True, "TIMED_OUT")
        output = await desk.use("run_command", commands=commands, command="true")
        assert (output.content, output.is_error) == ((Text(text="[no output]"),), False)


async def test_a_whole_output_can_be_read_by_the_model(desk: Desk, commands: GuardedCommands) -> None:
    with anyio.fail_after(10):
        output = await desk.use("run_command", commands=commands, command="seq 1 40000", call_id="c7")
        (text,) = output.content
        assert isinstance(text, Text)
        path = text.text.rpartition(" all of it in ")[2].rstrip("]")
        assert (await desk.text("read_file", path=path, offset=20000, limit=1)).startswith("20000\n")

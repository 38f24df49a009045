"""`acp-bridge demo`: a tour that needs no key. A real agent edits a file, is killed in the middle of a tool, goes on.

Owns the plot and its words. What it shows is read from the protocol and from the session's log, and nothing is staged
but the model, which is the built-in one.
"""

import os
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import anyio
from rich.console import Console
from rich.markup import escape

from acp_bridge.content import Text
from acp_bridge.errors import ConfigError
from acp_bridge.session import Record, ToolResult
from acp_bridge.storage import JsonlStore
from acp_bridge.testing import Client, running_agent

PROJECT = {
    "greeting.py": """\
import time

GREETING = "hello"

if __name__ == "__main__":
    with open("greetings.log", "a") as log:  # an effect outside the process, which must not happen twice
        print(GREETING, file=log)
    time.sleep(60)  # time enough to pull the plug
"""
}
PROMPT = "Make greeting.py more polite, then try it."
_LIMIT_S = 60.0


def main(argv: list[str]) -> int:
    """Run the tour; 0 if all it shows came out as it should.

    Raises:
        ConfigError: it was given an argument.
    """
    if argv:
        raise ConfigError(f"demo takes no argument {argv[0]!r}")
    return anyio.run(_tour, Console(highlight=False))


async def _tour(console: Console) -> int:
    with tempfile.TemporaryDirectory(prefix="acp-bridge-demo-") as folder:
        project, home = Path(folder, "project"), Path(folder, "home")
        _lay_out(project)
        env = {**os.environ, "ACP_BRIDGE_HOME": str(home), "ACP_BRIDGE_MODEL": "demo", "ACP_BRIDGE_MODE": "ask"}
        with anyio.fail_after(_LIMIT_S):
            session_id = await _work_until_killed(console, project, env)
            again = await _start_again(console, project, env, session_id, home)
    if not again:
        console.print("[red]Something is not as it should be; the lines above say what.[/red]")
        return 1
    console.print("\n[bold]Nothing was lost, and nothing ran twice.[/bold] Next: [cyan]acp-bridge --help[/cyan]")
    return 0


def _lay_out(project: Path) -> None:
    project.mkdir()
    for name, text in PROJECT.items():
        (project / name).write_text(text)


async def _work_until_killed(console: Console, project: Path, env: Mapping[str, str]) -> str:
    """Start an agent, let it edit and run, and kill it once the command has done what cannot be undone."""
    console.rule("1  An agent at work")
    log = project / "greetings.log"
    async with running_agent(env=env) as client:
        client.on_update = lambda params: _show(console, params["update"])
        hello = await client.initialize()
        console.print(f"[dim]started[/dim] {hello['agentInfo']['title']} {hello['agentInfo']['version']}, over ACP")
        session_id = await client.new_session(str(project))
        console.print(f"[green]you[/green]    {PROMPT}")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_prompt_until_killed, client, session_id)
            while not (log.exists() and log.read_text().endswith("\n")):  # noqa: ASYNC110  no event comes from a file
                await anyio.sleep(0.02)
            client.kill()  # not before the line is there: the tour is about an effect that cannot be taken back
            tasks.cancel_scope.cancel()
    console.print("\n[red]kill -9[/red] while the command runs, as an editor does when its window closes")
    return session_id


async def _prompt_until_killed(client: Client, session_id: str) -> None:
    await client.prompt(session_id, PROMPT)


async def _start_again(console: Console, project: Path, env: Mapping[str, str], session_id: str, home: Path) -> bool:
    """Start another agent, load the session, go on, and check the one effect against the log."""
    console.rule("2  Another agent takes the session up")
    async with running_agent(env=env) as client:
        client.on_update = lambda params: _show(console, params["update"])
        await client.initialize()
        await client.request("session/load", {"sessionId": session_id, "cwd": str(project), "mcpServers": []})
        console.print()
        records = (await JsonlStore(home / "sessions").read(session_id)).records
        console.rule("3  What the model is told of the command")
        told = [block for block in _repair_notes(records) if isinstance(block, Text)]
        for block in told:
            console.print(f"[yellow]{escape(block.text)}[/yellow]")
        console.print()
        console.rule("4  Going on, because you asked")
        console.print("[green]you[/green]    /continue")
        ended = await client.prompt(session_id, "/continue")
    console.print()
    times = (project / "greetings.log").read_text().count("\n")
    console.rule("5  The figures")
    console.print(f"greeting.py   {escape((project / 'greeting.py').read_text().splitlines()[2])}")
    console.print(f"the command   was begun {'once' if times == 1 else f'{times} times'}, by the line it left behind")
    console.print(f"the log       {len(records)} records, every one whole")
    return times == 1 and bool(told) and ended["stopReason"] == "end_turn"


def _repair_notes(records: Iterable[Record]) -> list[Any]:
    return [
        block
        for record in records
        if isinstance(record.event, ToolResult) and record.synthetic
        for block in record.event.content
    ]


def _show(console: Console, update: Mapping[str, Any]) -> None:
    match update:
        case {"sessionUpdate": "tool_call", "title": title, "status": status, **rest}:
            console.print(
                f"\n[blue]tool[/blue]   {escape(title)} [dim]{status}[/dim]", end="" if status == "pending" else "\n"
            )
            _show_content(console, rest.get("content", ()))
        case {"sessionUpdate": "tool_call_update", "status": str() as status, **rest}:
            console.print(f" [dim]→ {status}[/dim]", end="" if status == "in_progress" else "\n")
            _show_content(console, rest.get("content", ()))
        case {"sessionUpdate": "agent_message_chunk", "content": {"text": text}}:
            console.print(escape(text), end="", style="white")
        case {"sessionUpdate": "user_message_chunk", "content": {"text": text}}:
            console.print(f"[green]you[/green]    {escape(text)}")
        case _:
            pass
    sys.stdout.flush()


def _show_content(console: Console, content: Iterable[Mapping[str, Any]]) -> None:
    for item in content:
        match item:
            case {"type": "diff", "oldText": old, "newText": new}:
                gone, come = set(old.splitlines()), set(new.splitlines())
                for line in old.splitlines():
                    if line not in come:
                        console.print(f"       [red]- {escape(line)}[/red]")
                for line in new.splitlines():
                    if line not in gone:
                        console.print(f"       [green]+ {escape(line)}[/green]")
            case {"type": "content", "content": {"text": text}} if "\n" not in text.strip():
                console.print(f" [dim]{escape(text)}[/dim]")
            case _:
                pass

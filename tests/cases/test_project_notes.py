"""A project's notes for agents are read by the rules of reading: a link in a checkout leads nobody to a key."""

import os
from collections.abc import Iterable
from pathlib import Path

import anyio
import pytest

from acp_bridge.agent import workspace_of
from acp_bridge.agent.instructions import Notes, project_notes
from acp_bridge.config import load
from acp_bridge.headless import open_runtime
from acp_bridge.limits import NOTES, TEXT_FILE
from acp_bridge.redaction import Secrets
from acp_bridge.session import Place, RequestHeader

KEY = "sk-0123456789abcdef"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "id_ed25519").write_text(f"PRIVATE {KEY}\n")
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


async def notes_of(*roots: Path, secrets: Iterable[tuple[str, str]] = (), protected: tuple[Path, ...] = ()) -> Notes:
    place = Place(cwd=str(roots[0]), roots=tuple(map(str, roots)))
    with anyio.fail_after(5):
        return await project_notes(workspace_of(place, protected=protected), Secrets(dict(secrets)))


@pytest.mark.parametrize("name", ["AGENTS.md", "CLAUDE.md"])
@pytest.mark.parametrize(
    "target",
    ["/proc/self/environ", "../outside/id_ed25519", "/etc/passwd", "../outside", "/dev/zero", ".git/config", "gone"],
)
async def test_notes_that_lead_elsewhere_are_left_out_and_named(project: Path, name: str, target: str) -> None:
    (project / ".git").mkdir()
    (project / ".git" / "config").write_text(f"token = {KEY}\n")
    (project / name).symlink_to(target)
    notes = await notes_of(project)
    assert notes.text == ""
    if target == "gone":  # inside the project, and nothing is there
        assert notes.left_out == ()
    else:
        [said] = notes.left_out
        assert said.startswith(f"{project / name}: ")
        assert KEY not in said


async def test_a_folder_on_the_way_that_is_a_link_leads_nowhere_else(project: Path, tmp_path: Path) -> None:
    (tmp_path / "outside" / "AGENTS.md").write_text("not of this project")
    (project / "docs").symlink_to(tmp_path / "outside")
    (project / "AGENTS.md").symlink_to("docs/AGENTS.md")
    notes = await notes_of(project)
    assert notes.text == ""
    assert "outside the project" in notes.left_out[0]


async def test_a_link_within_the_project_is_followed(project: Path) -> None:
    (project / "docs").mkdir()
    (project / "docs" / "agents.md").write_text("Be kind.")
    (project / "AGENTS.md").symlink_to("docs/agents.md")
    assert await notes_of(project) == Notes(f"From {project / 'AGENTS.md'}:\n\nBe kind.")


async def test_notes_that_are_left_out_do_not_hide_the_ones_beside_them(project: Path) -> None:
    (project / "AGENTS.md").symlink_to("/proc/self/environ")
    (project / "CLAUDE.md").write_text("Be kind.")
    notes = await notes_of(project)
    assert "Be kind." in notes.text
    assert len(notes.left_out) == 1


async def test_a_pipe_a_folder_and_bytes_that_are_no_text_are_left_out(project: Path, tmp_path: Path) -> None:
    other, third = tmp_path / "other", tmp_path / "third"
    for root in (other, third):
        root.mkdir()
    os.mkfifo(project / "AGENTS.md")
    (other / "AGENTS.md").mkdir()
    (third / "AGENTS.md").write_bytes(b"caf\xe9")
    notes = await notes_of(project, other, third)
    assert notes.text == ""
    assert ["no regular file" in notes.left_out[0], "folder" in notes.left_out[1], "UTF-8" in notes.left_out[2]] == [
        True
    ] * 3


async def test_what_asks_always_is_no_instruction(project: Path) -> None:
    (project / "own").mkdir()
    (project / "own" / "config.toml").write_text(f"key = '{KEY}'\n")
    (project / "AGENTS.md").symlink_to("own/config.toml")
    notes = await notes_of(project, protected=(project / "own",))
    assert notes.text == ""
    assert "only after asking" in notes.left_out[0]


async def test_a_secret_in_notes_is_hidden_before_they_are_cut(project: Path) -> None:
    (project / "AGENTS.md").write_text("x" * (NOTES - 5) + KEY)
    notes = await notes_of(project, secrets=[("OPENAI_API_KEY", KEY)])
    assert KEY[:5] not in notes.text
    assert "[OPEN" in notes.text


async def test_notes_up_to_the_bound_are_whole_and_longer_ones_say_so(project: Path) -> None:
    (project / "AGENTS.md").write_text("x" * NOTES)
    assert "cut here" not in (await notes_of(project)).text
    (project / "AGENTS.md").write_text("x" * (NOTES + 1))
    assert (await notes_of(project)).text.endswith("x\n[cut here: the notes are longer]")
    (project / "AGENTS.md").write_text("x" * (TEXT_FILE + 1))
    assert "larger than" in (await notes_of(project)).left_out[0]


async def test_the_name_of_a_file_hides_nothing_from_whoever_reads_of_it(tmp_path: Path) -> None:
    odd = tmp_path / "odd\u202e\x1b[2Jname"
    odd.mkdir()
    (odd / "AGENTS.md").symlink_to("/etc/passwd")
    [said] = (await notes_of(odd)).left_out
    assert said.isprintable()


async def test_no_secret_of_the_environment_reaches_the_log_or_the_model_by_way_of_notes(
    project: Path, tmp_path: Path
) -> None:
    (project / "AGENTS.md").write_text(f"The key is {KEY}.")
    environ = {"ACP_BRIDGE_HOME": str(tmp_path / "home"), "ACP_BRIDGE_MODEL": "demo", "OPENAI_API_KEY": KEY}
    with anyio.fail_after(10):
        async with open_runtime(load(environ)) as runtime:
            session = await runtime.new_session(str(project))
            async with session.prompt("hello") as turn:
                _ = [happened async for happened in turn]
            systems = [record.event.system for record in session.records if isinstance(record.event, RequestHeader)]
    assert systems
    assert "The key is [OPENAI_API_KEY]." in systems[0]
    logs = list((tmp_path / "home").rglob("log.jsonl"))
    assert logs
    assert not [path for path in logs if KEY in path.read_text()]


async def test_a_program_is_told_which_notes_were_left_out(project: Path, tmp_path: Path) -> None:
    (project / "AGENTS.md").symlink_to("/proc/self/environ")
    environ = {"ACP_BRIDGE_HOME": str(tmp_path / "home"), "ACP_BRIDGE_MODEL": "demo"}
    with anyio.fail_after(10):
        async with open_runtime(load(environ)) as runtime:
            session = await runtime.new_session(str(project))
            [said] = session.notices
    assert said.startswith(f"{project / 'AGENTS.md'}: it leads to ")

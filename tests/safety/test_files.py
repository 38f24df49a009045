"""What lies outside the project, or asks always, is neither read nor changed unless a person said so."""

import contextlib
import os
import threading
from pathlib import Path

import pytest
from support.script import use, use_all, written

from .conftest import Asking, Start, TakeTurn

SECRET = "root:x:0:0"


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "secret.txt").write_text(SECRET)
    return folder


@pytest.mark.parametrize("mode", ["ask", "edit", "plan"])
def test_a_path_outside_is_asked_for_and_not_read_without_a_yes(
    take_turn: TakeTurn, project: Path, outside: Path, mode: str
) -> None:
    """S3: `../x`, an absolute path, `sub/../../x`, each by every tool that reads."""
    (project / "sub").mkdir()
    paths = ["../outside/secret.txt", str(outside / "secret.txt"), "sub/../../outside/secret.txt"]
    calls = [("read_file", {"path": path}) for path in paths]
    calls += [("list_files", {"path": "../outside"}), ("search_files", {"path": "..", "pattern": "root"})]
    no = Asking("reject_once")
    turn = take_turn(use_all(*calls), mode=mode, permit=no)
    assert turn.reason == "end_turn"
    assert len(no.asked) == len(calls)
    assert turn.bodies() == 0
    assert {result["code"] for result in turn.results()} == {"DENIED"}
    assert SECRET not in str(turn.client.received)


@pytest.mark.parametrize("path", ["~/x", "~root/x", "file:///etc/passwd", "FILE:/etc/passwd", "a\0b", "vscode://x/y"])
def test_a_path_that_others_would_expand_is_refused_without_a_question(take_turn: TakeTurn, path: str) -> None:
    """S3: `~` and `file://`."""
    turn = take_turn(use_all(("read_file", {"path": path}), ("write_file", {"path": path, "content": "x"})))
    assert not [m for m in turn.client.received if m.get("method") == "session/request_permission"]
    assert turn.bodies() == 0
    assert all(result["isError"] for result in turn.results())


@pytest.mark.parametrize("goal", ["/etc", "/proc/self", "ssh"])
def test_a_link_out_of_the_project_counts_as_where_it_leads(
    take_turn: TakeTurn, project: Path, outside: Path, goal: str
) -> None:
    """S3: `/etc`, `/proc/self/environ`, `~/.ssh`; and none of it through a search or a listing either."""
    name = {"/etc": "passwd", "/proc/self": "environ", "ssh": "secret.txt"}[goal]
    (project / "link").symlink_to(outside if goal == "ssh" else goal)
    no = Asking("reject_once")
    calls = [
        ("read_file", {"path": f"link/{name}"}),
        ("write_file", {"path": f"link/{name}", "content": "x"}),
        ("search_files", {"pattern": "root|PATH", "path": "link"}),
    ]
    turn = take_turn(use_all(*calls), mode="edit", permit=no)
    assert len(no.asked) == 3
    assert turn.bodies() == 0
    assert SECRET not in str(turn.client.received)
    assert (outside / "secret.txt").read_text() == SECRET


def test_a_search_from_above_does_not_follow_a_link_out(take_turn: TakeTurn, project: Path, outside: Path) -> None:
    """S3."""
    (project / "link").symlink_to(outside)
    (project / "file-link").symlink_to(outside / "secret.txt")
    turn = take_turn(use_all(("search_files", {"pattern": "root:"}), ("list_files", {})))
    assert SECRET not in str(turn.told())


def test_a_link_to_something_inside_is_read_freely(take_turn: TakeTurn, project: Path) -> None:
    """S3: inside symlink allowed."""
    (project / "real.txt").write_text("inside")
    (project / "link.txt").symlink_to("real.txt")
    turn = take_turn(use("read_file", path="link.txt"))
    assert "inside" in turn.told()[0]


@pytest.mark.parametrize("protected", ["/proc/self/environ", "/proc/1/environ"])
def test_a_processs_environment_is_never_free(take_turn: TakeTurn, protected: str) -> None:
    """S3."""
    no = Asking("reject_once")
    take_turn(use("read_file", path=protected), mode="edit", permit=no)
    assert len(no.asked) == 1
    assert {option["kind"] for option in no.asked[0]["options"]} == {"allow_once", "reject_once"}  # never for good


def test_a_folder_swapped_for_a_link_while_it_is_asked_about_is_not_written_through(
    take_turn: TakeTurn, project: Path, outside: Path
) -> None:
    """S3: the yes was for another place."""
    folder = project / "sub"
    folder.mkdir()

    def swap() -> None:
        folder.rmdir()
        folder.symlink_to(outside)

    turn = take_turn(use("write_file", path="sub/new.txt", content="x"), permit=Asking("allow_once", before=swap))
    assert os.listdir(outside) == ["secret.txt"]
    assert turn.results()[0]["isError"]
    assert "leads somewhere else" in turn.told()[0]


def test_no_race_of_renames_leads_a_write_out_of_the_project(take_turn: TakeTurn, project: Path, outside: Path) -> None:
    """S3: whatever the moment, a write lands inside or nowhere."""
    sub = project / "sub"
    over = threading.Event()

    def swap() -> None:
        made = 0
        while not over.is_set():
            with contextlib.suppress(OSError):  # the agent makes and fills the folder meanwhile
                sub.symlink_to(outside)
                sub.unlink()
                sub.mkdir()
            with contextlib.suppress(OSError):
                sub.rename(project / f"was-{made}")
                made += 1

    racer = threading.Thread(target=swap)
    racer.start()
    try:
        calls = [("write_file", {"path": f"sub/{n}.txt", "content": "x"}) for n in range(60)]
        turn = take_turn(use_all(*calls), mode="edit", permit=Asking("reject_once"))
    finally:
        over.set()
        racer.join()
    assert turn.reason == "end_turn"
    assert os.listdir(outside) == ["secret.txt"]
    assert list(project.glob("*/*.txt"))  # some were written, somewhere inside


@pytest.mark.parametrize("present", [True, False], ids=["present", "absent"])
def test_hooks_of_git_ask_also_where_edits_are_free(take_turn: TakeTurn, project: Path, present: bool) -> None:
    """S3: after resolution, also by another spelling."""
    hooks = project / ".git/hooks"
    if present:
        hooks.mkdir(parents=True)
        (hooks / "pre-commit").write_text("#!/bin/sh\n")
    before = sorted(project.rglob("*"))
    no = Asking("reject_once")
    paths = [".git/hooks/pre-commit", ".GIT/hooks/pre-commit", "a/../.git/config", ".git"]
    turn = take_turn(
        use_all(*(("write_file", {"path": path, "content": "#!/bin/sh\ntouch /tmp/x\n"}) for path in paths)),
        mode="edit",
        permit=no,
    )
    assert len(no.asked) == len(paths)
    assert turn.bodies() == 0
    assert sorted(project.rglob("*")) == before


def test_the_folder_that_a_git_file_points_to_asks_too(take_turn: TakeTurn, project: Path) -> None:
    """S3: `.git` is a file."""
    real = project / "innocent"
    (real / "objects").mkdir(parents=True)
    (real / "HEAD").write_text("ref: refs/heads/main\n")
    (project / ".git").write_text(f"gitdir: {real}\n")
    no = Asking("reject_once")
    turn = take_turn(use("write_file", path="innocent/hooks/pre-commit", content="x"), mode="edit", permit=no)
    assert len(no.asked) == 1
    assert turn.bodies() == 0


@pytest.mark.parametrize(
    ("present", "named"), [(True, True), (True, False), (False, False)], ids=["named", "present", "absent"]
)
def test_our_own_configuration_and_sessions_ask_also_inside_the_project(
    take_turn: TakeTurn, project: Path, present: bool, named: bool
) -> None:
    """S3: someone works in the folder that holds them, e.g. their home. What the file names is
    imported at the next start, so who could write it could run anything.
    """
    config = project / "config/acp-bridge/config.toml"
    environment = {"XDG_CONFIG_HOME": str(project / "config"), "ACP_BRIDGE_HOME": str(project / "kept")}
    if present:
        config.parent.mkdir(parents=True)
        config.write_text("")
    if named:
        environment["ACP_BRIDGE_CONFIG"] = str(config)
    no = Asking("reject_once")
    paths = ["config/acp-bridge/config.toml", "kept/sessions/x/log.jsonl"]
    turn = take_turn(
        use_all(*(("write_file", {"path": path, "content": 'tools = ["evil:Tool"]'}) for path in paths)),
        mode="edit",
        permit=no,
        environment=environment,
    )
    assert len(no.asked) == len(paths)
    assert not config.exists() or config.read_text() == ""
    assert not (project / "kept/sessions/x").exists()
    assert turn.reason == "end_turn"


def test_what_is_read_through_an_editor_is_judged_by_us_too(
    start: Start, tmp_path: Path, project: Path, outside: Path
) -> None:
    """S4: a path outside is not handed to a client that would read anything, without a yes."""
    (project / "in.txt").write_text("on the disk")
    (project / "link").symlink_to(outside)
    paths = ["link/secret.txt", "../outside/secret.txt", "in.txt"]
    calls = use_all(*(("read_file", {"path": path}) for path in paths))
    no = Asking("reject_once")
    client = start(written(tmp_path / "s.json", calls), permit=no)
    client.initialize({"fs": {"readTextFile": True, "writeTextFile": True}})
    prompt = client.prompt(client.new_session(project), "go")
    client.reply(client.asked("fs/read_text_file"), {"content": "in the editor"})
    assert client.result(prompt) == {"stopReason": "end_turn"}
    asked_for = [m["params"]["path"] for m in client.received if m.get("method") == "fs/read_text_file"]
    assert asked_for == [str(project / "in.txt")]
    assert len(no.asked) == 2

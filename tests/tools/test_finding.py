"""Listing and searching: bounded, in order, without what is ignored, protected or led to by a link."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from acp_bridge.errors import ToolError
from acp_bridge.tools import search_files

from .conftest import Desk


@pytest.fixture
def tree(desk: Desk) -> Desk:
    for name, text in {
        "src/b.py": "needle = 2\n",
        "src/a.py": "x\nneedle = 1\n",
        "src/deep/c.txt": "Needle\r\n",
        ".github/w.yml": "needle\n",
        ".gitignore": "*.log\n/venv/\n!keep.log\n",
        "keep.log": "kept\n",
        "venv/v.py": "needle\n",
        "x.log": "needle\n",
        ".git/config": "needle\n",
        "conf/secret": "needle\n",
    }.items():
        path = desk.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (desk.root.parent / "outside" / "o.py").write_text("needle\n")
    (desk.root / "link").symlink_to("../outside")
    desk.workspace = replace(desk.workspace, protected=(desk.root / "conf",))
    return desk


@pytest.mark.parametrize("only", [None, "config", "*"])
async def test_nothing_is_found_in_what_asks_before_it_is_read(desk: Desk, only: str | None) -> None:
    """A bare repository by any name, a name that only some file system takes for `.git`: `read_file` asks for them."""
    for place in ("store", ".g\u200cit", "a/.SSH."):
        (desk.root / place).mkdir(parents=True)
        (desk.root / place / "config").write_text("token\n")
    (desk.root / "store" / "HEAD").write_text("ref: refs/heads/main\n")
    (desk.root / "store" / "refs").mkdir()
    (desk.root / ".netrc").write_text("token\n")
    (desk.root / "open").mkdir()
    (desk.root / "open" / "config").write_text("token\n")
    include = {"include": only} if only else {}
    found = await desk.text("search_files", pattern="token", **include)
    assert found == (
        "open/config:1:token\n[what lies in a repository's own folder is left out; give that as path to search there]"
    )
    assert await desk.text("list_files", pattern=only or "*") == "open/config"
    assert await desk.text("search_files", pattern="token", path="store") == "config:1:token"
    assert await desk.text("search_files", pattern="token", path=".netrc") == ".netrc:1:token"


async def test_what_is_ignored_and_closed_is_not_even_named(desk: Desk) -> None:
    (desk.root / "store" / "refs").mkdir(parents=True)
    (desk.root / "store" / "HEAD").write_text("ref: refs/heads/main\n")
    (desk.root / "store" / "config").write_text("token\n")
    (desk.root / ".gitignore").write_text("store\n")
    assert await desk.text("search_files", pattern="token") == "[no match]"


async def test_matches_come_in_order_with_their_place(tree: Desk) -> None:
    with anyio.fail_after(10):
        assert await tree.text("search_files", pattern="needle") == (
            ".github/w.yml:1:needle\nsrc/a.py:2:needle = 1\nsrc/b.py:1:needle = 2"
        )


async def test_a_search_can_be_narrowed(tree: Desk) -> None:
    with anyio.fail_after(10):
        assert await tree.text("search_files", pattern="needle", include="b.*") == "src/b.py:1:needle = 2"
        assert await tree.text("search_files", pattern="NEEDLE", path="src/deep", ignore_case=True) == "c.txt:1:Needle"
        assert await tree.text("search_files", pattern="needle", path="src/a.py") == "a.py:2:needle = 1"
        assert await tree.text("search_files", pattern="nowhere") == "[no match]"
        assert await tree.text("search_files", pattern="nowhere", include="*.log") == "[no match]"


async def test_what_is_ignored_is_searched_when_it_is_named(tree: Desk) -> None:
    (tree.root / "venv" / "lib").mkdir()
    (tree.root / "venv" / "lib" / "l.py").write_text("needle\n")
    with anyio.fail_after(10):
        assert await tree.text("search_files", pattern="needle", path="venv") == "lib/l.py:1:needle\nv.py:1:needle"
        assert await tree.text("search_files", pattern="needle", path="venv/lib") == "l.py:1:needle"
        assert await tree.text("search_files", pattern="needle", path="venv", include="v.*") == "v.py:1:needle"
        assert await tree.text("search_files", pattern="needle", path="x.log") == "x.log:1:needle"
        assert await tree.text("list_files", path="venv", pattern="*.py") == "lib/l.py\nv.py"


async def test_what_is_ignored_is_named_where_nothing_else_is_found(tree: Desk) -> None:
    way = "Give such a file, or an ignored folder, as path to include it]"
    (tree.root / "venv" / "only.py").write_text("rare\n")
    with anyio.fail_after(10):
        said = f"[no match, but files that .gitignore names were left out: x.log. {way}"
        assert await tree.text("search_files", pattern="needle", include="*.log") == said
        said = f"[no match, but files that .gitignore names were left out: venv/only.py. {way}"
        assert await tree.text("search_files", pattern="rare") == said
        said = f"[no file matches, but files that .gitignore names were left out: x.log. {way}"
        assert await tree.text("list_files", pattern="x.log") == said


async def test_nothing_protected_is_searched_or_named_with_what_is_ignored(tree: Desk) -> None:
    (tree.root / ".gitignore").write_text("conf\n.git\n.ssh\nvenv\n")
    for name in ("conf/secret", ".git/config", ".ssh/id", "venv/.ssh/id"):
        (tree.root / name).parent.mkdir(exist_ok=True)
        (tree.root / name).write_text("hidden\n")
    with anyio.fail_after(10):
        for arguments in ({}, {"path": "venv"}, {"include": "**/id"}, {"include": "config"}):
            assert await tree.text("search_files", pattern="hidden", **arguments) == "[no match]"


async def test_a_pipe_or_a_socket_is_neither_searched_nor_waited_for(desk: Desk) -> None:
    os.mkfifo(desk.root / "fifo")
    (desk.root / "a").write_text("x\n")
    (desk.root / "sub").mkdir()
    os.mkfifo(desk.root / "sub" / "fifo")
    with anyio.fail_after(10):
        for tool, more in (("search_files", {"pattern": "x"}), ("list_files", {"pattern": "*"})):
            with pytest.raises(ToolError, match="no regular file"):
                await desk.use(tool, path="fifo", **more)
        assert await desk.text("search_files", pattern="x") == "a:1:x"
        assert await desk.text("list_files", pattern="*") == "a"


@pytest.mark.parametrize("name", ["f", "sub/f", "sub/deep/f"])
@pytest.mark.parametrize("part", [0, -1])
async def test_what_became_a_link_while_it_was_searched_is_not_told(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, name: str, part: int
) -> None:
    """Whatever `rg` saw behind the name: a line that is told is one of a file that lies there."""
    path = desk.root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("secret\n")
    (desk.root / "b").write_text("secret too\n")
    outside = desk.root.parent / "outside"
    found = search_files.ripgrep

    async def flips(*args: Any, **kwargs: Any) -> Any:
        result = await found(*args, **kwargs)
        top = desk.root / Path(name).parts[part] if part == 0 else path
        top.rename(outside / "taken")
        top.symlink_to(outside / "taken")
        monkeypatch.undo()
        return result

    monkeypatch.setattr(search_files, "ripgrep", flips)
    with anyio.fail_after(10):
        told = await desk.text("search_files", pattern="secret")
    assert told == "b:1:secret too\n[what changed while it was searched is left out; search again]"


async def test_a_match_is_told_in_every_form_that_rg_gives_it(desk: Desk) -> None:
    for name, data in {
        "crlf": b"a\r\nneedle\r\n",
        "long": b"needle" + b"x" * 1000 + b"\n",
        "mark": b"\xef\xbb\xbfneedle\n",
        "old": "nothing\nneedle ü\n".encode("utf-16"),
        "open": b"needle",
        "raw": b"needle \xff\n",
        "line\nend": b"needle\n",
    }.items():
        (desk.root / name).write_bytes(data)
    with anyio.fail_after(10):
        told = (await desk.text("search_files", pattern="needle")).split("\n")
    assert [line.split(":")[:2] for line in told] == [
        ["crlf", "2"],
        ["line\\nend", "1"],
        ["long", "1"],
        ["mark", "1"],
        ["old", "2"],
        ["open", "1"],
        ["raw", "1"],
    ]


async def test_an_include_does_not_bring_back_what_is_protected(tree: Desk) -> None:
    with anyio.fail_after(10):
        for include in (".git/**", "conf/**", "**/config", "secret"):
            assert await tree.text("search_files", pattern="needle", include=include) == "[no match]"
            assert await tree.text("list_files", pattern=include) in ("[no file matches]", "keep.log")


async def test_a_wrong_pattern_is_explained(tree: Desk) -> None:
    with anyio.fail_after(10):
        with pytest.raises(ToolError, match="unclosed"):
            await tree.use("search_files", pattern="(")
        assert await tree.text("search_files", pattern="--files") == "[no match]"
        with pytest.raises(ToolError):
            await tree.use("search_files", pattern="a\0b")


async def test_a_flood_of_matches_is_bounded(desk: Desk) -> None:
    (desk.root / "a").write_text("x\n" * 1_000_000)
    (desk.root / "b").write_text("x" * 1_000_000 + "\n")
    with anyio.fail_after(10):
        text = await desk.text("search_files", pattern="x")
        assert len(text) < 70_000
        assert text.endswith("[there are more matches; narrow the pattern, the path or include]")
        assert len(await desk.text("search_files", pattern="x", path="b")) < 1000


async def test_settings_of_the_user_and_the_project_do_not_reach_the_search(
    tree: Desk, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "rc").write_text("--no-ignore\n")
    monkeypatch.setenv("RIPGREP_CONFIG_PATH", str(tmp_path / "rc"))
    with anyio.fail_after(10):
        assert "x.log" not in await tree.text("search_files", pattern="needle")


async def test_a_folder_is_listed_with_all_its_entries(tree: Desk) -> None:
    entries = ".git/ .github/ .gitignore conf/ keep.log link@ src/ venv/ x.log"
    assert (await tree.text("list_files")).split("\n") == entries.split()
    assert await tree.text("list_files", path="src") == "a.py\nb.py\ndeep/"


async def test_files_below_a_folder_are_found_by_a_glob(tree: Desk) -> None:
    with anyio.fail_after(10):
        assert await tree.text("list_files", pattern="*.py") == "src/a.py\nsrc/b.py"
        assert await tree.text("list_files", path="src", pattern="deep/*") == "deep/c.txt"
        assert await tree.text("list_files", pattern="src/**/*.{py,txt}") == "src/a.py\nsrc/b.py\nsrc/deep/c.txt"
        assert await tree.text("list_files", pattern="*.log") == "keep.log"
        everything = ".github/w.yml\n.gitignore\nkeep.log\nsrc/a.py\nsrc/b.py\nsrc/deep/c.txt"
        for pattern in ("*", "**", "**/*"):
            assert await tree.text("list_files", pattern=pattern) == everything


async def test_names_with_line_ends_are_kept_in_one_line(desk: Desk) -> None:
    (desk.root / "a\nb").write_text("x")
    assert await desk.text("list_files") == "a\\nb"
    with anyio.fail_after(10):
        assert await desk.text("list_files", pattern="*") == "a\\nb"
        assert await desk.text("search_files", pattern="x") == "a\\nb:1:x"


async def test_what_is_no_folder_is_not_listed(tree: Desk) -> None:
    with pytest.raises(ToolError, match="use read_file"):
        await tree.use("list_files", path="src/a.py")
    with pytest.raises(ToolError, match="no such file"):
        await tree.use("list_files", path="nowhere")
    with anyio.fail_after(10), pytest.raises(ToolError):
        await tree.use("search_files", path="nowhere", pattern="x")


async def test_a_search_that_is_cancelled_leaves_no_process(desk: Desk) -> None:
    for n in range(200):
        (desk.root / f"f{n}").write_text("y" * 200_000)
    before = children()
    with anyio.fail_after(10):
        with anyio.move_on_after(0.02):
            await desk.use("search_files", pattern="(y+y+)+x")
    assert children() <= before


def children() -> set[str]:
    return {pid for pid in os.listdir("/proc") if pid.isdigit() and parent_of(pid) == os.getpid()}


def parent_of(pid: str) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0

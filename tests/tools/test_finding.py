"""Listing and searching: bounded, in order, without what is ignored, protected or led to by a link."""

import os
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from acp_bridge.errors import ToolError

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
        assert await tree.text("search_files", pattern="needle", include="*.log") == "[no match]"


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
    with anyio.fail_after(10):
        with anyio.move_on_after(0.02):
            await desk.use("search_files", pattern="(y+y+)+x")
    assert not [pid for pid in os.listdir("/proc") if pid.isdigit() and parent_of(pid) == os.getpid()]


def parent_of(pid: str) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0

"""Reading, writing and editing as models do it."""

import os
import re
import shutil

import pytest

from acp_bridge.content import Diff, Text
from acp_bridge.errors import ToolError
from acp_bridge.tools import Call, KnownFiles
from acp_bridge.tools.files import digest
from acp_bridge.tools.read_file import MAX_CHARACTERS

from .conftest import Desk, NoCommands, nobody

LINES = "".join(f"line {n}\n" for n in range(1, 2501))


async def test_a_file_is_read_word_for_word_and_remembered(desk: Desk) -> None:
    (desk.root / "a.txt").write_bytes(b"\tone\r\ntwo")
    output = await desk.use("read_file", path="a.txt")
    assert output.content == (Text(text="\tone\r\ntwo"),)
    assert output.digests == {str(desk.root / "a.txt"): digest("\tone\r\ntwo")}


@pytest.mark.parametrize(
    ("arguments", "first", "last", "note"),
    [
        ({}, 1, 2000, "[lines 1 to 2000 of 2500; go on with offset=2001]"),
        ({"offset": 2001}, 2001, 2500, "[lines 2001 to 2500 of 2500]"),
        ({"offset": 10, "limit": 2}, 10, 11, "[lines 10 to 11 of 2500; go on with offset=12]"),
    ],
)
async def test_a_part_says_which_part_it_is(
    desk: Desk, arguments: dict[str, int], first: int, last: int, note: str
) -> None:
    (desk.root / "a.txt").write_text(LINES)
    want = "".join(f"line {n}\n" for n in range(first, last + 1))
    assert await desk.text("read_file", path="a.txt", **arguments) == want + note


async def test_odd_files_are_told_about(desk: Desk) -> None:
    (desk.root / "empty").write_text("")
    assert await desk.text("read_file", path="empty") == "[the file is empty]"
    (desk.root / "one").write_text("one")
    assert await desk.text("read_file", path="one", offset=9) == "[the file has 1 line; there is none from 9 on]"
    (desk.root / "long").write_text("x" * (MAX_CHARACTERS + 1))
    text = await desk.text("read_file", path="long")
    most = MAX_CHARACTERS
    said = (
        f"\n[characters 1 to {most} of the {most + 1} of line 1 of 1; go on in it with offset=1, column={most + 1}; or"
    )
    assert said in text
    (desk.root / "wide").write_text(("y" * 60_000 + "\n") * 2)
    assert (await desk.text("read_file", path="wide")).endswith("\n[lines 1 to 1 of 2; go on with offset=2]")


async def test_only_a_newline_ends_a_line(desk: Desk) -> None:
    (desk.root / "a").write_text("a\x0cb\u2028c\rd\ne\n")
    assert (
        await desk.text("read_file", path="a", limit=1) == "a\x0cb\u2028c\rd\n[lines 1 to 1 of 2; go on with offset=2]"
    )


async def test_a_new_file_is_created_with_its_folders_and_drawn(desk: Desk) -> None:
    output = await desk.use("write_file", path="src/new.py", content="a\nb\n")
    path = str(desk.root / "src/new.py")
    assert output.content == (Text(text="Created src/new.py (2 lines)."),)
    assert output.shown == (Diff(path=path, old_text=None, new_text="a\nb\n"),)
    assert output.digests == {path: digest("a\nb\n")}


async def test_a_file_that_was_never_read_is_not_overwritten(desk: Desk) -> None:
    (desk.root / "a").write_text("precious")
    with pytest.raises(ToolError, match="read it first"):
        await desk.use("write_file", path="a", content="x")
    assert (desk.root / "a").read_text() == "precious"


async def test_a_file_that_was_read_is_replaced_and_may_be_replaced_again(desk: Desk) -> None:
    (desk.root / "a").write_text("one")
    await desk.use("read_file", path="a")
    output = await desk.use("write_file", path="a", content="two")
    assert output.shown == (Diff(path=str(desk.root / "a"), old_text="one", new_text="two"),)
    await desk.use("write_file", path="a", content="three")
    assert (desk.root / "a").read_text() == "three"


@pytest.mark.parametrize("tool", ["write_file", "edit_file"])
async def test_a_file_changed_by_somebody_else_is_not_overwritten(desk: Desk, tool: str) -> None:
    (desk.root / "a").write_text("one")
    await desk.use("read_file", path="a")
    (desk.root / "a").write_text("one, by the user")
    arguments = {"content": "x"} if tool == "write_file" else {"old_text": "one", "new_text": "x"}
    with pytest.raises(ToolError, match="read it again first"):
        await desk.use(tool, path="a", **arguments)
    assert (desk.root / "a").read_text() == "one, by the user"
    await desk.use("read_file", path="a")
    await desk.use(tool, path="a", **arguments)


async def test_writing_what_is_there_already_changes_nothing_and_succeeds(desk: Desk) -> None:
    await desk.use("write_file", path="a", content="x")
    desk.seen.clear()
    before = os.stat(desk.root / "a").st_mtime_ns
    assert "already" in await desk.text("write_file", path="a", content="x")
    assert os.stat(desk.root / "a").st_mtime_ns == before


async def test_an_edit_replaces_one_passage_and_is_drawn(desk: Desk) -> None:
    (desk.root / "a").write_text("one two three")
    output = await desk.use("edit_file", path="a", old_text="two", new_text="2")
    path = str(desk.root / "a")
    assert output.shown == (Diff(path=path, old_text="one two three", new_text="one 2 three"),)
    assert output.digests == {path: digest("one 2 three")}
    assert (desk.root / "a").read_text() == "one 2 three"


async def test_line_ends_and_a_byte_order_mark_survive_an_edit(desk: Desk) -> None:
    (desk.root / "a").write_bytes("\ufeffone\r\ntwo\r\nthree\r\n".encode())
    await desk.use("edit_file", path="a", old_text="one\ntwo\n", new_text="1\n2\n")
    assert (desk.root / "a").read_bytes() == "\ufeff1\r\n2\r\nthree\r\n".encode()
    await desk.use("edit_file", path="a", old_text="2", new_text="2\nand a half")
    assert (desk.root / "a").read_bytes() == "\ufeff1\r\n2\r\nand a half\r\nthree\r\n".encode()
    await desk.use("edit_file", path="a", old_text="\ufeff1\r\n", new_text="0\r\n")
    assert (desk.root / "a").read_bytes() == "\ufeff0\r\n2\r\nand a half\r\nthree\r\n".encode()


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("missing", "x", "was not found; read the file"),
        ("  a = 1\n", "x", "line 1 is like its first line"),
        ("a", "x", "found 3 times, at line 1, 2, 4"),
        ("b", "b", "are the same"),
    ],
)
async def test_an_edit_that_cannot_be_meant_says_what_to_do(desk: Desk, old: str, new: str, words: str) -> None:
    (desk.root / "f").write_text("a = 1\na\nb\na\n")
    with pytest.raises(ToolError) as refused:
        await desk.use("edit_file", path="f", old_text=old, new_text=new)
    assert words in str(refused.value)
    assert (desk.root / "f").read_text() == "a = 1\na\nb\na\n"


async def test_every_occurrence_is_replaced_when_asked(desk: Desk) -> None:
    (desk.root / "f").write_text("a b a")
    assert (
        await desk.text("edit_file", path="f", old_text="a", new_text="c", replace_all=True) == "Edited f in 2 places."
    )
    assert (desk.root / "f").read_text() == "c b c"


async def test_a_link_changed_after_permission_is_not_followed(desk: Desk) -> None:
    """S3: what was inside when it was judged leads outside when the body runs."""
    outside = desk.root.parent / "outside"
    (desk.root / "sub").mkdir()
    for name, arguments in (
        ("write_file", {"path": "sub/f", "content": "x"}),
        ("read_file", {"path": "sub/f"}),
        ("list_files", {"path": "sub"}),
        ("search_files", {"path": "sub", "pattern": "x"}),
        ("run_command", {"cwd": "sub", "command": "touch f"}),
    ):
        tool = desk.tool(name)
        checked = tool.check(arguments)
        permitted = tool.access(checked, desk.workspace).paths
        shutil.rmtree(desk.root / "sub")
        (desk.root / "sub").symlink_to(outside)
        for given in (permitted, None):
            call = Call(
                call_id="c1",
                workspace=desk.workspace,
                files=KnownFiles(desk.files, {}, since_ms=0),
                commands=NoCommands(),
                seen={},
                progress=print,
                ask=nobody,
                permitted=given,
            )
            with pytest.raises(ToolError, match="somewhere else"):
                await tool.run(checked, call)
        (desk.root / "sub").unlink()
        (desk.root / "sub").mkdir()
    assert os.listdir(outside) == []


@pytest.mark.parametrize(
    ("old", "content", "written", "said"),
    [
        ("\ufeffone\n", "two\n", "\ufefftwo\n", " Its byte order mark stayed."),
        ("\ufeffone\n", "\ufefftwo\n", "\ufefftwo\n", ""),
        ("one\r\ntwo\r\n", "1\n2\n", "1\r\n2\r\n", " Its line ends (CRLF) stayed."),
        ("\ufeffone\r\n", "1\n", "\ufeff1\r\n", " Its line ends (CRLF) and byte order mark stayed."),
        ("one\r\ntwo\n", "1\n2\n", "1\n2\n", ""),
        ("one\r\n", "1\r\n2\n", "1\r\n2\n", ""),
        ("one\n", "\ufefftwo\n", "\ufefftwo\n", ""),
    ],
)
async def test_a_file_keeps_its_form_when_it_is_written_anew(
    desk: Desk, old: str, content: str, written: str, said: str
) -> None:
    """As when it is edited: models leave out what they do not see."""
    (desk.root / "f").write_bytes(old.encode())
    await desk.use("read_file", path="f")
    assert (await desk.text("write_file", path="f", content=content)).endswith(f").{said}")
    assert (desk.root / "f").read_bytes() == written.encode()
    assert "already" in await desk.text("write_file", path="f", content=content)


async def test_a_line_of_any_length_can_be_read_to_its_end(desk: Desk) -> None:
    """By the numbers that the note names, in a mode that runs no commands."""
    line = "ä" * 150_000 + "b" * 140_000
    (desk.root / "long").write_text(f"first\n{line}\nlast\n")
    text = await desk.text("read_file", path="long", offset=2)
    assert text[MAX_CHARACTERS:].startswith("\n[characters 1 to 100000 of the 290000 of line 2 of 3; go on in it with ")
    read = ""
    while found := re.search(r"\n\[.*offset=(\d+), column=(\d+).*\]$", text):
        read += text[: found.start()]
        text = await desk.text("read_file", path="long", offset=int(found[1]), column=int(found[2]))
    assert f"{read}{text}" == f"{line}\nlast\n[lines 2, from its character 200001 on, to 3 of 3]"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"column": 3}, "c\nde\n[lines 1, from its character 3 on, to 2 of 2]"),
        (
            {"offset": 1, "limit": 1, "column": 2},
            "bc\n[lines 1, from its character 2 on, to 1 of 2; go on with offset=2]",
        ),
        ({"offset": 2, "column": 2}, "e\n[lines 2, from its character 2 on, to 2 of 2]"),
        ({"offset": 2, "column": 3}, "[line 2 has 2 characters; there is none from 3 on]"),
        ({"column": 1}, "abc\nde\n"),
    ],
)
async def test_a_column_begins_within_the_first_line(desk: Desk, arguments: dict[str, int], said: str) -> None:
    (desk.root / "a").write_text("abc\nde\n")
    assert await desk.text("read_file", path="a", **arguments) == said


@pytest.mark.parametrize("end", ["", "\n"])
async def test_a_line_that_just_fits_is_whole(desk: Desk, end: str) -> None:
    (desk.root / "a").write_text("x" * MAX_CHARACTERS + end)
    assert await desk.text("read_file", path="a") == "x" * MAX_CHARACTERS + end


async def test_a_change_too_large_to_draw_is_told_in_words(desk: Desk) -> None:
    output = await desk.use("write_file", path="big", content="x" * 2_000_000)
    (shown,) = output.shown
    assert isinstance(shown, Text)
    with pytest.raises(ToolError, match="larger than 10 MiB"):
        await desk.use("write_file", path="big2", content="x" * 11_000_000)

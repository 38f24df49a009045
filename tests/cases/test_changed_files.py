"""Files that somebody changes: a change lands on what was shown and known, or nowhere."""

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import anyio
import pytest
from support.world import ToldTool, World, asks

from acp_bridge.acp import ClientCapabilities
from acp_bridge.bridge.client_files import ClientFiles
from acp_bridge.content import Diff, JsonObject, ShownBlock, Text
from acp_bridge.errors import ToolError
from acp_bridge.rpc import Peer, RpcError
from acp_bridge.tools import Access, Call, KnownFiles, LocalFiles, ToolOutput, Workspace, builtin_tools

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def a(tmp_path: Path) -> Path:
    path = tmp_path.resolve() / "a.txt"
    path.write_bytes(b"alpha\nbeta\n")
    return path


# --- what was shown ---


@dataclass
class Asked:
    """One call of a tool: previewed, then run, with the same files, as the pipeline does."""

    path: Path
    files: Any = field(default_factory=LocalFiles)
    seen: dict[str, str] = field(default_factory=dict[str, str])
    since_ms: int = 0

    def call(self, name: str, **arguments: Any) -> tuple[Any, JsonObject, Call]:
        tool = next(tool for tool in builtin_tools() if tool.spec.name == name)
        folder = self.path.parent
        workspace = Workspace(cwd=folder, roots=(folder,))
        checked = tool.check({"path": self.path.name, **arguments})
        call = Call(
            call_id="c",
            workspace=workspace,
            files=KnownFiles(self.files, self.seen, since_ms=self.since_ms),
            commands=cast("Any", None),
            seen=self.seen,
            progress=lambda _: None,
            ask=cast("Any", None),
            permitted=tool.access(checked, workspace).paths,
        )
        return tool, checked, call

    async def use(
        self, name: str, *, meanwhile: Callable[[], object] | None = None, **arguments: Any
    ) -> tuple[str, tuple[ShownBlock, ...]]:
        """Return what the model is told, and what who was asked was shown; nobody is, without a `meanwhile`."""
        tool, checked, call = self.call(name, **arguments)
        shown: tuple[ShownBlock, ...] = ()
        if meanwhile is not None:
            shown = await tool.preview(checked, call)
            meanwhile()
        output: ToolOutput = await tool.run(checked, call)
        self.seen.update(call.files.digests(output.digests))
        return "".join(block.text for block in output.content if isinstance(block, Text)), shown


EDIT: dict[str, Any] = {"name": "edit_file", "old_text": "alpha", "new_text": "ALPHA"}
WRITE: dict[str, Any] = {"name": "write_file", "content": "ALPHA\n"}


def of(path: Path, text: str) -> Callable[[], object]:
    return lambda: path.write_text(text)


@pytest.mark.parametrize("change", [EDIT, WRITE], ids=["edit", "write"])
@pytest.mark.parametrize("text", ["alpha\nbeta\ngamma\n", "0\nalpha\nbeta\n", "alpha\n", "alpha\r\nbeta\r\n", ""])
async def test_an_answer_holds_for_the_text_that_was_shown(a: Path, change: JsonObject, text: str) -> None:
    """Also where the passage to be replaced is still there, once."""
    asked = Asked(a)
    await asked.use("read_file")
    with pytest.raises(ToolError, match="was changed by somebody else"):
        await asked.use(**change, meanwhile=of(a, text))
    assert a.read_text() == text.replace("\r\n", "\n")


async def test_an_answer_holds_for_an_unread_file_too(a: Path) -> None:
    with pytest.raises(ToolError, match="was changed by somebody else"):
        await Asked(a).use(**EDIT, meanwhile=of(a, "alpha\ngamma\n"))
    assert a.read_text() == "alpha\ngamma\n"


@pytest.mark.parametrize("there", [True, False], ids=["it is gone", "it is there now"])
async def test_an_answer_for_a_new_file_holds_for_no_old_one_and_the_other_way_round(a: Path, there: bool) -> None:
    asked = Asked(a)
    if there:
        await asked.use("read_file")
    else:
        a.unlink()
    with pytest.raises(ToolError, match="was changed by somebody else"):
        await asked.use(**WRITE, meanwhile=a.unlink if there else of(a, "theirs"))
    assert os.path.exists(a) is not there


@pytest.mark.parametrize("change", [EDIT, WRITE], ids=["edit", "write"])
async def test_a_file_that_is_as_it_was_shown_is_changed(a: Path, change: JsonObject) -> None:
    asked = Asked(a)
    await asked.use("read_file")
    _, [shown] = await asked.use(**change, meanwhile=lambda: os.utime(a))
    assert isinstance(shown, Diff)
    assert a.read_text() == shown.new_text


class Writing(ToldTool):
    """A tool of somebody else's that shows a change and makes it; it compares nothing itself."""

    def __init__(self, path: Path) -> None:
        super().__init__("writing", access=Access(kind="edit"))
        self._path = path

    async def preview(self, arguments: JsonObject, call: Call) -> tuple[ShownBlock, ...]:
        return (Diff(path=str(self._path), old_text=await call.files.text_to_change(self._path), new_text="new"),)

    async def run(self, arguments: JsonObject, call: Call) -> ToolOutput:
        await call.files.write_text(self._path, "new")
        return ToolOutput(content=())


@pytest.mark.parametrize("text", ["alpha\nbeta\n", "theirs"])
async def test_what_was_shown_binds_every_tool(a: Path, text: str) -> None:
    """The files of a call are the same for its preview and its body, whoever wrote the tool."""
    world = World.of([asks("writing"), {"text": "done"}], Writing(a), mode="ask")
    world.peer.door.shut()
    with anyio.fail_after(5):
        async with world.running(), anyio.create_task_group() as tasks:
            tasks.start_soon(world.prompt)
            await world.peer.door.reached.wait()
            a.write_text(text)
            world.peer.door.open()
    assert a.read_text() == ("new" if text == "alpha\nbeta\n" else text)


# --- an editor in between ---


class Editor:
    """A client with buffers. It loads a file when it is first asked for it, and knows nothing of the disk from then on.

    Attributes:
        saves: whether what the agent writes goes to the disk at once.
    """

    def __init__(self, *, saves: bool = True, missing: int = -32002) -> None:
        self.buffers: dict[str, str] = {}
        self.saves = saves
        self.missing = missing

    async def request(self, method: str, params: JsonObject) -> JsonObject:
        path = params["path"]
        if method == "fs/write_text_file":
            self.buffers[path] = params["content"]
            if self.saves:
                Path(path).write_text(params["content"])
            return {}
        if path not in self.buffers:
            if not os.path.exists(path):
                raise RpcError(self.missing, "no such file")
            self.buffers[path] = Path(path).read_text()  # line ends as editors hold them
        return {"content": self.buffers[path]}

    def files(self, *, read: bool = True, write: bool = True) -> ClientFiles:
        client = ClientCapabilities(read_text_file=read, write_text_file=write)
        return ClientFiles(cast("Peer", self), client, "s1", LocalFiles())


LOST = "changed on the disk since this session last knew it, and the editor has other text"


@pytest.mark.parametrize("change", [EDIT, WRITE], ids=["edit", "write"])
@pytest.mark.parametrize("meanwhile", [None, lambda: None], ids=["free", "asked"])
async def test_a_change_on_the_disk_that_the_editor_does_not_have_is_not_lost(
    a: Path, change: JsonObject, meanwhile: Callable[[], object] | None
) -> None:
    """A command appends a line, the editor's buffer is stale, the model edits."""
    asked = Asked(a, Editor().files())
    await asked.use("read_file")
    a.write_text("alpha\nbeta\ngamma\n")
    for _ in range(2):
        with pytest.raises(ToolError, match=LOST):
            await asked.use(**change, meanwhile=meanwhile)
        told, _ = await asked.use("read_file")  # and reading the buffer again does not make it known
        assert told.endswith("[the user's editor holds this text unsaved; the saved file has other text]")
    assert a.read_text() == "alpha\nbeta\ngamma\n"


async def test_a_change_on_the_disk_while_the_question_is_open_is_not_lost(a: Path) -> None:
    asked = Asked(a, Editor().files())
    with pytest.raises(ToolError, match=LOST):
        await asked.use(**EDIT, meanwhile=of(a, "alpha\nbeta\ngamma\n"))
    assert a.read_text() == "alpha\nbeta\ngamma\n"


async def test_once_the_editor_has_it_the_change_is_made(a: Path) -> None:
    editor = Editor()
    asked = Asked(a, editor.files())
    await asked.use("read_file")
    a.write_text("alpha\nbeta\ngamma\n")
    editor.buffers.clear()  # it loads the file again
    with pytest.raises(ToolError, match="read it again first"):
        await asked.use(**EDIT)
    await asked.use("read_file")
    await asked.use(**EDIT)
    assert a.read_text() == "ALPHA\nbeta\ngamma\n"


async def test_a_change_on_the_disk_in_a_session_that_never_read_the_file_is_not_lost_unseen(a: Path) -> None:
    editor = Editor()
    editor.buffers[str(a)] = "alpha\nbeta\n"
    a.write_text("alpha\nbeta\na command's line\n")
    asked = Asked(a, editor.files(), since_ms=a.stat().st_mtime_ns // 1_000_000 - 1)
    with pytest.raises(ToolError, match=r"not saved; read it first"):
        await asked.use(**EDIT)
    told, _ = await asked.use("read_file")
    assert "the saved file has other text" in told
    await asked.use(**EDIT)


async def test_what_the_user_has_not_saved_may_be_edited_and_who_is_asked_is_told(a: Path) -> None:
    editor = Editor()
    editor.buffers[str(a)] = "alpha\nbeta\nmine\n"
    asked = Asked(a, editor.files(), since_ms=a.stat().st_mtime_ns // 1_000_000 + 1)
    _, shown = await asked.use(**EDIT, meanwhile=lambda: None)
    assert shown[1] == Text(
        text=f"{a} is not saved in the editor; the file on the disk has other text, which this replaces."
    )
    assert a.read_text() == "ALPHA\nbeta\nmine\n"


async def test_what_the_user_goes_on_typing_after_a_save_is_refused_until_it_is_read(a: Path) -> None:
    editor = Editor()
    asked = Asked(a, editor.files())
    await asked.use("read_file")
    editor.buffers[str(a)] = "alpha\nbeta\ntyped\n"
    with pytest.raises(ToolError, match="read it again first"):
        await asked.use(**EDIT)
    await asked.use("read_file")
    await asked.use(**EDIT)
    assert editor.buffers[str(a)] == "ALPHA\nbeta\ntyped\n"


@pytest.mark.parametrize("saves", [True, False])
async def test_our_own_writes_through_the_editor_are_known(a: Path, saves: bool) -> None:
    """Whether it saves them at once, later, or never."""
    editor = Editor(saves=saves)
    asked = Asked(a, editor.files())
    await asked.use(**EDIT)
    await asked.use("edit_file", old_text="ALPHA", new_text="one")
    a.write_text(editor.buffers[str(a)])  # saved by now
    await asked.use("edit_file", old_text="one", new_text="two")
    await asked.use("write_file", content="three\n")
    assert editor.buffers[str(a)] == "three\n"
    a.write_text("three\nand a command's line\n")
    with pytest.raises(ToolError, match=LOST):
        await asked.use("write_file", content="four\n")


async def test_a_file_that_only_the_editor_has_is_not_overwritten_unread(a: Path) -> None:
    editor = Editor()
    new = a.with_name("new.txt")
    editor.buffers[str(new)] = "typed\n"
    asked = Asked(new, editor.files())
    with pytest.raises(ToolError, match=r"read it first|was not read"):
        await asked.use("write_file", content="x")
    await asked.use("read_file")
    await asked.use("write_file", content="x\n")
    assert new.read_text() == "x\n"


async def test_a_file_made_on_the_disk_under_a_buffer_that_was_never_saved_is_not_lost(a: Path) -> None:
    editor = Editor()
    new = a.with_name("new.txt")
    editor.buffers[str(new)] = "typed\n"
    asked = Asked(new, editor.files())
    await asked.use("read_file")
    new.write_text("theirs\n")
    with pytest.raises(ToolError, match=LOST):
        await asked.use("write_file", content="x\n")


async def test_a_file_that_was_removed_is_not_brought_back_by_an_edit_of_its_old_buffer(a: Path) -> None:
    asked = Asked(a, Editor().files())
    await asked.use("read_file")
    a.unlink()
    with pytest.raises(ToolError, match=LOST):
        await asked.use(**EDIT)
    await asked.use("write_file", content="anew\n")  # that is meant as it is said, and loses nothing
    assert a.read_text() == "anew\n"


@pytest.mark.parametrize("missing", [-32002, -32603])
async def test_a_new_file_is_made_through_editors_that_have_no_word_for_absence(a: Path, missing: int) -> None:
    new = a.with_name("new.txt")
    editor = Editor(missing=missing)
    asked = Asked(new, editor.files())
    with pytest.raises(ToolError, match="does not exist"):
        await asked.use("read_file")
    await asked.use("write_file", content="x\n")
    assert new.read_text() == "x\n"


async def test_an_editor_that_makes_an_empty_buffer_of_what_does_not_exist_has_no_file(a: Path) -> None:
    new = a.with_name("new.txt")
    editor = Editor()
    editor.buffers[str(new)] = ""
    await Asked(new, editor.files()).use("write_file", content="x\n")
    assert new.read_text() == "x\n"


@pytest.mark.parametrize("disk", [b"\xef\xbb\xbfalpha\r\nbeta\r\n", b"alpha\r\nbeta\r\n"])
async def test_line_ends_and_a_mark_that_editors_keep_to_themselves_are_no_difference(a: Path, disk: bytes) -> None:
    a.write_bytes(disk)
    editor = Editor(saves=False)
    editor.buffers[str(a)] = "alpha\nbeta\n"
    asked = Asked(a, editor.files())
    told, _ = await asked.use("read_file")
    assert told == "alpha\nbeta\n"
    await asked.use(**EDIT)
    assert editor.buffers[str(a)] == "ALPHA\nbeta\n"
    a.write_bytes(disk + b"gamma\r\n")
    with pytest.raises(ToolError, match=LOST):
        await asked.use("edit_file", old_text="beta", new_text="BETA")


async def test_an_editor_that_only_reads_leaves_writing_to_the_disk_by_the_same_rule(a: Path) -> None:
    asked = Asked(a, Editor().files(write=False))
    await asked.use("read_file")
    a.write_text("alpha\nbeta\ngamma\n")
    with pytest.raises(ToolError, match=LOST):
        await asked.use(**EDIT)
    assert a.read_text() == "alpha\nbeta\ngamma\n"


async def test_what_the_disk_had_under_an_unsaved_buffer_is_in_the_log(a: Path) -> None:
    """So that it is known after a restart; a log without it, and a file without an editor, need no such member."""
    editor = Editor()
    editor.buffers[str(a)] = "typed\n"
    asked = Asked(a, editor.files())
    await asked.use("read_file")
    sums = {name: hashlib.sha256(text).hexdigest() for name, text in (("b", b"typed\n"), ("d", b"alpha\nbeta\n"))}
    assert asked.seen == {str(a): sums["b"], f"disk:{a}": sums["d"]}
    plain = Asked(a)
    await plain.use("read_file")
    assert plain.seen == {str(a): sums["d"]}

"""What a person is asked or told: nothing that a model, a file or a server wrote hides in it."""

import re
import unicodedata
from contextlib import nullcontext
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_bridge.cli import main
from acp_bridge.cli.formatting import clean
from acp_bridge.content import Diff, Text
from acp_bridge.errors import ToolError
from acp_bridge.headless import Streamed
from acp_bridge.limits import COMMAND, PATH
from acp_bridge.text import escaped
from acp_bridge.tools import Access, Call, Previewing, UserAnswer, Workspace, builtin_tools
from acp_bridge.tools.asking import hidden_in, hidden_said, inquired, leading_elsewhere, readable_entry
from acp_bridge.tools.mcp.offer import Offer
from acp_bridge.tools.mcp.tool import McpTool
from acp_bridge.tools.permission import options_for

DEFAULT_IGNORABLE = """00AD 034F 061C 115F-1160 17B4-17B5 180B-180F 200B-200F 202A-202E 2060-206F 3164 FE00-FE0F FEFF
FFA0 FFF0-FFF8 1BCA0-1BCA3 1D173-1D17A E0000-E0FFF"""
"""Unicode's DerivedCoreProperties.txt, Default_Ignorable_Code_Point; unassigned ones are in it, so it stays."""

BIDI = "061C 200E-200F 202A-202E 2066-2069"
CONTROLS = "0000-0008 000B-001F 007F-009F 2028-2029 D800-DFFF"


def points(ranges: str) -> list[str]:
    ends = [part.split("-") for part in ranges.split()]
    return [chr(code) for end in ends for code in range(int(end[0], 16), int(end[-1], 16) + 1)]


@pytest.mark.parametrize("ranges", [DEFAULT_IGNORABLE, BIDI, CONTROLS, "2800 16FE4 1D159 FFFE-FFFF"])
@pytest.mark.parametrize("lines", [False, True])
def test_no_character_that_hides_or_turns_is_shown_as_it_is(ranges: str, lines: bool) -> None:
    chars = points(ranges)
    shown = escaped("".join(chars), lines=lines)
    assert shown.isascii()
    assert shown.isprintable()
    assert shown.count("\\") == len(chars)  # none is left out, each reads as what it is


@given(st.text(st.characters(codec=None)))
def test_a_line_is_printable_and_is_escaped_once(text: str) -> None:
    assert escaped(text).isprintable()
    assert escaped(escaped(text)) == escaped(text)


@given(st.text(st.characters(codec=None)))
def test_text_of_several_lines_keeps_only_line_feeds_and_tabs(text: str) -> None:
    shown = escaped(text, lines=True)
    assert not [c for c in shown if c not in "\n\t" and unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp")]
    assert escaped(shown, lines=True) == shown


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("ls" + " " * 1500 + "; rm -rf x", "ls[1500 spaces]; rm -rf x"),
        ("a" + " " * 9 + "b", "a" + " " * 9 + "b"),
        ("a" + " " * 10 + "b", "a[10 spaces]b"),
        ("a" + "\u3000" * 3 + "b", r"a\u3000\u3000\u3000b"),
        ("a\x1b]52;c;eA==\x07", r"a\e]52;c;eA==\x07"),
        ("Größe 漢字 ✓", "Größe 漢字 ✓"),
    ],
)
def test_a_line_says_what_would_push_its_rest_out_of_sight(raw: str, shown: str) -> None:
    assert escaped(raw) == shown


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("def f():\n" + " " * 40 + "x\n\n\n\ty", "def f():\n" + " " * 40 + "x\n\n\n\ty"),
        ("yes?" + " " * 300 + "no", "yes?[300 spaces]no"),
        ("yes?" + "\t\u3000" * 150 + "no", "yes?[300 spaces]no"),
        ("yes?" + "\t" * 40 + "no", "yes?[40 spaces]no"),
        ("yes?" + "\u3000 \t" * 16 + "no", "yes?[48 spaces]no"),
        ("\t" * 15 + "x", "\t" * 15 + "x"),
        ("yes?" + "\n" * 401 + "no", "yes?\n[400 empty lines]\nno"),
        ("yes?" + "\n \t" * 400 + "\nno", "yes?\n[400 empty lines]\nno"),
        ("\u00ab\u202foui\u00a0!\u202f\u00bb", "\u00ab\u202foui\u00a0!\u202f\u00bb"),
    ],
)
def test_several_lines_say_so_too_and_keep_what_is_usual(raw: str, shown: str) -> None:
    assert escaped(raw, lines=True) == shown


def test_megabytes_of_blanks_are_counted_in_a_moment() -> None:
    assert hidden_in(changed(None, "x" + " " * 500_000 + "\n")) == ""
    assert escaped(" \n" * 1_000_000 + "x", lines=True) == " \n[999999 empty lines]\nx"
    assert escaped(" " * 5_000_000) == "[5000000 spaces]"


@pytest.mark.parametrize("lines", [False, True])
@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("a" + "\u0301" * 200 + ".txt", "a[200 marks].txt"),
        ("\u0e01" + "\u0e47" * 30, "\u0e01[30 marks]"),
        ("x" + "\u20dd" * 9, "x[9 marks]"),
        ("Việt e\u0302\u0301 \u0915\u094d\u0937\u093f क्षि", "Việt e\u0302\u0301 \u0915\u094d\u0937\u093f क्षि"),
        ("漢字" * 20, "漢字" * 20),
    ],
)
def test_marks_that_are_heaped_on_a_letter_are_counted(raw: str, shown: str, lines: bool) -> None:
    assert escaped(raw, lines=lines) == shown
    assert escaped(shown, lines=lines) == shown
    assert clean(raw) == shown


@pytest.mark.parametrize("ranges", [DEFAULT_IGNORABLE, BIDI, CONTROLS, "2800 16FE4 1D159 FFFE-FFFF"])
def test_what_is_read_of_a_stored_session_hides_nothing_but_how_emoji_are_joined(ranges: str) -> None:
    chars = [char for char in points(ranges) if char not in "\u200c\u200d\ufe0e\ufe0f"]
    assert clean("".join(chars)).isascii()
    assert clean("❤\ufe0f 👩\u200d💻 a\tb\n") == "❤\ufe0f 👩\u200d💻 a\tb\n"


@pytest.mark.parametrize("is_read", [True, False])
def test_an_answer_moves_no_cursor_of_who_reads_it_and_goes_to_a_file_as_it_is(
    is_read: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: is_read)
    printer = import_module("acp_bridge.cli.printers").TextPrinter()
    printer.print_event(Streamed(message_id="m", kind="text", text="a\x1b]52;c;eA==\x07\u202eb"))
    wanted = "a\\x1b]52;c;eA==\\x07\\u202eb" if is_read else "a\x1b]52;c;eA==\x07\u202eb"
    assert capsys.readouterr().out == wanted


def test_a_refusal_on_stderr_holds_neither_secrets_nor_escapes(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgres://app:s3cr3t-pw@db")
    assert main._refuse("no postgres://app:s3cr3t-pw@db\x1b[2J\u061c", 2) == 2
    assert capsys.readouterr().err == "acp-bridge: no postgres://app:[DATABASE_URL]@db\\e[2J\\u061c\n"


def test_what_is_allowed_for_good_is_named_so_that_it_can_be_read() -> None:
    [_, always, _] = options_for(Access(kind="execute", scope="cat a\ufe0f" + " " * 50 + "b in '/p'"))
    assert always.name == r"Always allow in this session: cat a\ufe0f[50 spaces]b in '/p'"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.mark.anyio
async def test_a_question_is_escaped_and_a_choice_comes_back_as_it_was_written() -> None:
    asked: list[object] = []

    async def person(question: str, options: tuple[str, ...]) -> UserAnswer:
        asked.extend((question, options))
        return UserAnswer("answered", options[1])

    answer = await inquired(person, "Go\u202e on?\x1b[2J\nnow", ("no", "y\u200bes"))
    assert asked == ["Go\\u202e on?\\e[2J\nnow", ("no", "y\\u200bes")]
    assert answer == UserAnswer("answered", "y\u200bes")


def changed(old: str | None, new: str) -> Diff:
    return Diff(path="/p/a", old_text=old, new_text=new)


def test_a_change_says_what_in_it_cannot_be_seen_and_stays_as_it_will_be_written() -> None:
    change = changed("if ok:\n  go()\n", "if ok:\n  go()\u202e # \u2066\n  x\u200b = 1\n" + " " * 1500 + "evil()\n")
    shown, said = hidden_said(change)
    assert shown == change
    assert said == Text(
        text="Not to be seen in this change: U+202E RIGHT-TO-LEFT OVERRIDE at line 2, column 7; "
        "U+2066 LEFT-TO-RIGHT ISOLATE at line 2, column 11; U+200B ZERO WIDTH SPACE at line 3, column 4; "
        "more text behind 1500 blanks at line 4"
    )
    tabs = changed("a\n", "a" + "\t" * 40 + "evil()\n")
    assert hidden_in(tabs) == "Not to be seen in this change: more text behind 40 blanks at line 1"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("a\u200b\nb\n", "a\u200b\nc\n"),  # in a line that stays
        ("\ufeffa\r\nb\r\n", "\ufeffA\r\nB\tx\r\n"),
        (None, "\ufeffnew\r\n"),
        ("x", "Größe 漢字 ✓"),
    ],
)
def test_a_change_without_hidden_characters_says_nothing(old: str | None, new: str) -> None:
    assert hidden_in(changed(old, new)) == ""


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("a\u200bb\n", "ab\n", "U+200B ZERO WIDTH SPACE at old line 1, column 2"),
        (None, "ls\rrm\n", "U+000D at line 1, column 3"),
        (None, "a\x1b[2J", "U+001B at line 1, column 2"),
        (None, "❤\ufe0f", "U+FE0F VARIATION SELECTOR-16"),
        (None, "\u200d" * 25, "; and 15 more"),
    ],
)
def test_what_a_change_takes_away_or_lets_a_terminal_do_is_said_too(old: str | None, new: str, words: str) -> None:
    assert words in hidden_in(changed(old, new))


async def called(tool: str, arguments: object) -> object:
    raise AssertionError(tool)


@pytest.mark.anyio
async def test_a_servers_tool_is_asked_for_with_its_arguments_and_allowed_for_good_with_any() -> None:
    """What a grant covers is said: arguments of tools that nobody here knows cannot be judged one by one."""
    offer = Offer(name="mcp__s__pay", tool="pay", description="pays", parameters={"type": "object"})
    tool = McpTool("s", offer, cast("Any", called))
    access = tool.access({"to": "Ada"}, cast("Workspace", None))
    assert access.scope == tool.access({"to": "Eve"}, cast("Workspace", None)).scope
    assert options_for(access)[1].name.endswith("), with any arguments")
    [shown] = await tool.preview({"to": "Ada\u202e", "```": 5}, cast("Call", None))
    assert shown == Text(text='````json\n{\n  "to": "Ada\\u202e",\n  "```": 5\n}\n````')
    assert await tool.preview({}, cast("Call", None)) == ()


def test_a_plan_shows_no_tricks_either() -> None:
    entry = {"content": "look\u202e\x1b[2J", "status": "pending"}
    assert readable_entry(entry) == {"content": "look\\u202e\\e[2J", "status": "pending"}


def test_there_is_one_escaping() -> None:
    """A second one would miss what the first one learns."""
    sources = Path(__file__).parents[2].joinpath("acp_bridge").rglob("*.py")
    defined = [path.name for path in sources if re.search(r"^def \w*escaped?\w*\(", path.read_text(), re.MULTILINE)]
    assert sorted(set(defined)) == ["text.py"]


# --- titles and questions ---


@dataclass
class Asks:
    """A project, beside a folder that is not in it, and the question that a call in it would put."""

    root: Path

    @property
    def workspace(self) -> Workspace:
        return Workspace(cwd=self.root, roots=(self.root,))

    def title(self, name: str, **arguments: Any) -> str:
        return TOOLS[name].present(arguments, self.workspace).title

    async def content(self, name: str, **arguments: Any) -> list[str]:
        """What is shown below the title, of texts."""
        tool = TOOLS[name]
        checked = tool.check(arguments)
        access = tool.access(checked, self.workspace)
        said: list[Any] = [*leading_elsewhere(tool.present(arguments, self.workspace), access, self.workspace)]
        if isinstance(tool, Previewing):
            said += await tool.preview(checked, cast("Call", None))
        return [block.text for block in said]


TOOLS = {tool.spec.name: tool for tool in builtin_tools()}


@pytest.fixture
def asks(tmp_path: Path) -> Asks:
    root = (tmp_path / "project").resolve()
    (root / "src").mkdir(parents=True)
    (root / "src" / "a.py").write_text("x")
    (tmp_path / "secret").write_text("key")
    (root / "CHANGELOG.md").symlink_to("../secret")
    (root / "inner.py").symlink_to("src/a.py")
    (root / "up").symlink_to("..")
    return Asks(root)


@pytest.mark.parametrize(
    ("name", "arguments", "title"),
    [
        ("read_file", {"path": "CHANGELOG.md"}, "Read CHANGELOG.md → {up}/secret, outside the project"),
        ("write_file", {"path": "CHANGELOG.md"}, "Write CHANGELOG.md → {up}/secret, outside the project"),
        ("edit_file", {"path": "up/x/new"}, "Edit up/x/new → {up}/x/new, outside the project"),
        ("list_files", {"path": "up"}, "List up → {up}, outside the project"),
        ("list_files", {"path": "up", "pattern": "*.k"}, "List *.k in up → {up}, outside the project"),
        ("search_files", {"path": "up", "pattern": "k"}, "Search k in up → {up}, outside the project"),
        ("read_file", {"path": "inner.py"}, "Read inner.py → src/a.py"),
        ("read_file", {"path": "src/../src/a.py"}, "Read src/../src/a.py"),
        ("read_file", {"path": "src/../../x"}, "Read src/../../x → {up}/x, outside the project"),
        ("read_file", {"path": "new.txt"}, "Read new.txt"),
        ("run_command", {"command": "ls", "cwd": "up"}, "ls (in {up}, outside the project)"),
        ("run_command", {"command": "ls", "cwd": "src"}, "ls (in src)"),
        ("run_command", {"command": "ls", "cwd": "."}, "ls"),
        ("run_command", {"command": "ls", "cwd": "~"}, "ls (in ~)"),
        ("run_command", {"command": "ls" + " " * 1500 + "; rm x"}, "ls[1500 spaces]; rm x"),
    ],
)
def test_a_title_says_where_a_call_leads(asks: Asks, name: str, arguments: dict[str, Any], title: str) -> None:
    assert asks.title(name, **arguments) == title.format(up=asks.root.parent)


def test_the_end_of_a_long_title_says_where_it_leads(asks: Asks) -> None:
    deep = "/".join(["d" * 60] * 20)
    assert asks.title("read_file", path=f"up/{deep}").endswith("d, outside the project")
    shown = asks.title("run_command", command="echo " + "a" * 5000, cwd="up")
    assert shown.endswith(f"a (in {asks.root.parent}, outside the project)")


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("command", "content"),
    [
        ("ls -la", []),
        ("echo " + "a" * 3000 + "; rm -rf x", ["```sh\necho " + "a" * 3000 + "; rm -rf x\n```"]),
        ("cat <<E\n```\nE\necho \u202e", ["````sh\ncat <<E\n```\nE\necho \\u202e\n````"]),
        ("ls" + " " * 1500 + "; rm", ["```sh\nls[1500 spaces]; rm\n```"]),
    ],
)
async def test_a_command_that_its_title_does_not_show_whole_is_in_the_question(
    asks: Asks, command: str, content: list[str]
) -> None:
    assert await asks.content("run_command", command=command) == content


@pytest.mark.parametrize(("extra", "ok"), [(0, True), (1, False)])
@pytest.mark.parametrize("char", ["a", "\u202e"])
def test_a_command_that_nobody_could_be_shown_whole_is_refused(extra: int, ok: bool, char: str) -> None:
    command = char * ((COMMAND - 10) // len(escaped(char)))
    command += "b" * (COMMAND - len(escaped(command)) + extra)
    with nullcontext() if ok else pytest.raises(ToolError, match="longer than 64,000 characters; write a script"):
        TOOLS["run_command"].check({"command": command})


@pytest.mark.anyio
async def test_a_question_says_where_the_judged_path_leads_whatever_the_title_says(asks: Asks) -> None:
    """A link that is changed between the showing and the judging is named as it was judged."""
    assert await asks.content("read_file", path="CHANGELOG.md") == [
        f"This leads to:\n```\n{asks.root.parent}/secret, outside the project\n```"
    ]
    assert await asks.content("read_file", path="src/a.py") == []


@pytest.mark.parametrize(("length", "ok"), [(PATH, True), (PATH + 1, False)])
def test_a_path_of_more_than_any_file_has_is_not_looked_at(asks: Asks, length: int, ok: bool) -> None:
    with nullcontext() if ok else pytest.raises(ToolError, match="longer than 4,096 characters"):
        TOOLS["read_file"].access({"path": "./" * (length // 2) + "a" * (length % 2)}, asks.workspace)

"""What a terminal would show in the end: each case as a terminal shows it, in any pieces, and never costly."""

import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.alone import alone
from support.script import use

from acp_bridge.tools.screen import COLUMNS, ROWS, Screen


def shown(text: str, size: int = 0) -> str:
    screen = Screen()
    step = size or max(1, len(text))
    return "".join(screen.feed(text[at : at + step]) for at in range(0, len(text), step)) + screen.rest()


BARS = "".join(f"\x1b[2A\x1b[2Kone {n}%\n\x1b[2Ktwo {n}%\n" for n in range(40))


@pytest.mark.parametrize("size", [0, 1, 3])
@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ("a\nb\r\nc", "a\nb\nc"),
        ("10%\r20%\r100%\n", "100%\n"),
        ("".join(f"\r\x1b[32m{n}%\x1b[0m\x1b[K" for n in range(3000)) + "\ndone\n", "2999%\ndone\n"),
        ("downloading\rdone", "doneloading"),
        ("downloading\r\x1b[Kdone", "done"),
        ("downloading\rdone       \nnext", "done\nnext"),
        ("abc\b\b\bX", "Xbc"),
        ("12345\x1b[2D\x1b[Pz", "123z"),
        ("one 0%\ntwo 0%\n" + BARS + "end", "one 39%\ntwo 39%\nend"),
        ("a\x1b[1mb\x1b[0m\x1b[38;5;12mc\x1b[m", "abc"),
        ("\x1b]0;title\x07a\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\!\x1b(B\x1b=\x1b[?25l", "alink!"),
        ("\x1bP+q544e\x1b\\a\x9b31mb\a", "ab"),
        ("kept\n\x1b[2J\x1b[Hfresh", "fresh"),
        ("a\x1b7bc\x1b8X", "aXc"),
        ("\x1b[5Cx", "     x"),
        ("tab\tstays\n  blanks  \n", "tab\tstays\n  blanks  \n"),
        ("a\0b\0", "a\0b\0"),
        ("1\n2\n3\x1b[1A\x1b[2K", "1\n\n3"),
    ],
)
def test_what_was_drawn_over_is_gone_and_the_rest_is_as_written(raw: str, expected: str, size: int) -> None:
    assert shown(raw, size) == expected


@given(st.text(st.characters(exclude_categories=("Cc", "Cs"), include_characters="\n\t"), max_size=300))
def test_plain_text_is_shown_as_it_is(text: str) -> None:
    assert shown(text, 7) == shown(text) == text


def test_lines_of_any_length_and_number_are_kept_whole() -> None:
    text = "x" * (3 * COLUMNS + 1) + "\n" + "".join(f"{n}\n" for n in range(5 * ROWS))
    assert shown(text, 1000) == text


ESCAPES = ("[A", "[9B", "[2K", "[1K", "[J", "[1J", "[L", "[M", "[9@", "M")
MOVES = ["a", "\n", "\r", "\b", *(f"\x1b{end}" for end in ESCAPES)]


@given(st.lists(st.sampled_from(MOVES)))
def test_no_sequence_leads_out_of_the_screen(parts: list[str]) -> None:
    assert "\x1b" not in shown("".join(parts) * 9)


@pytest.mark.parametrize("frame", ["[1K", "[9999Cx", "[L", "]", "[9999@", "[1J", "[2A\x1b[B"])
def test_no_sequence_is_costly(frame: str) -> None:
    small, large = ("x" * COLUMNS + "\n" * 9 + f"\x1b{frame}" * count for count in (2_000, 16_000))
    began = time.process_time()
    shown(small)
    between = time.process_time()
    shown(large)
    assert time.process_time() - between < 40 * (between - began) + 0.5  # eight times the input; no square of it


async def test_a_model_reads_the_last_frame_and_the_file_holds_them_all(tmp_path: Path) -> None:
    draw = "i=0; while [ $i -lt 3000 ]; do printf '\\r\\033[32m%d%%\\033[0m of something' $i; i=$((i+1)); done; echo"
    async with alone(tmp_path, use("run_command", command=draw)) as agent:
        await agent.prompted()
        [told] = agent.told()
        assert told.startswith("2999% of something\n[what was drawn over is left out; read_file")
        [spill] = agent.home.rglob("spill/*")
        assert spill.read_bytes().count(b"\r\x1b[32m") == 3000

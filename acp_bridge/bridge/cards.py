"""Tool cards as clients draw them: which a client has no use for, and which text on them is to be shown as it is.

Pure but for what it has seen of each card. Knows no log and no connection.

Decision: every client is sent the protocol's plan updates, and no capability says whether it draws them. Those known to
draw none are known by the name that they give themselves; they are shown the calls, with the entries as content.

Decision: clients render a card's text as Markdown, so that the output of `cat README.md` would become headings. What
comes from a file or a command is put in a fence; `rawOutput` has it bare, for clients that draw it themselves.
"""

import re
from typing import Any, Final

from acp_bridge.acp.outbound import Json

UPDATE_PLAN = "update_plan"

VERBATIM: Final = frozenset({"run_command", "read_file", "search_files", "list_files"})
"""The tools whose text is what a file or a command holds."""

_PLAIN_LINE: Final = re.compile(
    r"(?! {4}|\s*[-+=]|\s*\d+[.)])[^\n\r*`<>#|~\\!&\[\]]*\n?|\[[^\n\r*`<>#|~\\!&\[\]]*\]\n?"
)
"""One line that Markdown leaves as it is but for underscores, or a note of ours in brackets."""
_OPENS: Final = re.compile(r"(?<!\w)_++(?=\S)")
_CLOSES: Final = re.compile(r"(?<=[^\s_])_++(?!\w)")
"""Underscores that begin and end what is emphasised; those within a word, as in a path, do not."""
_LONGEST_FENCE: Final = 100
"""A text with a longer run of both signs is shown bare: it is not made to be read, and its fence would be as long."""


class Cards:
    """Makes of each update, in the order in which they are sent, what one client is to be sent."""

    def __init__(self, *, client_shows_plans: bool) -> None:
        self._left_out: set[str] | None = set() if client_shows_plans else None
        self._verbatim: set[str] = set()

    def drawn(self, update: Json) -> Json | None:
        """Return `update` as it is sent; None if it is about a card that this client has no use for."""
        call_id = update.get("toolCallId")
        if call_id is None:
            return update
        if update["sessionUpdate"] == "tool_call":
            if update.get("name") == UPDATE_PLAN and self._left_out is not None:
                self._left_out.add(call_id)
            if update.get("name") in VERBATIM:
                self._verbatim.add(call_id)
        if self._left_out is not None and call_id in self._left_out:
            return None
        if call_id in self._verbatim and update.get("content"):
            return {**update, "content": [_as_it_is(item) for item in update["content"]]}
        return update


def _as_it_is(item: Json) -> Json:
    block: dict[str, Any] = item.get("content", {})
    return {**item, "content": {**block, "text": fenced(block["text"])}} if block.get("type") == "text" else item


def fenced(text: str) -> str:
    """Return text so that a renderer of Markdown (CommonMark, fenced code blocks) shows it as it is."""
    if _PLAIN_LINE.fullmatch(text) and not _has_emphasis(text):
        return text
    for sign in "`~":
        fence = sign * max(3, 1 + max(map(len, re.findall(f"{re.escape(sign)}+", text)), default=0))
        if len(fence) <= _LONGEST_FENCE:
            return f"{fence}\n{text}{'' if text.endswith(chr(10)) else chr(10)}{fence}"
    return text


def _has_emphasis(text: str) -> bool:
    opens = _OPENS.search(text)
    return opens is not None and _CLOSES.search(text, opens.end()) is not None

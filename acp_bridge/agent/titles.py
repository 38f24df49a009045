"""A session's title, from its first prompt. Pure."""

from collections.abc import Sequence

from acp_bridge.content import PromptBlock, Resource, ResourceLink, Text
from acp_bridge.text import escaped

_TITLE_CHARS = 60


def title_of(content: Sequence[PromptBlock]) -> str:
    """Return the prompt's words in one line, cut; of one without words, what was attached: a list shows no bare id."""
    words = " ".join(block.text for block in content if isinstance(block, Text)).split()
    title = escaped(" ".join(words)) or escaped(
        " ".join(", ".join(_named(block) for block in content if not isinstance(block, Text)).split())
    )
    return title if len(title) <= _TITLE_CHARS else title[: _TITLE_CHARS - 1].rstrip() + "…"


def _named(block: PromptBlock) -> str:
    match block:
        case ResourceLink():
            return block.title or block.name or "a link"
        case Resource():
            return block.uri.rpartition("/")[2] or "a text"
        case _:
            return "an image"

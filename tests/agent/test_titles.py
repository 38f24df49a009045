"""What a session is called after its first prompt."""

import pytest

from acp_bridge.agent.titles import title_of
from acp_bridge.content import Image, PromptBlock, Resource, ResourceLink, Text

PICTURE = Image(mime_type="image/png", file="0" * 64, size=1)


@pytest.mark.parametrize(
    ("content", "title"),
    [
        ((Text(text="Fix\n  it"),), "Fix it"),
        ((Text(text="word " * 20),), "word " * 11 + "word…"),
        ((PICTURE, Text(text="What is this?")), "What is this?"),
        ((PICTURE,), "an image"),
        ((Text(text=" \n"), Resource(uri="file:///a/b.py", text="x"), PICTURE), "b.py, an image"),
        ((ResourceLink(uri="file:///a", name="a"),), "a"),
        ((Text(text=" "),), ""),
    ],
)
def test_a_title_is_the_prompts_words_or_what_was_attached(content: tuple[PromptBlock, ...], title: str) -> None:
    assert title_of(content) == title

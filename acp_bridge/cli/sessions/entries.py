"""What a conversation is told in: prompts, answers, thoughts, tool cards, notes. Knows no log and no rendering."""

from dataclasses import dataclass
from typing import Literal, TypeAlias, assert_never

from acp_bridge.content import Diff, Image, JsonObject, PromptBlock, Resource, ResourceLink, Text
from acp_bridge.text import quantity

Level: TypeAlias = Literal["info", "warning", "error"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnStart:
    """A turn began."""

    turn: int
    time: int
    continues: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """What the user asked. `fate` says in words why it never ran, if it did not."""

    blocks: tuple[PromptBlock, ...]
    time: int
    fate: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What the model said. `partial`: no more of it had arrived."""

    text: str
    partial: bool = False
    message_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Thinking:
    """What the model thought."""

    text: str
    message_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """A tool request and what became of it.

    Attributes:
        status: in words.
        level: `info` if it went well.
        permission: who allowed or denied it, in words, if anybody was asked.
        shown: what the user saw of it.
    """

    title: str
    name: str
    arguments: str
    status: str
    level: Level
    permission: str = ""
    shown: tuple[Text | Diff | Image, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """A sentence of the program's own."""

    text: str
    level: Level = "info"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The plan, as a turn left it."""

    items: tuple[JsonObject, ...]


Entry: TypeAlias = TurnStart | Prompt | Answer | Thinking | Card | Note | Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """A whole conversation."""

    session_id: str
    title: str
    cwd: str
    created: int
    updated: int
    turns: int
    models: tuple[str, ...]
    entries: tuple[Entry, ...]
    forked_from: str = ""


def images_of(timeline: Timeline) -> set[str]:
    """Return the names of the content files that the pictures of prompts and tools are in."""
    blocks = (
        block
        for entry in timeline.entries
        if isinstance(entry, Prompt | Card)
        for block in (entry.blocks if isinstance(entry, Prompt) else entry.shown)
    )
    return {block.file for block in blocks if isinstance(block, Image)}


def block_text(block: PromptBlock) -> str:
    """Return a prompt's block in words; a text as it is."""
    match block:
        case Text():
            return block.text
        case Image():
            return f"[image: {block.mime_type}, {block.size:,} bytes]"
        case ResourceLink():
            return f"[{block.title or block.name}: {block.uri}]"
        case Resource():
            return f"[attached: {block.uri}, {quantity(len(block.text.splitlines()), 'line')}]"
        case _:
            assert_never(block)

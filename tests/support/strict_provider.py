"""What providers accept of a conversation, as strictly as the strictest of them; written from their rules, not ours."""

import re
from collections.abc import Sequence

from acp_bridge.content import Image, Resource, ResourceLink, Text, Thought, ToolRequest
from acp_bridge.session import FromAssistant, FromTools, FromUser, Message

_ID = re.compile(r"^[a-zA-Z0-9_-]{1,64}$")


class Refused(Exception):
    """A provider would answer 400."""


def accept(messages: Sequence[Message]) -> None:
    """Take a whole request, which asks for the assistant's next message.

    Raises:
        Refused: no provider, or not every one, takes it.
    """
    if not messages:
        raise Refused("no messages")
    if not isinstance(messages[0], FromUser):
        raise Refused("the user does not begin")
    if isinstance(messages[-1], FromAssistant):
        raise Refused("the assistant has the last word")
    seen: set[str] = set()
    for before, message in zip((None, *messages), messages, strict=False):
        match message:
            case FromUser():
                _accept_user(before, message)
            case FromAssistant():
                _accept_assistant(before, message, seen)
            case FromTools():
                _accept_tools(before, message)


def _accept_user(before: Message | None, message: FromUser) -> None:
    if isinstance(before, FromUser):
        raise Refused("two messages of the user's in a row")
    if isinstance(before, FromAssistant) and before.requests:
        raise Refused(f"{before.requests[0].call_id} has no result")
    if not any(_says(block) for block in message.content):
        raise Refused("a user's message says nothing")


def _says(block: Text | Image | Resource | ResourceLink) -> bool:
    return bool(block.text.strip()) if isinstance(block, Text) else True


def _accept_assistant(before: Message | None, message: FromAssistant, seen: set[str]) -> None:
    if isinstance(before, FromAssistant):
        raise Refused("two messages of the assistant's in a row")
    if all(isinstance(block, Thought) for block in message.content):
        raise Refused("an assistant's message of thoughts alone")
    if any(isinstance(block, Text) and not block.text.strip() for block in message.content):
        raise Refused("an assistant's text that says nothing")
    kinds = [isinstance(block, ToolRequest) for block in message.content]
    if kinds != sorted(kinds):
        raise Refused("text behind a tool request")
    for request in message.requests:
        if not _ID.match(request.call_id):
            raise Refused(f"{request.call_id!r} is no id")
        if request.call_id in seen:
            raise Refused(f"{request.call_id} was used before")
        seen.add(request.call_id)


def _accept_tools(before: Message | None, message: FromTools) -> None:
    if not isinstance(before, FromAssistant):
        raise Refused("results without requests before them")
    if [answer.call_id for answer in message.answers] != [request.call_id for request in before.requests]:
        raise Refused("the results are not those of the requests before them, one each, in their order")
    for answer in message.answers:
        if not answer.content:
            raise Refused(f"the result of {answer.call_id} is empty")

"""Which pictures a request holds, and what a model reads in the place of the others.

Pure. Owns that a request stays within what a provider takes, however many pictures a session has seen: the newest go,
of the earlier ones it is told in words. Knows no provider and no bytes.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import count
from typing import TypeVar

from acp_bridge.content import AnswerBlock, Image, PromptBlock, ResultBlock, Text
from acp_bridge.limits import SENT_PICTURE_BYTES, SENT_PICTURES

from .transcript import FromAssistant, FromTools, FromUser, Message, ToolAnswer

B = TypeVar("B", bound=PromptBlock | ResultBlock)

BLIND = "was left out: this model does not take it"
LOST = "is lost: the session's copy of it is gone"
_EARLIER = "was left out: so many pictures came after it that a request takes no more; look at it again if need be"


def picture_words(image: Image, why: str) -> str:
    """Return what the model reads in place of a picture that is not sent."""
    return f"[a picture ({image.mime_type}{f', {image.uri}' if image.uri else ''}) {why}]"


def pictures_in(messages: Iterable[Message]) -> Iterator[Image]:
    """Yield the pictures of messages in their order."""
    for message in messages:
        for content in _contents(message):
            yield from (block for block in content if isinstance(block, Image))


def without_pictures(messages: Iterable[Message]) -> tuple[Message, ...]:
    """Return the messages with every picture in words, for a model that takes none."""
    return tuple(_replace_pictures(message, lambda image: picture_words(image, BLIND)) for message in messages)


def with_newest_pictures(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Return the messages with the newest pictures that fit into one request, and the earlier ones in words."""
    left, room = SENT_PICTURES, SENT_PICTURE_BYTES
    earlier = 0
    for image in reversed(list(pictures_in(messages))):
        left, room = left - 1, room - image.size
        if earlier or left < 0 or room < 0:  # none before one that was left out: what came last matters most
            earlier += 1
    if not earlier:
        return tuple(messages)
    place = count()
    return tuple(
        _replace_pictures(message, lambda image: picture_words(image, _EARLIER) if next(place) < earlier else "")
        for message in messages
    )


def _replace_pictures(message: Message, words: Callable[[Image], str]) -> Message:
    """Return the message with those pictures as text that there are words for."""
    if not any(isinstance(block, Image) for content in _contents(message) for block in content):
        return message
    match message:
        case FromUser(content):
            return FromUser(tuple(_replace_picture(block, words) for block in content))
        case FromTools(answers):
            return FromTools(
                tuple(
                    ToolAnswer(a.call_id, tuple(_replace_picture(block, words) for block in a.content), a.is_error)
                    for a in answers
                )
            )
        case FromAssistant():
            return message


def _replace_picture(block: B, words: Callable[[Image], str]) -> B | Text:
    return Text(text=said) if isinstance(block, Image) and (said := words(block)) else block


def _contents(message: Message) -> Iterator[Sequence[PromptBlock | AnswerBlock | ResultBlock]]:
    match message:
        case FromUser(content) | FromAssistant(content):
            yield content
        case FromTools(answers):
            for answer in answers:
                yield answer.content

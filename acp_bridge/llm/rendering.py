"""What both kinds of provider are told in the same words: pointed-at things, lost pictures, tool arguments.

Owns the words. Knows no provider's message shapes.
"""

import base64
import hashlib
import re
from dataclasses import dataclass
from typing import Any, cast

import orjson

from acp_bridge.content import Image, JsonObject, Resource, ResourceLink, Thought
from acp_bridge.pictures import HEAD, Facts, examined, kind_of
from acp_bridge.session import BLIND, LOST, FromAssistant, ModelRequest, picture_words
from acp_bridge.text import mended, read_json

from .endpoint import Endpoint

_DEPTH = 250  # levels that orjson writes
_PLAIN_ID = re.compile(r"[A-Za-z0-9_-]{1,40}")


def wire_id(call_id: str, *, length: int = 0) -> str:
    """Return a call's id as every provider takes it, always the same one; `length` is exact."""
    if not length and _PLAIN_ID.fullmatch(call_id):
        return call_id
    return hashlib.sha256(call_id.encode()).hexdigest()[: length or 32]


def link_text(link: ResourceLink) -> str:
    """Return a link as text: the model may read it with a tool."""
    label = link.title or link.name
    notes = [note for note in (link.description, link.mime_type) if note]
    about = "; ".join(notes)
    return f"[{label}]({link.uri}){f' ({about})' if about else ''}"


def resource_text(resource: Resource) -> str:
    """Return an attached text within a fence that the text itself cannot close."""
    fence = "```"
    while fence in resource.text:
        fence += "`"
    end = "" if resource.text.endswith("\n") else "\n"
    return f"{resource.uri}:\n{fence}\n{resource.text}{end}{fence}"


def thoughts_of(message: FromAssistant) -> str:
    """Return an answer's thoughts for a server that takes none without; what it was about, where it has none.

    Not one text for all: a model that is shown the same thought before each of its steps falls to repeating it.
    """
    thoughts = "".join(block.text for block in message.content if isinstance(block, Thought))
    called = ", ".join(f"{request.name} ({request.call_id})" for request in message.requests)
    return thoughts.strip() or (f"The next step: {called}." if called else "The answer follows.")


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture as it is sent: of the kind that its bytes show, whatever it was said to be; in base64."""

    mime_type: str
    data: str


def render_picture(image: Image, request: ModelRequest, endpoint: Endpoint, *, bounded: bool = False) -> Picture | str:
    """Return a picture as it goes to a provider, or what the model reads in its place.

    Args:
        image: as the log has it.
        request: holds its bytes, unless they are lost.
        endpoint: knows what its model takes, and what its server has refused.
        bounded: the provider refuses a whole request for one picture beyond the bounds, or of another kind.
    """
    if not endpoint.takes_images:
        return picture_words(image, BLIND)
    if image.file in endpoint.spoiled:
        return picture_words(image, "was left out: the model's server refused it")
    if (data := request.files.get(image.file)) is None:
        return picture_words(image, LOST)
    kind = kind_of(data[:HEAD]) or image.mime_type
    if bounded:
        facts = examined(data, whole=False)
        if not isinstance(facts, Facts):
            return picture_words(image, f"was left out: {facts}")
    return Picture(kind, base64.b64encode(data).decode())


def arguments_object(text: str) -> JsonObject:
    """Return tool arguments as the object that they hold; what is no object is kept in sight under one key."""
    try:
        value: Any = mended(read_json(text or "{}"), depth=_DEPTH)
    except ValueError:
        return {"malformed_arguments": text}
    return cast("JsonObject", value) if isinstance(value, dict) else {"malformed_arguments": text}


def arguments_text(text: str) -> str:
    """Return tool arguments as JSON text of an object: some servers parse it and refuse the whole request else."""
    return text if is_object(text) else orjson.dumps(arguments_object(text)).decode()


def is_object(text: str) -> bool:
    """Whether `text` is a whole JSON object."""
    try:
        return isinstance(orjson.loads(text), dict)
    except orjson.JSONDecodeError:
        return False

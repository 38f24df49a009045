"""What both kinds of provider are told in the same words: pointed-at things, lost pictures, tool arguments.

Owns the words. Knows no provider's message shapes.
"""

import base64
import hashlib
import re
from collections.abc import Mapping
from typing import Any, cast

import orjson

from acp_bridge.content import Image, JsonObject, Resource, ResourceLink
from acp_bridge.text import mended, read_json

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


def image_bytes(image: Image, files: Mapping[str, bytes]) -> str | None:
    """Return the picture in base64, None if it is lost."""
    data = files.get(image.file)
    return None if data is None else base64.b64encode(data).decode()


def lost_text(image: Image, why: str = "is lost: the session's copy of it is gone") -> str:
    """Return what the model reads in place of a picture that cannot be sent."""
    return f"[a picture ({image.mime_type}{f', {image.uri}' if image.uri else ''}) {why}]"


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

"""The pictures of a tool's output: which of them are kept, and in what words the rest is told of.

Pure. Owns that one picture which no model takes fails only itself, and how many one result may have. Stores nothing.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from acp_bridge.content import Image, ResultBlock, Text
from acp_bridge.limits import MIB, RESULT_PICTURE_BYTES, RESULT_PICTURES
from acp_bridge.pictures import Facts, examined
from acp_bridge.redaction import Secrets
from acp_bridge.text import escaped

from .tool import Picture, ToolOutput


@dataclass(frozen=True, slots=True)
class Kept:
    """An output whose pictures are named, and their bytes by content file."""

    output: ToolOutput
    files: Mapping[str, bytes] = field(default_factory=dict[str, bytes])


def has_pictures(output: ToolOutput) -> bool:
    """Whether there are bytes of pictures in it."""
    return any(isinstance(block, Picture) for block in output.content)


def kept(output: ToolOutput, secrets: Secrets) -> Kept:
    """Return the output with each picture as the log can name it, or as words; of a large one, in a thread."""
    files: dict[str, bytes] = {}
    content: list[ResultBlock] = []
    count = size = 0
    for block in output.content:
        if not isinstance(block, Picture):
            content.append(block)
            continue
        count, size = count + 1, size + len(block.data)
        found = "" if count <= RESULT_PICTURES else f"a result may have {RESULT_PICTURES}"
        if size > RESULT_PICTURE_BYTES:
            found = found or f"the pictures of a result may have {RESULT_PICTURE_BYTES // MIB} MiB together"
        facts = found or _facts(block, secrets)
        if isinstance(facts, Facts):
            name = hashlib.sha256(block.data).hexdigest()
            files[name] = block.data
            content.append(Image(mime_type=facts.mime_type, file=name, size=len(block.data), uri=block.uri))
        else:
            content.append(Text(text=left_out(block, facts)))
    return Kept(replace(output, content=tuple(content)), files)


def _facts(picture: Picture, secrets: Secrets) -> Facts | str:
    """Return what a picture is, or why it is not kept."""
    facts = examined(picture.data)
    if isinstance(facts, Facts) and secrets.hidden_bytes(picture.data) != picture.data:
        return "it holds a secret that is shown to nobody"
    return facts


def left_out(picture: Picture, why: str) -> str:
    """Return what the model reads in a picture's place."""
    name = f" {escaped(picture.uri[:200])}" if picture.uri else ""
    return f"[a picture{name} was left out: {why}]"

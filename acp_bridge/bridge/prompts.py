"""A prompt's blocks, from the protocol's shapes into ours.

Pure, but for what it attaches. Owns what is taken and what is refused by name: nothing that a user attached goes
missing without a word.
"""

import base64
from collections.abc import Callable
from typing import assert_never

from acp_bridge.acp.inbound import AudioBlock, ImageBlock, LinkBlock, Prompt, ResourceBlock, TextBlock
from acp_bridge.content import Image, PromptBlock, Resource, ResourceLink, Text
from acp_bridge.text import mended_text


def prompt_content(prompt: Prompt, *, takes_images: bool, attach: Callable[[bytes], str]) -> tuple[PromptBlock, ...]:
    """Return the prompt's blocks.

    Args:
        prompt: as it came in.
        takes_images: whether the session's model does.
        attach: takes an image's bytes and returns the name of its content file.

    Raises:
        ValueError: it is empty, or holds a block that this agent did not advertise; the message says which.
    """
    if not prompt.prompt:
        raise ValueError("prompt: must hold at least one block")
    if not takes_images and any(isinstance(block, ImageBlock) for block in prompt.prompt):
        raise ValueError("prompt: the session's model takes no images; choose another model or leave them out")
    taken: list[TextBlock | ImageBlock | LinkBlock | ResourceBlock] = []
    for place, block in enumerate(prompt.prompt):
        match block:
            case AudioBlock():
                raise ValueError(f"prompt.{place}: audio is not taken")
            case _:
                taken.append(block)
    return tuple(_block(block, attach) for block in taken)  # a prompt that is refused has attached nothing


def _block(block: TextBlock | ImageBlock | LinkBlock | ResourceBlock, attach: Callable[[bytes], str]) -> PromptBlock:
    match block:
        case TextBlock():
            return Text(text=mended_text(block.text))
        case LinkBlock():
            return ResourceLink(
                uri=mended_text(block.uri),
                name=mended_text(block.name),
                title=mended_text(block.title or ""),
                mime_type=mended_text(block.mime_type or ""),
                description=mended_text(block.description or ""),
                size=block.size,
            )
        case ResourceBlock():
            resource = block.resource
            if resource.text is None:  # named as dropped, to the model and so to its reader
                kind = resource.mime_type or "unknown type"
                return Text(
                    text=mended_text(f"[{resource.uri}, binary data of {kind}, cannot be read and was left out]")
                )
            return Resource(
                uri=mended_text(resource.uri),
                text=mended_text(resource.text),
                mime_type=mended_text(resource.mime_type or ""),
            )
        case ImageBlock():
            data = base64.b64decode(block.data)
            return Image(
                mime_type=mended_text(block.mime_type),
                file=attach(data),
                size=len(data),
                uri=mended_text(block.uri or ""),
            )
        case _:
            assert_never(block)

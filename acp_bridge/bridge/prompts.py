"""A prompt's blocks, from the protocol's shapes into ours.

Pure. Owns what is taken and what is refused by name: nothing that a user attached goes missing without a word.
"""

from typing import assert_never

from acp_bridge.acp.inbound import AudioBlock, ImageBlock, LinkBlock, Prompt, ResourceBlock, TextBlock
from acp_bridge.content import PromptBlock, Resource, ResourceLink, Text, mended_text


def prompt_content(prompt: Prompt) -> tuple[PromptBlock, ...]:
    """Return the prompt's blocks.

    Raises:
        ValueError: it is empty, or holds a block that this agent did not advertise; the message says which.
    """
    if not prompt.prompt:
        raise ValueError("prompt: must hold at least one block")
    return tuple(_block(place, block) for place, block in enumerate(prompt.prompt))


def _block(place: int, block: TextBlock | ImageBlock | AudioBlock | LinkBlock | ResourceBlock) -> PromptBlock:
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
            if resource.text is None:
                raise ValueError(f"prompt.{place}: binary resources are not taken; attach text, or link to the file")
            return Resource(
                uri=mended_text(resource.uri),
                text=mended_text(resource.text),
                mime_type=mended_text(resource.mime_type or ""),
            )
        case ImageBlock():
            raise ValueError(f"prompt.{place}: images are not taken")
        case AudioBlock():
            raise ValueError(f"prompt.{place}: audio is not taken")
        case _:
            assert_never(block)


def is_command(content: tuple[PromptBlock, ...], name: str) -> bool:
    """Whether the prompt is the slash command `name` and nothing else."""
    match content:
        case (Text(text=text),):
            return text.strip() == f"/{name}"
        case _:
            return False

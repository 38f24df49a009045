"""What a server says that it does not take, so that the same request is made once more without it.

Pure. Owns the reading of such refusals. Nothing of this is known before: a model of an unknown name may see or not,
and what one server gave with an answer and wants back, another gives and refuses.
"""

import re
from collections.abc import Iterator

from acp_bridge.content import Image, PromptBlock
from acp_bridge.session import FromAssistant, FromTools, FromUser, ModelRequest

from .model import Failed

_IMAGES = re.compile(r"image|vision|multi-?modal", re.IGNORECASE)
_REFUSED = re.compile(
    r"unsupported|not supported|unrecogni[sz]ed|unknown|unexpected|not permitted|extra_|additional prop"
)


def refuses_images(failed: Failed, request: ModelRequest) -> bool:
    """Whether a request failed for its images."""
    if failed.failure.kind in ("auth", "rate_limit") or failed.failure.status is None:
        return False
    return bool(_IMAGES.search(failed.failure.message)) and any(isinstance(b, Image) for b in _blocks(request))


def refused_members(failed: Failed, request: ModelRequest) -> frozenset[str]:
    """Return which members that were given back the server does not take, by name."""
    message = failed.failure.message
    if failed.failure.kind != "bad_request" or not _REFUSED.search(message.lower()):
        return frozenset()
    own = [m for m in request.messages if isinstance(m, FromAssistant) and m.route == request.route]
    given = {name for m in own for name in m.extra or ()} | {n for m in own for r in m.requests for n in r.extra or ()}
    given |= {form for m in own for b in m.content if (form := getattr(b, "form", ""))}
    return frozenset(
        name for name in given - {"content", "function", "id"} if re.search(rf"\b{re.escape(name)}\b", message)
    )


def once_more(failed: Failed) -> Failed:
    """Return the same failure as one that is tried again at once."""
    return Failed(failed.failure, retryable=True, retry_after_s=0.0)


def _blocks(request: ModelRequest) -> Iterator[PromptBlock]:
    for message in request.messages:
        match message:
            case FromUser(content):
                yield from content
            case FromTools(answers):
                for answer in answers:
                    yield from answer.content
            case FromAssistant():
                pass

"""What a server says that it does not take, or misses, so that the same request is made once more without or with it.

Pure. Owns the reading of such refusals. Nothing of this is known before: a model of an unknown name may see or not,
a picture that one server takes another does not, and what one gave with an answer and wants back, another gives and
refuses.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from acp_bridge.content import Image, PromptBlock
from acp_bridge.session import FromAssistant, FromTools, FromUser, Message, ModelRequest

from .endpoint import Endpoint
from .model import Failed

_OTHER_REASONS = frozenset(("auth", "rate_limit", "context_overflow"))
_IMAGES = re.compile(r"image|vision|multi-?modal", re.IGNORECASE)
_SPOILED = re.compile(
    r"(?:not|n't|unable to) (?:be )?(?:process|decode|read|load|open|identify)|failed to (?:process|decode|read|load)"
    r"|invalid (?:base64 )?image|corrupt|exceed|too (?:large|big|small|many)|dimension|pixel|maximum size"
    r"|unsupported image(?! (?:input|content|modal))|image (?:type|format)|media.?type|mime|file format",
    re.IGNORECASE,
)
"""What is said of one picture, rather than of all."""
_REFUSED = re.compile(
    r"unsupported|not supported|unrecogni[sz]ed|unknown|unexpected|not permitted|extra_|additional prop"
)
_MISSING = re.compile(r"\bmissing\b|must be passed back|must (?:include|contain|have)", re.IGNORECASE)
_WANTED = ("reasoning_content", "thought_signature", "thinking")


def learn(endpoint: Endpoint, failed: Failed, request: ModelRequest, *, gives_back: bool) -> Endpoint:
    """Return the endpoint with what a refusal says of it, the same if it says nothing new.

    `gives_back` is whether the request returned members of earlier answers that can be left out.
    """
    if (less := without_pictures(endpoint, failed, request)) != endpoint:
        return less
    if gives_back and (news := find_refused(failed, request) - endpoint.refused):
        return replace(endpoint, refused=endpoint.refused | news)
    if news := find_wanted(failed) - endpoint.wanted - endpoint.refused:
        return replace(endpoint, wanted=endpoint.wanted | news)
    return endpoint


def without_pictures(endpoint: Endpoint, failed: Failed, request: ModelRequest) -> Endpoint:
    """Return the endpoint without what a request failed for of its pictures; the same if it did not fail for them.

    Where the words are about a picture and not about the model, it is only those that came since the last answer that
    are left out, if there are any: the earlier ones have been taken.
    """
    message = failed.failure.message
    if not endpoint.takes_images or failed.failure.kind in _OTHER_REASONS or failed.failure.status is None:
        return endpoint
    pictures = _pictures(request.messages) - endpoint.spoiled
    if not pictures or not _IMAGES.search(message):
        return endpoint
    if not _SPOILED.search(message):
        return replace(endpoint, takes_images=False)
    answered = max((i for i, said in enumerate(request.messages) if isinstance(said, FromAssistant)), default=-1)
    news = _pictures(request.messages[answered + 1 :]) - endpoint.spoiled
    return replace(endpoint, spoiled=endpoint.spoiled | (news or pictures))


def find_refused(failed: Failed, request: ModelRequest) -> frozenset[str]:
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


def find_wanted(failed: Failed) -> frozenset[str]:
    """Return which members the server misses, by name: answers of another model come without what it gives itself."""
    message = failed.failure.message
    if failed.failure.kind != "bad_request" or not _MISSING.search(message):
        return frozenset()
    return frozenset(name for name in _WANTED if re.search(rf"\b{name}\b", message))


def once_more(failed: Failed) -> Failed:
    """Return the same failure as one that is tried again at once."""
    return Failed(failed.failure, retryable=True, retry_after_s=0.0)


def _pictures(messages: Sequence[Message]) -> frozenset[str]:
    return frozenset(block.file for block in _blocks(messages) if isinstance(block, Image))


def _blocks(messages: Sequence[Message]) -> Iterator[PromptBlock]:
    for message in messages:
        match message:
            case FromUser(content):
                yield from content
            case FromTools(answers):
                for answer in answers:
                    yield from answer.content
            case FromAssistant():
                pass

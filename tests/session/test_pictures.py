"""A request holds the newest pictures that fit, however many its session has seen; of the others it is told."""

from acp_bridge.content import Image, Text, ToolRequest
from acp_bridge.limits import SENT_PICTURE_BYTES, SENT_PICTURES
from acp_bridge.session import FromAssistant, FromTools, FromUser, Message, ToolAnswer
from acp_bridge.session.pictures import pictures_in, with_newest_pictures, without_pictures


def picture(number: int, size: int = 1) -> Image:
    return Image(mime_type="image/png", file=f"{number:064x}", size=size, uri=f"file:///{number}")


def seen(*pictures: Image) -> tuple[Message, ...]:
    """The user gives one, each call of a tool another."""
    messages: list[Message] = [FromUser((Text(text="look"), pictures[0]))]
    for place, each in enumerate(pictures[1:]):
        call = ToolRequest(call_id=f"c{place}", name="f", arguments="{}", title="F")
        messages += [FromAssistant((call,)), FromTools((ToolAnswer(f"c{place}", (Text(text="it"), each), False),))]
    return tuple(messages)


def sent(messages: tuple[Message, ...]) -> list[Image]:
    return list(pictures_in(with_newest_pictures(messages)))


def test_as_many_as_fit_are_sent() -> None:
    pictures = [picture(n) for n in range(SENT_PICTURES)]
    assert with_newest_pictures(seen(*pictures)) == seen(*pictures)


def test_of_more_the_earliest_are_told_of_in_words() -> None:
    pictures = [picture(n) for n in range(SENT_PICTURES + 2)]
    told = with_newest_pictures(seen(*pictures))
    assert list(pictures_in(told)) == pictures[2:]
    first, second = told[0], told[2]
    assert isinstance(first, FromUser)
    assert isinstance(second, FromTools)
    for number, block in enumerate((first.content[1], second.answers[0].content[1])):
        assert isinstance(block, Text)
        assert f"(image/png, file:///{number}) was left out: so many pictures came after it" in block.text


def test_no_more_bytes_are_sent_than_a_request_takes() -> None:
    half = SENT_PICTURE_BYTES // 2
    assert sent(seen(picture(1, half), picture(2, half))) == [picture(1, half), picture(2, half)]
    assert sent(seen(picture(1, half + 1), picture(2, half))) == [picture(2, half)]


def test_none_is_sent_before_one_that_is_left_out() -> None:
    large = SENT_PICTURE_BYTES
    assert sent(seen(picture(1), picture(2, large), picture(3))) == [picture(3)]


def test_a_picture_that_is_seen_again_counts_again() -> None:
    assert len(sent(seen(*[picture(1)] * (SENT_PICTURES + 5)))) == SENT_PICTURES


def test_a_model_that_takes_none_is_told_of_each() -> None:
    told = without_pictures(seen(picture(1), picture(2)))
    assert not list(pictures_in(told))
    assert str(told).count("was left out: this model does not take it") == 2

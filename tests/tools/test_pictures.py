"""Pictures of results: what bytes are taken for one, how many, and that one that is none fails only itself."""

import os
from base64 import b64encode
from pathlib import Path

import pytest
from support.pixels import gif, jpeg, png, png_of_size, webp

from acp_bridge.content import Image, Text
from acp_bridge.errors import ToolError
from acp_bridge.limits import PICTURE, PICTURE_SIDE, RESULT_PICTURE_BYTES, RESULT_PICTURES
from acp_bridge.pictures import Facts, examined
from acp_bridge.redaction import Secrets
from acp_bridge.tools import Picture, ToolOutput
from acp_bridge.tools.mcp.results import output_of
from acp_bridge.tools.pictures import kept

from .conftest import Desk

WHOLE = [
    pytest.param(png(640, 480), Facts("image/png", 640, 480), id="png"),
    pytest.param(jpeg(640, 480), Facts("image/jpeg", 640, 480), id="jpeg"),
    pytest.param(jpeg(640, 480, progressive=True, exif=False), Facts("image/jpeg", 640, 480), id="progressive"),
    pytest.param(gif(640, 480), Facts("image/gif", 640, 480), id="gif"),
    pytest.param(gif(640, 480, frames=3), Facts("image/gif", 640, 480), id="animated"),
    pytest.param(webp(640, 480), Facts("image/webp", 640, 480), id="lossy"),
    pytest.param(webp(640, 480, kind="VP8L"), Facts("image/webp", 640, 480), id="lossless"),
    pytest.param(webp(640, 480, kind="VP8X"), Facts("image/webp", 640, 480), id="extended"),
]


@pytest.mark.parametrize(("data", "facts"), WHOLE)
def test_a_picture_is_what_its_bytes_say(data: bytes, facts: Facts) -> None:
    assert examined(data) == facts


@pytest.mark.parametrize(("data", "facts"), WHOLE)
def test_a_picture_cut_at_any_byte_is_broken_and_raises_nothing(data: bytes, facts: Facts) -> None:
    for length in range(len(data)):
        assert isinstance(examined(data[:length]), str), length


@pytest.mark.parametrize(("data", "facts"), WHOLE)
def test_a_picture_with_any_byte_turned_raises_nothing(data: bytes, facts: Facts) -> None:
    for place in range(min(len(data), 400)):
        assert examined(data[:place] + bytes((data[place] ^ 0xFF,)) + data[place + 1 :]) is not None


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "empty"),
        (b"%PDF-1.7 \0", "no PNG, JPEG, GIF or WebP"),
        (b"BM\0\0\0\0", "no PNG, JPEG, GIF or WebP"),
        (png(PICTURE_SIDE + 1, 1), "8,001 x 1 pixels"),
        (png(1, PICTURE_SIDE + 1), "1 x 8,001 pixels"),
        (png(2**31 - 1, 2**31 - 1), "2,147,483,647 x 2,147,483,647 pixels"),
        (png(0, 5), "0 x 5 pixels"),
        (jpeg(65535, 65535), "65,535 x 65,535 pixels"),
        (gif(9000, 2), "9,000 x 2 pixels"),
        (webp(16000, 2, kind="VP8L"), "16,000 x 2 pixels"),
        (webp(2**24, 2**24, kind="VP8X"), "16,777,216 x 16,777,216 pixels"),
        (png_of_size(PICTURE + 1), "3.8 MiB, and at most 3.75 MiB"),
        (png()[:-20] + b"\0\0\0\0" + png()[-16:], "broken or cut off"),
        (png()[:8] + png()[33:], "broken or cut off"),
    ],
)
def test_what_is_no_picture_for_a_model_says_why(data: bytes, words: str) -> None:
    assert words in str(examined(data))


def test_the_bounds_of_a_picture_are_taken() -> None:
    assert examined(png_of_size(PICTURE)) == Facts("image/png", 3, 2)
    assert examined(png(PICTURE_SIDE, PICTURE_SIDE)) == Facts("image/png", PICTURE_SIDE, PICTURE_SIDE)


def stored(*pictures: bytes, secrets: Secrets | None = None) -> list[str]:
    output = ToolOutput(content=tuple(Picture(data=data) for data in pictures))
    content = kept(output, secrets or Secrets()).output.content
    return [block.text if isinstance(block, Text) else type(block).__name__ for block in content]


def test_a_picture_that_no_model_takes_fails_only_itself() -> None:
    assert stored(png(), b"<svg/>", jpeg()) == [
        "Image",
        "[a picture was left out: it is no PNG, JPEG, GIF or WebP, whatever it is called]",
        "Image",
    ]


def test_a_result_has_so_many_pictures_and_the_rest_is_named() -> None:
    assert stored(*[png()] * RESULT_PICTURES) == ["Image"] * RESULT_PICTURES
    assert stored(*[png()] * (RESULT_PICTURES + 1)) == [
        *["Image"] * RESULT_PICTURES,
        "[a picture was left out: a result may have 8]",
    ]


def test_a_result_has_so_many_bytes_of_pictures_and_the_rest_is_named() -> None:
    large = [png_of_size(PICTURE), png_of_size(PICTURE)]
    rest = RESULT_PICTURE_BYTES - 2 * PICTURE
    assert stored(*large, png_of_size(rest)) == ["Image"] * 3
    assert stored(*large, png_of_size(rest + 1))[2:] == [
        "[a picture was left out: the pictures of a result may have 8 MiB together]"
    ]


def test_a_picture_that_holds_a_secret_is_left_out() -> None:
    """A tool may have put it beside the pixels, as a comment."""
    told = stored(png(padding=100), png(), secrets=Secrets({"API_KEY": "x" * 30}))
    assert told == ["[a picture was left out: it holds a secret that is shown to nobody]", "Image"]


# --- files ---


async def test_a_picture_is_read_as_one_whatever_its_name(desk: Desk) -> None:
    for name, data in {"a.png": png(5, 4), "b": jpeg(5, 4), "c.txt": gif(5, 4), "d.PNG": webp(5, 4)}.items():
        (desk.root / name).write_bytes(data)
        text, picture = (await desk.use("read_file", path=name)).content
        assert picture == Picture(data=data, uri=(desk.root / name).as_uri())
        assert isinstance(text, Text)
        assert "5 x 4 pixels" in text.text


@pytest.mark.parametrize(
    "words", ["version https://git-lfs.github.com/spec/v1\n", "GIF89a is a format.\n", "<svg/>", ""]
)
async def test_a_text_that_is_called_a_picture_is_read_as_text(desk: Desk, words: str) -> None:
    (desk.root / "a.gif").write_text(words)
    assert await desk.text("read_file", path="a.gif") == words or not words


async def test_a_picture_that_cannot_be_taken_says_why(desk: Desk) -> None:
    (desk.root / "large.png").write_bytes(png_of_size(PICTURE + 1))
    (desk.root / "cut.png").write_bytes(png()[:-8])
    (desk.root / "wide.png").write_bytes(png(9000, 1))
    (desk.root / "a.bmp").write_bytes(b"BM\0\0")
    for name, words in {
        "large.png": "it has 3.8 MiB, and at most 3.75 MiB are taken; make a smaller copy of it and read that",
        "cut.png": "cannot be shown as a picture: it is broken or cut off",
        "wide.png": "9,000 x 1 pixels, and at most 8,000 on a side are taken",
        "a.bmp": "is no text file",
    }.items():
        with pytest.raises(ToolError, match=words):
            await desk.use("read_file", path=name)


async def test_the_rules_for_paths_hold_for_pictures(desk: Desk, tmp_path: Path) -> None:
    """Who is asked, and what may be opened, does not depend on what lies there."""
    outside = tmp_path / "outside" / "a.png"
    outside.write_bytes(png())
    (desk.root / "link.png").symlink_to(outside)
    (desk.root / ".git").mkdir()
    (desk.root / ".git" / "a.png").write_bytes(png())
    os.mkfifo(desk.root / "fifo.png")
    tool = desk.tool("read_file")
    assert not tool.access({"path": "link.png", "offset": None, "limit": None}, desk.workspace).inside
    assert tool.access({"path": ".git/a.png", "offset": None, "limit": None}, desk.workspace).protected
    with pytest.raises(ToolError, match="no regular file"):
        await desk.use("read_file", path="fifo.png")
    with pytest.raises(ToolError, match="is a folder"):
        await desk.use("read_file", path=".git")
    with pytest.raises(ToolError, match="does not exist"):
        await desk.use("read_file", path="none.png")


async def test_nothing_is_taken_out_of_a_pipe_that_looks_like_a_picture(desk: Desk) -> None:
    """What is read of it is gone for whom it was meant."""
    os.mkfifo(desk.root / "fifo.png")
    held = os.open(desk.root / "fifo.png", os.O_RDWR | os.O_NONBLOCK)
    try:
        os.write(held, png())
        assert await desk.files.find_picture(desk.root / "fifo.png") is None
        assert os.read(held, 1000) == png()
    finally:
        os.close(held)


async def test_a_picture_behind_a_link_that_was_not_there_when_it_was_judged_is_not_read(
    desk: Desk, tmp_path: Path
) -> None:
    outside = tmp_path / "outside" / "a.png"
    outside.write_bytes(png())
    (desk.root / "folder").symlink_to(outside.parent)
    assert await desk.files.find_picture(desk.root / "folder" / "a.png") is None
    (desk.root / "a.png").symlink_to(outside)
    assert await desk.files.find_picture(desk.root / "a.png") is None


async def test_what_was_read_as_a_picture_counts_as_seen(desk: Desk) -> None:
    (desk.root / "a.gif").write_bytes(gif())
    await desk.use("read_file", path="a.gif")
    (desk.root / "a.gif").write_text("text by now")
    with pytest.raises(ToolError, match="was changed since this session last read"):
        await desk.use("edit_file", path="a.gif", old_text="text", new_text="words")


# --- servers ---


def of_server(*content: object, **more: object) -> ToolOutput:
    return output_of({"content": list(content), **more})


def encoded(data: bytes) -> str:
    return b64encode(data).decode()


def picture(data: str, mime_type: str = "image/png") -> dict[str, str]:
    return {"type": "image", "mimeType": mime_type, "data": data}


def test_a_servers_pictures_follow_its_text_which_says_where_they_stood() -> None:
    text = {"type": "text", "text": "before"}
    output = of_server(text, picture(encoded(png())), {**text, "text": "between"}, picture(encoded(jpeg())))
    assert output.content == (
        Text(text="before\n[picture 1, below]\nbetween\n[picture 2, below]"),
        Picture(data=png()),
        Picture(data=jpeg()),
    )


def test_a_picture_in_a_resource_is_one_whatever_it_is_called() -> None:
    resource = {"uri": "ui://shot", "mimeType": "application/octet-stream", "blob": encoded(png())}
    assert of_server({"type": "resource", "resource": resource}).content[1] == Picture(data=png(), uri="ui://shot")


@pytest.mark.parametrize(
    "data",
    [
        encoded(png()).rstrip("="),
        encoded(png()).replace("+", "-").replace("/", "_"),
        "data:image/png;base64," + encoded(png()),
    ],
)
def test_base64_is_read_as_leniently_as_it_is_written(data: str) -> None:
    assert of_server(picture(data)).content[1] == Picture(data=png())


@pytest.mark.parametrize(
    ("block", "words"),
    [
        (picture("A"), "[a picture (image/png) was left out: what the server sent is no base64]"),
        (
            picture("A" * 4 * (PICTURE // 3 + 2)),
            "[a picture (image/png) was left out: it has 3.8 MiB, and at most 3.75 MiB are taken]",
        ),
        (
            {"type": "audio", "mimeType": "audio/wav", "data": "AAAA"},
            "[audio left out: audio/wav, 3 bytes; only text and pictures are taken]",
        ),
        ({"type": "image"}, "[content of the type image left out]"),
    ],
)
def test_what_a_server_sends_as_a_picture_and_is_none_is_named(block: object, words: str) -> None:
    assert of_server(block).content == (Text(text=words),)


def test_a_server_that_floods_with_pictures_has_them_decoded_no_further_than_a_result_may_have() -> None:
    output = of_server(*[picture(encoded(png()))] * 1000)
    assert sum(isinstance(block, Picture) for block in output.content) == RESULT_PICTURES
    assert isinstance(output.content[0], Text)
    assert output.content[0].text.count("a result may have 8") == 1000 - RESULT_PICTURES


def test_an_error_may_have_a_picture_and_so_may_what_is_structured() -> None:
    failed = of_server(picture(encoded(png())), isError=True)
    assert (failed.is_error, failed.code, len(failed.content)) == (True, "FAILED", 2)
    assert isinstance(text := of_server(picture(encoded(png())), structuredContent={"a": 1}).content[0], Text)
    assert "[picture 1, below]" in text.text


def test_the_kept_pictures_are_named_by_their_bytes() -> None:
    stored = kept(ToolOutput(content=(Picture(data=gif(), uri="file:///a"),)), Secrets())
    [block] = stored.output.content
    assert isinstance(block, Image)
    assert (block.mime_type, block.size, block.uri) == ("image/gif", len(gif()), "file:///a")
    assert stored.files == {block.file: gif()}

"""`acp-bridge sessions export`: a conversation as a file, for people or for programs."""

import os
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

import anyio
import orjson

from acp_bridge.cli.formatting import size
from acp_bridge.cli.parser import CommandParser
from acp_bridge.cli.terminal import say
from acp_bridge.session import Loaded, encode_header, encode_record

from .entries import images_of
from .folder import SessionFolder, open_folder
from .markdown import markdown
from .page import page
from .timeline import recovery_in, timeline_of

FORMATS = ("markdown", "html", "json")
_BY_SUFFIX = {".html": "html", ".htm": "html", ".json": "json"}


def main(argv: list[str]) -> int:
    """Export a session.

    Raises:
        ConfigError, StoreError, OSError: in words for a person.
    """
    parser = CommandParser(
        "sessions export",
        "Writes a conversation, whole: Markdown, one HTML page that needs nothing beside it, or the records as JSON.",
    )
    parser.add_argument("id", metavar="ID", help="a session's id, or the beginning of one")
    parser.add_argument("--format", choices=FORMATS, help="default: by the file's name, else markdown")
    parser.add_argument("-o", "--output", metavar="FILE", default="-", help="where to; default: stdout")
    args = parser.parse_args(argv)
    chosen = args.format or _BY_SUFFIX.get(Path(args.output).suffix.lower(), "markdown")
    return anyio.run(_export, open_folder(), args.id, chosen, args.output)


async def _export(sessions: SessionFolder, beginning: str, chosen: str, output: str) -> int:
    session_id = sessions.find(beginning)
    text = _render(sessions, await sessions.store.read(session_id), chosen)
    data = text.encode("utf-8", "replace")  # half a character must not cost the export
    if output == "-":
        await anyio.to_thread.run_sync(_to_stdout, data)
        return 0
    await anyio.to_thread.run_sync(_to_file, Path(output), data)
    say(f"{output}: session {session_id} as {chosen}, {size(len(data))}")
    return 0


def _render(sessions: SessionFolder, loaded: Loaded, chosen: str) -> str:
    if chosen == "json":
        return _json(loaded)
    timeline = timeline_of(loaded)
    if chosen == "html":
        return page(timeline, sessions.images(timeline.session_id, images_of(timeline)))
    return markdown(timeline)


def _json(loaded: Loaded) -> str:
    members = {
        "format": "acp-bridge/export",
        "version": 1,
        "header": encode_header(loaded.header),
        "records": [encode_record(record) for record in loaded.records],
    }
    if loaded.dropped_bytes:
        members["droppedBytes"] = loaded.dropped_bytes
    if not (recovery := recovery_in(loaded)).clean:
        members["recovery"] = recovery.members()  # what a load tells now; the records say the same at greater length
    return orjson.dumps(members, option=orjson.OPT_INDENT_2).decode() + "\n"


def _to_stdout(data: bytes) -> None:
    sys.stdout.flush()
    sys.stdout.buffer.write(data)  # UTF-8, whatever the terminal's encoding


def _to_file(path: Path, data: bytes) -> None:
    """Write the file whole or not at all: half an export looks like a whole one."""
    if path.exists() and not path.is_file():  # /dev/null, a pipe
        path.write_bytes(data)
        return
    folder = path.resolve().parent
    try:
        fd, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=folder)
    except OSError as exc:
        raise OSError(exc.errno, exc.strerror, str(path)) from exc  # the user named no temporary file
    try:
        with os.fdopen(fd, "wb") as stream:
            stream.write(data)
        os.replace(temporary, path.resolve())
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise

"""The files of one call: read and written against what the session knows of them and what a person was shown.

Owns when a file counts as changed behind the model's back: since the session last knew it, since the question that was
asked about this call, or on the disk under an editor that has not noticed. Opens nothing; knows no tool.
"""

from collections.abc import Mapping
from pathlib import Path

from acp_bridge.errors import ToolError
from acp_bridge.redaction import Secrets, stands_for

from .files import Files, FileState, PictureFile, changed

ON_DISK = "disk:"
"""Before a path in the digests of a result: what lay on the disk where an editor had other text."""


class KnownFiles:
    """What a tool reads and writes through, from the preview of a call to the end of its body.

    Args:
        files: where text comes from.
        seen: SHA-256 by absolute path as the session's log has it, also behind `ON_DISK`.
        since_ms: when the session began: what was changed before is no concern of its commands.
        secrets: what stands for one in all that the model reads is not written over it.
    """

    def __init__(
        self,
        files: Files,
        seen: Mapping[str, str],
        *,
        since_ms: int,
        secrets: Secrets = Secrets(),  # noqa: B008 - a frozen value
    ) -> None:
        self._since_ms = since_ms
        self._secrets = secrets
        self._files = files
        self._seen = seen
        self._looked: dict[Path, FileState] = {}
        self._disk: dict[str, str] = {}

    async def find_picture(self, path: Path) -> PictureFile | None:
        """Return the picture that lies at an absolute, checked path, None if what is there is none.

        Raises:
            ToolError: it is one, and too large to be taken.
        """
        return await self._files.find_picture(path)

    async def find_text(self, path: Path) -> str | None:
        """Return the text at an absolute, checked path, None where there is no file.

        Raises:
            ToolError: it is no text file, or cannot be read.
        """
        state = self._looked[path] = await self._files.look(path)
        self._note(path, state)
        return state.text

    async def read_text(self, path: Path) -> str:
        """Return the text as `find_text` does.

        Raises:
            ToolError: there is no such file, it is no text file, or cannot be read.
        """
        if (text := await self.find_text(path)) is None:
            raise ToolError(f"{str(path)!r} does not exist")
        return text

    def digest_of(self, path: Path) -> str:
        """Return the SHA-256 of the text that was last read or written here, empty if there was none."""
        return state.digest if (state := self._looked.get(path)) is not None else ""

    def is_unsaved(self, path: Path) -> bool:
        """Whether an editor had other text than the disk when this was last looked at."""
        return (state := self._looked.get(path)) is not None and not state.saved

    async def text_to_change(self, path: Path, *, whole: bool = False) -> str | None:
        """Return the text that a change starts from, None where there is no file.

        Args:
            path: absolute and checked.
            whole: nothing of the text is kept.

        Raises:
            ToolError: somebody changed it, and the model or who was asked cannot know; or as `find_text`.
        """
        state = await self._files.look(path)
        self._refuse_if_changed(path, state, whole=whole)
        self._looked[path] = state
        return state.text

    async def write_text(self, path: Path, text: str) -> None:
        """Replace the file as this call last looked at it, or create it, wholly or not at all.

        Raises:
            ToolError: it could not be written, or is another by now; the old content is as it was.
        """
        if (before := self._looked.get(path)) is None:
            await self.text_to_change(path, whole=True)
            before = self._looked[path]
        self.require_no_stand_in(path, text)
        state = self._looked[path] = await self._files.write_text(path, text, before)
        self._note(path, state)

    def require_no_stand_in(self, path: Path, text: str) -> None:
        """Refuse a text in which a secret's name stands where the file, as last looked at, has the secret.

        Raises:
            ToolError: in words for the model.
        """
        before = state.text if (state := self._looked.get(path)) is not None else None
        if name := self._secrets.replaced_in(before or "", text):
            raise ToolError(f"Nothing was written: the text holds {stands_for(name)}", code="INVALID_ARGUMENTS")

    def digests(self, reported: Mapping[str, str]) -> dict[str, str]:
        """Return the digests that a tool reports, with those of the disk where an editor stands between."""
        return {**reported, **{ON_DISK + path: disk for path, disk in self._disk.items() if path in reported}}

    def _refuse_if_changed(self, path: Path, state: FileState, *, whole: bool) -> None:
        looked = self._looked.get(path)
        if looked is not None and looked.text != state.text:
            raise changed(path)
        seen = self._seen.get(str(path))
        if seen is not None and state.text is not None and seen != state.digest:
            raise ToolError(f"{str(path)!r} was changed since this session last read or wrote it; read it again first")
        known = {looked.disk} if looked is not None else self._known_on_disk(path)
        if state.saved or state.disk in known or (whole and not state.disk):
            return
        if not known:
            if state.disk_time_ms <= self._since_ms:
                return  # the user's own text, begun before there was anybody who could have changed the disk
            raise ToolError(
                f"{str(path)!r} was changed on the disk in this session, and the editor has other text, which is not "
                "saved; read it first"
            )
        raise ToolError(
            f"{str(path)!r} was changed on the disk since this session last knew it, and the editor has other text, "
            "which is not saved: to write the one would lose the other. Nothing was written. Have the user save or "
            "reload it in the editor first, or change the file on the disk by run_command"
        )

    def _known_on_disk(self, path: Path) -> set[str]:
        """Return what the disk held when the session last knew the file; its own text too, which may be saved later."""
        return {self._seen[key] for key in (ON_DISK + str(path), str(path)) if key in self._seen}

    def _note(self, path: Path, state: FileState) -> None:
        """Remember what is on the disk; a change there that the editor has not taken in stays unknown."""
        if state.text is None:
            return
        key = ON_DISK + str(path)
        known = self._known_on_disk(path)
        if state.saved or not known or state.disk in known:
            disk = state.disk
        else:
            disk = self._seen.get(key, self._seen.get(str(path), ""))
        if disk != state.digest or key in self._seen:
            self._disk[str(path)] = disk

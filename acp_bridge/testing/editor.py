"""The client's side of a scenario: what it answers when the agent asks for permission, for words, or for a file.

Owns the queues of prepared answers. A question without a prepared answer is a fault, and so is an answer that nobody
asked for: a run must not pass because an agent asks less than it did.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

Json: TypeAlias = dict[str, Any]

NOT_FOUND = -32002  # ACP's own code for a resource that is not there
UNKNOWN_METHOD = -32601  # JSON-RPC's, as the next
FAILED = -32603


class Editor:
    """Answers the agent's requests. It is called from the reader's thread alone, and prepared between steps.

    Attributes:
        faults: what was asked or prepared amiss.
        open: requests that were left without an answer on purpose.
        asked: how many permission questions came so far.
    """

    def __init__(
        self,
        buffers: Mapping[str, str],
        unreadable: Iterable[str],
        unwritable: Iterable[str],
        silent: Iterable[str],
    ) -> None:
        """Take paths as absolute as they will be asked for."""
        self.faults: list[str] = []
        self.open: list[Json] = []
        self.asked = 0
        self._permissions: deque[str] = deque()
        self._forms: deque[Any] = deque()
        self._buffers = dict(buffers)
        self._unreadable = frozenset(unreadable)
        self._unwritable = frozenset(unwritable)
        self._silent = frozenset(silent)

    def prepare(self, permissions: Iterable[str], forms: Iterable[Any]) -> None:
        """Have answers ready for the next questions."""
        self._permissions.extend(permissions)
        self._forms.extend(forms)

    def list_unused(self) -> str:
        """Say which prepared answers nobody asked for; empty if there are none."""
        left = [*self._permissions, *map(str, self._forms)]
        return f"nobody asked for the prepared answers {left}" if left else ""

    def forget(self) -> None:
        """The agent is gone: what was open is answered by nobody."""
        self.open.clear()

    def answer(self, request: Json) -> Json | None:
        """Return the answer to a request of the agent's, None for none."""
        params: Json = request.get("params") or {}
        match request["method"]:
            case "session/request_permission":
                self.asked += 1
                if not self._permissions:
                    self.faults.append(f"a permission question has no prepared answer: {_title(params)}")
                    return {"result": {"outcome": {"outcome": "cancelled"}}}
                return self.permission(request, self._permissions.popleft())
            case "elicitation/create":
                if not self._forms:
                    self.faults.append(f"a form has no prepared answer: {params.get('message')!r}")
                    return {"result": {"action": "cancel"}}
                return self._form(request, self._forms.popleft())
            case "fs/read_text_file" | "fs/write_text_file" if params.get("path") in self._silent:
                self.open.append(request)
                return None
            case "fs/read_text_file":
                return self._read(str(params.get("path")))
            case "fs/write_text_file":
                return self._write(str(params.get("path")), str(params.get("content")))
            case method:
                return _error(UNKNOWN_METHOD, f"this client does not know {method}")

    def permission(self, request: Json, how: str) -> Json | None:
        """Return the answer to a permission question: by option kind, `option:ID`, cancelled, error or none."""
        match how.partition(":"):
            case "none", _, _:
                self.open.append(request)
                return None
            case "error", _, _:
                return _error(FAILED, "the client failed to ask")
            case "cancelled", _, _:
                return {"result": {"outcome": {"outcome": "cancelled"}}}
            case "option", _, option:
                return {"result": {"outcome": {"outcome": "selected", "optionId": option}}}
            case kind, _, _:
                for option in request["params"]["options"]:
                    if option["kind"] == kind:
                        return {"result": {"outcome": {"outcome": "selected", "optionId": option["optionId"]}}}
                self.faults.append(f"{_title(request['params'])} offers no {kind!r}")
                return {"result": {"outcome": {"outcome": "cancelled"}}}

    def _form(self, request: Json, how: Any) -> Json | None:
        match how:
            case "none":
                self.open.append(request)
                return None
            case "error":
                return _error(FAILED, "the client failed to ask")
            case "decline" | "cancel":
                return {"result": {"action": how}}
            case _:
                return {"result": {"action": "accept", "content": how}}

    def _read(self, path: str) -> Json:
        if path in self._unreadable:
            return _error(FAILED, "the editor cannot read it")
        if path in self._buffers:
            return {"result": {"content": self._buffers[path]}}
        try:
            return {"result": {"content": Path(path).read_text(encoding="utf-8")}}
        except OSError:
            return _error(NOT_FOUND, "no such file")

    def _write(self, path: str, content: str) -> Json:
        if path in self._unwritable:
            return _error(FAILED, "the editor cannot write it")
        self._buffers[path] = content
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text(content, encoding="utf-8")
        return {"result": {}}


def _title(params: Json) -> str:
    return repr(params.get("toolCall", {}).get("title"))


def _error(code: int, message: str) -> Json:
    return {"error": {"code": code, "message": message}}

"""One message of the exchange, as it is seen from outside.

Knows of the protocol only its envelope: what a message is, and that an answer carries the id of its request.
"""

import json
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

Json: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Frame:
    """One message, or what happened to the process.

    Attributes:
        direction: `>` to the agent, `<` from it, `#` what happened to the process.
        body: the parsed JSON, or the text where it is none.
    """

    direction: str
    body: Any

    @property
    def message(self) -> Json:
        """The JSON object that it is; an empty one if it is none."""
        return _table(self.body)

    @property
    def method(self) -> str:
        """What it asks for or tells; empty for an answer."""
        return str(self.message.get("method", ""))

    @property
    def params(self) -> Json:
        """What it asks with."""
        return _table(self.message.get("params"))

    @property
    def result(self) -> Json:
        """The result that it answers with; an empty table if it is an error, or another kind of value."""
        return _table(self.message.get("result"))

    @property
    def update(self) -> Json:
        """The update that it shows, if the agent shows one."""
        return _table(self.params.get("update")) if self.direction == "<" and self.method == "session/update" else {}

    @property
    def session(self) -> str:
        """The session that it names, if it does."""
        return str(self.params.get("sessionId", ""))

    @property
    def answers(self) -> bool:
        """Whether it answers a request, of either side."""
        return "id" in self.message and "method" not in self.message

    @property
    def is_agents_answer(self) -> bool:
        """Whether it is the agent's answer to a request."""
        return self.direction == "<" and self.answers


def _table(value: Any) -> Json:
    return cast("Json", value) if isinstance(value, dict) else {}


def parse_or_text(text: str) -> Any:
    """Return what a line says, or the line itself where it is not JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):  # nested too deep is no JSON to us, and must not end the reader's thread
        return text

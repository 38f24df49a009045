"""Evidence of somebody else's tool, and its look after a crash: used where it is sound, and else no claim."""

from collections.abc import Callable
from typing import Any, cast

import pytest
from support.parts import Greet, raises

from acp_bridge.content import Text
from acp_bridge.tools import Call, Examinable, Finding, Previewing, ToolOutput, contained

CALL = cast("Call", None)  # neither method of these looks at it
ENDED = Finding(claim="ended", output=ToolOutput(content=(Text(text="so"),)))


class Examined(Greet):
    """A tool whose two methods do what a test says."""

    def __init__(self, does: Callable[[], Any]) -> None:
        super().__init__()
        self._does = does

    async def evidence(self, arguments: Any, call: Any) -> Any:
        return self._does()

    async def examine(self, evidence: Any, call: Any) -> Any:
        return self._does()


class ExaminedAndShown(Examined):
    """One that also shows what it would do."""

    async def preview(self, arguments: Any, call: Any) -> Any:
        return ()


def boxed(does: Callable[[], Any]) -> Examinable:
    tool = contained(Examined(does), "'mine:Examined'")
    assert isinstance(tool, Examinable)
    return tool


def test_a_contained_tool_has_what_its_tool_has_and_nothing_else() -> None:
    for tool, has in (
        (Greet(), (False, False)),
        (Examined(dict), (True, False)),
        (ExaminedAndShown(dict), (True, True)),
    ):
        kept = contained(tool, "'mine:Tool'")
        assert (isinstance(kept, Examinable), isinstance(kept, Previewing)) == has


@pytest.mark.parametrize("facts", [{"before": "a"}, None])
async def test_evidence_is_handed_on(facts: Any) -> None:
    assert await boxed(lambda: facts).evidence({}, CALL) == facts


@pytest.mark.parametrize("broken", [raises(OSError("gone")), lambda: "text", lambda: 7])
async def test_evidence_that_cannot_be_had_is_none(broken: Callable[[], Any]) -> None:
    assert await boxed(broken).evidence({}, CALL) is None


@pytest.mark.parametrize("finding", [Finding(claim="done"), Finding(claim="not_done"), Finding(claim=None), ENDED])
async def test_a_finding_is_handed_on(finding: Finding) -> None:
    assert await boxed(lambda: finding).examine({}, CALL) == finding


@pytest.mark.parametrize(
    "broken",
    [
        raises(OSError("gone")),
        lambda: None,
        lambda: "done",
        lambda: Finding(claim=cast("Any", "maybe")),
        lambda: Finding(claim="done", known=cast("Any", 7)),
        lambda: Finding(claim="ended"),
        lambda: Finding(claim="done", output=ENDED.output),
    ],
)
async def test_a_look_that_fails_or_says_what_nobody_can_tell_is_no_claim(broken: Callable[[], Any]) -> None:
    assert await boxed(broken).examine({}, CALL) == Finding(claim=None)

"""What a tool puts out is bounded and without secrets wherever it is kept, not only where the model reads it."""

from acp_bridge.content import Diff, Text
from acp_bridge.redaction import Secrets
from acp_bridge.tools import ToolOutput
from acp_bridge.tools.pipeline import _bound

KEY = "sk-0123456789abcdefghij"


def test_what_is_shown_of_a_result_is_without_secrets_as_what_the_model_reads() -> None:
    shown = (Text(text=f"key {KEY}"), Diff(path="/w/a", old_text=f"old {KEY}", new_text=f"new {KEY}"))
    bounded = _bound(ToolOutput(content=(Text(text=KEY),), shown=shown), Secrets({"OPENAI_API_KEY": KEY}))
    assert KEY not in repr(bounded)
    assert len(bounded.shown) == 2

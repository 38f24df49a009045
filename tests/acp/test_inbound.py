"""What is said of params that are wrong names the member as the client wrote it."""

from typing import Any

import pytest

from acp_bridge.acp.inbound import Inbound, LoadSession, NewSession, Prompt, parsed


@pytest.mark.parametrize(
    ("model", "params", "said"),
    [
        (Prompt, {"sessionId": "s", "prompt": [{"type": "text"}]}, r"^prompt\.0\.text: Field required"),
        (Prompt, {"sessionId": "s", "prompt": [{"type": "text", "text": 3}]}, r"^prompt\.0\.text: "),
        (Prompt, {"sessionId": "s", "prompt": ["x"]}, r"^prompt\.0: "),
        (Prompt, {"sessionId": "s", "prompt": [{"type": "image", "data": "aGk="}]}, r"^prompt\.0\.mimeType: "),
        (NewSession, {"cwd": "/", "mcpServers": [{"name": "x", "args": [], "env": []}]}, r"^mcpServers\.0\.command: "),
        (LoadSession, {"sessionId": "s", "cwd": "here", "mcpServers": []}, r"^cwd: must be an absolute path"),
        (Prompt, [], r"^params: "),
    ],
)
def test_the_member_that_is_wrong_is_named_as_it_was_sent(model: type[Inbound], params: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        parsed(model, params)

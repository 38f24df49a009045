"""Requests to the client, whose answer may never come.

Owns what a hang-up means to whoever waits. Knows no method.
"""

from typing import Any, Final, cast

import anyio

from acp_bridge.rpc import Disconnected, Peer, RpcError

_END_COMES_S: Final = 5.0
_REASON_CHARS: Final = 500


async def asked(peer: Peer, method: str, params: Any) -> Any:
    """Ask the client and return its result.

    A client that has hung up has refused nothing: the turn is about to be cancelled because the program ends, and that
    is what its log has to say. So the waiter is kept until it is cancelled.

    Raises:
        RpcError: the client answered with an error, or hung up and nothing ended the turn.
    """
    try:
        return await peer.request(method, params)
    except Disconnected:
        await anyio.sleep(_END_COMES_S)
        raise


def reason(exc: RpcError) -> str:
    """Return what the client said of its failure: its sentence, and its details, which often say all there is."""
    data: Any = exc.data
    details: Any = cast("dict[str, Any]", data).get("details") if isinstance(data, dict) else data
    if not isinstance(details, str) or not details or details in exc.message:
        return exc.message.rstrip(".")
    return f"{exc.message.rstrip('.')}: {details[:_REASON_CHARS].rstrip('.')}"

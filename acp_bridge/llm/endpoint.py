"""Where a model is and how it is reached: what a route and the options come to. Plain data, no I/O."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """One model at one address.

    Attributes:
        query: what goes behind every path there.
        key: sent to `base_url` and nowhere else; empty if the server wants none.
        idle_s: how long the provider may be silent, before the answer and between its pieces.
        stall_s: how long it may send nothing of an answer, whatever else it keeps sending.
        max_output_tokens: for providers that insist on a limit.
        refused: members that the server gives and does not take back.
        spoiled: pictures that the server has refused, by content file.
        wanted: members that it wants with every answer, also with those that another model gave without them.
        network: the variables that the HTTP library reads.
    """

    provider: str
    model: str
    base_url: str
    query: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    key: str = field(default="", repr=False)
    context_window: int | None = None
    takes_images: bool = True
    connect_s: float = 10
    idle_s: float = 120
    stall_s: float = 600
    max_output_tokens: int = 32_000
    refused: frozenset[str] = frozenset()
    spoiled: frozenset[str] = frozenset()
    wanted: frozenset[str] = frozenset()
    network: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)

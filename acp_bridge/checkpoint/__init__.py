"""The checkpoint policy: which barrier waits for the disk, for how long, and what it cost.

Owns the *when* of durability (D10 to D20 of ARCHITECTURE.md). Knows neither the *how* (storage, behind `Durable.flush`)
nor what lies behind a barrier (a request, a tool body, an answer): the loop and the tool pipeline call it at fixed
places.

Decision: the step barrier has no method of its own. Nothing outside can happen between it and the request barrier, so
`before_request` is both, and
shares one sync.
"""

from .policy import WITHOUT_BARRIERS, CheckpointPolicy, CoarsePolicy, Measurement, Options, policy_named

__all__ = ["WITHOUT_BARRIERS", "CheckpointPolicy", "CoarsePolicy", "Measurement", "Options", "policy_named"]

"""What two runs of one scenario may differ in, taken out of the log and of what the model was asked.

The other half of `normalization`: pure, idempotent, one function a rule. No rule touches which facts are logged, in
which order, or a word of them.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias, cast

from .normalization import Names, Numbers, map_texts

Json: TypeAlias = dict[str, Any]

_DIGEST = re.compile(r"#[0-9a-f]{8}")


def normalize_log(records: Sequence[Json], names: Names, *, whole_header: bool = False) -> list[Json]:
    """Return a session's log as it is compared: header first."""
    named = [cast("Json", map_texts(record, names.apply)) for record in records]
    bare = [without_envelope(record) for record in named]
    found = order_by_call(without_superseded(bare))
    numbers = Numbers()
    found = [cast("Json", numbers.apply(record, "")) for record in found]
    return found if whole_header else [with_digests(record) for record in found]


def without_envelope(record: Json) -> Json:
    """Rule *envelope*: `seq`, `time`, `d`, `crc` and the header's `gen` and `created` are left out.

    The order of lines is the order of seqs (gaps are looked for before); the rest is the storage's, which checks it.
    """
    if "session" in record:
        session = {key: value for key, value in record["session"].items() if key not in ("created", "version")}
        return {key: value for key, value in record.items() if key not in ("gen", "d", "crc")} | {"session": session}
    found = {key: value for key, value in record.items() if key not in ("seq", "time", "d", "crc")}
    if found.get("type") == "session/opened":
        found["data"] = found["data"] | {"version": "<version>"}
    return found


def without_superseded(records: Sequence[Json]) -> list[Json]:
    """Rule *deltas*: streamed text whose message was committed or discarded later is left out; the rest is joined.

    How much of a text was on disk before its message was, and in how many pieces, depends on the clock.
    """
    closed = {
        record["data"].get("id" if record["type"] == "assistant/message" else "messageId")
        for record in records
        if record.get("type") in ("assistant/message", "request/failed")
    }
    found: list[Json] = []
    for record in records:
        if record.get("type") != "assistant/delta":
            found.append(record)
            continue
        data = record["data"]
        if data["messageId"] in closed:
            continue
        last = found[-1] if found else {}
        if last.get("type") == record["type"] and {**last["data"], "text": ""} == {**data, "text": ""}:
            found[-1] = {**last, "data": {**data, "text": last["data"]["text"] + data["text"]}}
        else:
            found.append(record)
    return found


def order_by_call(records: Sequence[Json]) -> list[Json]:
    """Rule *side by side*: neighbouring results stand in the order of their calls, which ran side by side."""
    found: list[Json] = []
    for record in records:
        place = len(found)
        while (
            record.get("type") == "tool/result"
            and place
            and found[place - 1].get("type") == "tool/result"
            and found[place - 1]["data"]["callId"] > record["data"]["callId"]
        ):
            place -= 1
        found.insert(place, record)
    return found


def with_digests(record: Json) -> Json:
    """Rule *header*: a request's system prompt and tool schemas are shown as digests, the tools' names beside them.

    Every change of them shows; what it is, a scenario with `whole_header = true` says, and `requests.txt` does not
    repeat it.
    """
    if record.get("type") != "request/header":
        return record
    data = record["data"]
    tools = data["tools"]
    if all(isinstance(tool, dict) for tool in tools):
        tools = [*(tool["name"] for tool in tools), digest(tools)]
    system = data["system"]
    return {
        **record,
        "data": {**data, "system": system if _DIGEST.fullmatch(system) else digest(system), "tools": tools},
    }


def digest(value: Any) -> str:
    """Return eight hexadecimal digits that stand for a value."""
    return f"#{hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:8]}"


# --- the model ---


def normalize_requests(served: Iterable[Json], names: Names) -> list[Json]:
    """Return what the model was asked, as it is compared: rule *names*, and the system prompt as rule *header*."""
    found: list[Json] = []
    for request in served:
        named = cast("Json", map_texts(request, names.apply))
        system = str(named["system"])
        found.append(named | {"system": system if _DIGEST.fullmatch(system) else digest(system)})
    return found

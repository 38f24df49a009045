"""The rules of comparison: each takes what it is for, and leaves what would be a change."""

import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_bridge.testing.frame import Frame, parse_or_text
from acp_bridge.testing.log_normalization import (
    normalize_log,
    order_by_call,
    with_digests,
    without_envelope,
    without_superseded,
)
from acp_bridge.testing.normalization import (
    Names,
    join_chunks,
    normalize_frames,
    number_ids,
    place_final_statuses,
    without_passing_output,
    without_times,
)
from acp_bridge.testing.snapshot import compact, frames_text

Json = dict[str, Any]

LIBRARY = Path(__file__).parents[2] / "fixtures" / "snapshots"
NAMES = Names({"<workspace>": "/tmp/acp-x/workspace", "<run>": "/tmp/acp-x", "<session-1>": "s3ss10n"})


def update(kind: str, session: str = "s", **members: Any) -> Frame:
    body = {"sessionUpdate": kind, **members}
    return Frame("<", {"method": "session/update", "params": {"sessionId": session, "update": body}})


def chunk(text: str, message: str = "m1", session: str = "s", kind: str = "agent_message_chunk") -> Frame:
    return update(kind, session, messageId=message, content={"type": "text", "text": text})


def status(call: str, status: str, session: str = "s") -> Frame:
    return update("tool_call_update", session, toolCallId=call, status=status)


def asks(request_id: Any, call: str) -> Frame:
    params = {"sessionId": "s", "toolCall": {"toolCallId": call}}
    return Frame("<", {"id": request_id, "method": "session/request_permission", "params": params})


def answer(way: str, request_id: Any) -> Frame:
    return Frame(way, {"id": request_id, "result": {}})


def parsed(text: str) -> Iterator[Frame]:
    for line in text.split("\n")[:-1]:
        yield Frame(line[0], parse_or_text(line[2:]))


# --- idempotence ---


@pytest.mark.parametrize("path", sorted(LIBRARY.glob("*/*/expected/frames.txt")), ids=lambda p: p.parents[1].name)
def test_what_is_expected_is_normal_already(path: Path) -> None:
    text = path.read_text()
    assert frames_text(normalize_frames(list(parsed(text)), Names({}))) == text
    log = path.with_name("log.jsonl")
    if log.exists():
        records = [json.loads(line) for line in log.read_text().split("\n")[:-1]]
        again = normalize_log(records, Names({}), whole_header=path.parents[1].name == "project_notes")
        assert [compact(record) for record in again] == [compact(record) for record in records]


FRAMES = st.one_of(
    st.builds(chunk, st.sampled_from(["a", "b"]), st.sampled_from(["m1", "input_7"]), st.sampled_from(["s", "t"])),
    st.builds(status, st.sampled_from(["c1", "c2"]), st.sampled_from(["in_progress", "completed", "failed"])),
    st.builds(lambda call: update("tool_call_update", toolCallId=call, content=[]), st.sampled_from(["c1", "c2"])),
    st.builds(asks, st.integers(1, 3), st.sampled_from(["c1", "c2"])),
    st.builds(answer, st.sampled_from("<>"), st.integers(1, 3)),
    st.just(Frame(">", {"method": "session/cancel", "params": {"sessionId": "s"}})),
    st.just(Frame("#", "killed, exit -9")),
    st.just(Frame("<", "no message at all")),
)


@given(st.lists(FRAMES, max_size=14))
def test_normalising_twice_changes_nothing_more(lines: list[Frame]) -> None:
    once = normalize_frames(lines, NAMES)
    assert normalize_frames(once, NAMES) == once


@given(st.lists(FRAMES, max_size=14))
def test_a_final_status_never_passes_an_answer_or_a_frame_of_its_own_call(lines: list[Frame]) -> None:
    moved = place_final_statuses(lines)
    assert sorted(map(repr, moved)) == sorted(map(repr, lines))
    fixed = [line for line in lines if line.update.get("status") not in ("completed", "failed")]
    assert [line for line in moved if line.update.get("status") not in ("completed", "failed")] == fixed
    for line in (line for line in lines if line.is_agents_answer or line.direction == "#"):
        place = next(i for i, one in enumerate(lines) if one is line)
        after = next(i for i, one in enumerate(moved) if one is line)
        assert sorted(map(repr, lines[:place])) == sorted(map(repr, moved[:after]))


# --- names, times, ids ---


def test_a_path_is_named_wherever_it_stands_and_only_whole() -> None:
    assert NAMES.apply("cat '/tmp/acp-x/workspace/a b'") == "cat '<workspace>/a b'"
    assert NAMES.apply("file:///tmp/acp-x/workspace#L1") == "file://<workspace>#L1"
    assert (
        NAMES.apply("/tmp/acp-x/workspaces /tmp/acp-xy /tmp/acp-x/model") == "<run>/workspaces /tmp/acp-xy <run>/model"
    )
    assert NAMES.apply("sessions/s3ss10n/log.jsonl, s3ss10nX") == "sessions/<session-1>/log.jsonl, s3ss10nX"


def test_a_path_whose_links_are_resolved_or_not_is_one() -> None:
    names = Names({"<run>": "/private/var/acp-x"})
    assert names.apply("/var/acp-x/a /private/var/acp-x/a") == "<run>/a <run>/a"


def test_only_a_well_formed_time_is_taken_out() -> None:
    [line] = without_times([Frame("<", {"a": [{"updatedAt": "2026-12-01T04:26:24.000Z"}, {"updatedAt": "yesterday"}]})])
    assert line.body == {"a": [{"updatedAt": "<time>"}, {"updatedAt": "yesterday"}]}


def test_the_agents_request_ids_are_numbered_and_the_clients_are_left() -> None:
    lines = [Frame(">", {"id": 7, "method": "m"}), asks(41, "c"), answer(">", 41), answer("<", 7), answer(">", "41")]
    ids = [line.message["id"] for line in number_ids(lines)]
    assert ids == [7, "a1", "a1", 7, "a2"], "an answer with another type of id is an answer to something else"


def test_a_cancelled_request_of_the_agents_has_the_same_number() -> None:
    def cancel(way: str) -> Frame:
        return Frame(way, {"method": "$/cancel_request", "params": {"requestId": 41}})

    found = number_ids([asks(41, "c"), cancel("<"), cancel(">")])
    assert [line.params["requestId"] for line in found[1:]] == ["a1", 41]


def test_an_id_of_the_next_run_is_another_one() -> None:
    lines = [asks(1, "c"), Frame("#", "killed"), asks(1, "c")]
    assert [line.message.get("id") for line in number_ids(lines)] == ["a1", None, "a2"]


def test_ids_made_of_a_log_position_are_numbered_by_session() -> None:
    lines = [chunk("a", "input_9"), chunk("b", "input_12"), chunk("c", "input_9"), chunk("d", "input_12", "t")]
    found = [line.update["messageId"] for line in number_ids(lines)]
    assert found == ["input-1", "input-2", "input-1", "input-1"]
    assert [line.update["messageId"] for line in number_ids([chunk("a", "msg_1_2")])] == ["msg_1_2"]


# --- chunks, output, statuses ---


def test_neighbouring_chunks_of_one_message_are_joined() -> None:
    assert join_chunks([chunk("a"), chunk("b"), chunk("c")]) == [chunk("abc")]


@pytest.mark.parametrize(
    "other", [chunk("b", "m2"), chunk("b", session="t"), chunk("b", kind="agent_thought_chunk"), status("c", "failed")]
)
def test_other_chunks_stay_apart(other: Frame) -> None:
    lines = [chunk("a"), other, chunk("c")]
    assert join_chunks(lines) == lines


def test_passing_output_is_left_out_but_not_behind_the_calls_end() -> None:
    passing = update("tool_call_update", toolCallId="c", content=[1])
    assert without_passing_output([passing, status("c", "completed")]) == [status("c", "completed")]
    late = [status("c", "completed"), passing]
    assert without_passing_output(late) == late


def test_a_final_status_moves_up_over_other_calls_and_their_questions() -> None:
    done = status("c1", "completed")
    lines = [status("c1", "in_progress"), asks(1, "c2"), answer(">", 1), status("c2", "in_progress"), done]
    assert place_final_statuses(lines) == [lines[0], done, *lines[1:4]]


@pytest.mark.parametrize(
    "fence",
    [
        answer("<", 3),
        status("c1", "in_progress"),
        asks(1, "c1"),
        Frame(">", {"method": "session/cancel", "params": {"sessionId": "s"}}),
        Frame("<", {"id": 5, "method": "fs/write_text_file", "params": {"sessionId": "s"}}),
        Frame("#", "killed"),
    ],
)
def test_a_final_status_stays_behind_what_it_may_depend_on(fence: Frame) -> None:
    lines = [chunk("a"), fence, status("c1", "completed")]
    assert place_final_statuses(lines) == lines


def test_final_statuses_side_by_side_stand_in_the_order_of_their_calls() -> None:
    done = [status(f"c{n}", "completed") for n in (1, 2, 3)]
    assert all(place_final_statuses(order) == done for order in itertools.permutations(done))


# --- the log ---


def record(kind: str, /, **data: Any) -> Json:
    return {"type": kind, "data": data}


def test_the_envelope_goes_and_the_rest_stays() -> None:
    whole = {"type": "turn/end", "seq": 4, "time": 1, "data": {"turn": 1}, "synthetic": True, "d": 3, "crc": "x"}
    assert without_envelope(whole) == {"type": "turn/end", "data": {"turn": 1}, "synthetic": True}


def test_deltas_go_once_their_message_is_there_and_are_joined_before() -> None:
    first = record("assistant/delta", messageId="m", kind="text", text="a", turn=1, step=1)
    second = record("assistant/delta", messageId="m", kind="text", text="b", turn=1, step=1)
    both = record("assistant/delta", messageId="m", kind="text", text="ab", turn=1, step=1)
    assert without_superseded([first, second]) == [both]
    message = record("assistant/message", id="m")
    assert without_superseded([first, message]) == [message]
    other = record("assistant/message", id="n")
    assert without_superseded([first, other]) == [first, other]


def test_neighbouring_results_stand_in_the_order_of_their_calls_and_others_do_not_move() -> None:
    one, two = record("tool/result", callId="c1"), record("tool/result", callId="c2")
    assert order_by_call([two, one]) == [one, two]
    apart = [two, record("step/end"), one]
    assert order_by_call(apart) == apart


def test_a_changed_word_of_a_prompt_or_a_schema_shows_in_the_digest() -> None:
    def header(system: str, description: str) -> Json:
        tools = [{"name": "t", "description": description, "parameters": {}}]
        return with_digests(record("request/header", system=system, tools=tools))

    assert header("a", "b") == header("a", "b")
    assert len({compact(header(*words)) for words in (("a", "b"), ("a", "c"), ("b", "b"))}) == 3
    assert header("a", "b")["data"]["tools"][0] == "t"

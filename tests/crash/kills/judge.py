"""What must hold of a session whose agent was killed, judged from outside: by its log, its files and its client.

Owns the columns of the kill table and what counts in each. Knows no agent and no clock.
"""

import json
import re
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

Json: TypeAlias = dict[str, Any]

COLUMNS = (
    "prompts lost",
    "settled facts lost",
    "tools run twice",
    "effects without intent",
    "sessions that would not load",
    "calls wrongly classified",
    "transcripts rejected",
    "repairs not stable",
    "children left",
    "replays unlike what was live",
    "surprises",
)

_BLAMES_USER = re.compile(r"(?i)\buser\s+(has |had )?(interrupt|cancel|stopped|abort|ended)")


@dataclass(slots=True)
class Verdicts:
    """What was found, by column; the same finding counts once."""

    found: dict[str, set[str]] = field(default_factory=lambda: {column: set() for column in COLUMNS})
    kills: Counter[str] = field(default_factory=Counter[str])
    _guard: threading.Lock = field(default_factory=threading.Lock)

    def add(self, column: str, what: str) -> None:
        """Note a violation."""
        with self._guard:
            self.found[column].add(what)

    def killed(self, point: str) -> None:
        """Count a kill."""
        with self._guard:
            self.kills[point] += 1

    @property
    def clean(self) -> bool:
        """Whether every column is 0."""
        return not any(self.found.values())

    def __str__(self) -> str:
        """Return what was found, a line each."""
        return "\n".join(f"{column}: {what}" for column, found in self.found.items() for what in sorted(found))


@dataclass(slots=True)
class Turn:
    """One prompt, and what of it came to the outside before the kill.

    Attributes:
        prompt: its whole text, unique; empty for a continuation.
        asked: how many requests the provider saw.
        answer: the prompt's response, if it came.
        settled: final tool updates by call id.
        said: streamed text by message id.
    """

    prompt: str
    asked: int = 0
    answer: Json | None = None
    settled: dict[str, Json] = field(default_factory=dict[str, Json])
    said: dict[str, str] = field(default_factory=dict[str, str])

    def take(self, messages: Iterable[Json], prompt_id: int) -> None:
        """Take in what the client received during the turn."""
        for message in messages:
            if message.get("id") == prompt_id and "method" not in message:
                self.answer = message
            for update in updates_of(message):
                if update.get("status") in ("completed", "failed"):
                    self.settled[update["toolCallId"]] = update
        self.said = said(messages)


def updates_of(message: Json) -> Iterator[Json]:
    """Yield the update that a message carries, if it is one."""
    if message.get("method") == "session/update":
        yield message["params"]["update"]


def said(messages: Iterable[Json]) -> dict[str, str]:
    """Return the agent's text by message id."""
    found: dict[str, str] = {}
    for message in messages:
        for update in updates_of(message):
            if update["sessionUpdate"] == "agent_message_chunk":
                found[update["messageId"]] = found.get(update["messageId"], "") + update["content"]["text"]
    return found


@dataclass(slots=True)
class Session:
    """All that is known of one session from outside.

    Attributes:
        tokens: by token, the name of the tool that the model asked for with it.
    """

    name: str
    folder: Path
    verdicts: Verdicts
    turns: list[Turn] = field(default_factory=list[Turn])
    tokens: dict[str, str] = field(default_factory=dict[str, str])

    def found(self, column: str, what: str) -> None:
        """Note a violation of this session."""
        self.verdicts.add(column, f"{self.name}: {what}")

    # --- the log ---

    def judge_log(self, events: list[Json]) -> None:
        """Hold a repaired log against all that the client and the provider were told."""
        prompts = [text_of(event["data"]["content"]) for event in of(events, "user/message")]
        continued = sum(event["data"].get("continues") is not None for event in of(events, "turn/start"))
        expected = 0
        for turn in self.turns:
            reached = turn.asked > 0 or (turn.answer is not None and "result" in turn.answer)
            if not turn.prompt:
                expected += reached
            elif reached and turn.prompt not in prompts:
                self.found("prompts lost", turn.prompt)
            self._judge_answer(events, turn)
            self._judge_settled(events, turn)
        if continued < expected:
            self.found("prompts lost", f"{expected} continuations were begun, {continued} are in the log")
        for text in set(prompts) - {turn.prompt for turn in self.turns}:
            self.found("prompts lost", f"nobody said {text!r}")
        for text, count in Counter(prompts).items():
            if count > 1:
                self.found("prompts lost", f"{text!r} is there {count} times")
        self._judge_classes(events)

    def _judge_answer(self, events: list[Json], turn: Turn) -> None:
        if turn.answer is None or not turn.prompt:
            return
        if "error" in turn.answer:
            self.found("surprises", f"a prompt was answered with {turn.answer['error']}")
            return
        number = 0
        for event in events:
            if event["type"] == "turn/start":
                number = event["data"]["turn"]
            if event["type"] == "user/message" and text_of(event["data"]["content"]) == turn.prompt:
                break
        ends = [event for event in of(events, "turn/end") if event["data"]["turn"] == number]
        if len(ends) != 1 or ends[0].get("synthetic") or ends[0]["data"]["reason"] != "completed":
            self.found("settled facts lost", f"{turn.prompt} was answered, the log has {ends}")

    def _judge_settled(self, events: list[Json], turn: Turn) -> None:
        for call_id, update in turn.settled.items():
            results = [event for event in of(events, "tool/result") if event["data"]["callId"] == call_id]
            if len(results) != 1 or results[0].get("synthetic"):
                self.found("settled facts lost", f"{call_id} was {update['status']}, the log has {results}")
                continue
            data = results[0]["data"]
            status = "failed" if data.get("isError") else "completed"
            if status != update["status"] or drawn(data) != shown(update):
                self.found("settled facts lost", f"{call_id} is {data}, where the client was shown {update}")

    def _judge_classes(self, events: list[Json]) -> None:
        requests: dict[str, str] = {}
        called: set[str] = set()
        results: Counter[str] = Counter()
        effects = self.effects()
        for event in events:
            data = event["data"]
            match event["type"]:
                case "assistant/message":
                    requests |= {b["callId"]: b["arguments"] for b in data["content"] if b["type"] == "tool_request"}
                case "tool/call":
                    called.add(data["callId"])
                case "tool/result":
                    results[data["callId"]] += 1
                    self._judge_result(event, data["callId"] in called, requests.get(data["callId"], ""), effects)
                case _:
                    pass
        if unpaired := {call_id for call_id in requests if results[call_id] != 1} | set(results) - set(requests):
            self.found("calls wrongly classified", f"not one result each: {sorted(unpaired)}")

    def _judge_result(self, event: Json, was_called: bool, arguments: str, effects: Counter[str]) -> None:
        data = event["data"]
        code, call_id = data.get("code"), data["callId"]
        if event.get("synthetic"):
            right = "TOOL_OUTCOME_UNKNOWN" if was_called else "TOOL_NOT_STARTED"
            if code != right or not data.get("isError"):
                self.found("calls wrongly classified", f"{call_id} is {code}, not {right}")
        elif code in ("TOOL_OUTCOME_UNKNOWN", "TOOL_NOT_STARTED"):
            self.found("calls wrongly classified", f"{call_id} has a result of its own, marked {code}")
        if code == "TOOL_NOT_STARTED" and any(token in arguments for token in effects):
            self.found("calls wrongly classified", f"{call_id} never started, and had an effect")
        if _BLAMES_USER.search(text_of(data["content"])):
            self.found("calls wrongly classified", f"{call_id} is told as the user's doing: {data['content']}")

    # --- the world ---

    def effects(self) -> Counter[str]:
        """Return how often each token had an effect."""
        found: Counter[str] = Counter()
        log = self.folder / "effects.log"
        if log.exists():
            found.update(log.read_text().split())
        for token, name in self.tokens.items():
            file = self.folder / f"{token}.txt"
            if name in ("write_file", "edit_file") and file.exists():
                found[token] += file.read_text().count(token)
        return +found

    def judge_effects(self, events: list[Json]) -> None:
        """Hold what happened outside against what the log says was to happen."""
        intended = json.dumps([event["data"]["arguments"] for event in of(events, "tool/call")])
        for token, count in self.effects().items():
            if count > 1:
                self.found("tools run twice", f"{token}, {count} times")
            if token not in intended:
                self.found("effects without intent", token)

    def judge_requests(self, texts: Iterable[str]) -> None:
        """Nothing that the model was told may call a kill the user's doing."""
        for text in texts:
            if blame := _BLAMES_USER.search(text):
                self.found(
                    "calls wrongly classified", f"the model was told: {text[max(0, blame.start() - 80) :][:200]}"
                )

    # --- the client ---

    def judge_replay(self, messages: list[Json]) -> None:
        """Hold a load's updates against what was shown live."""
        text = said(messages)
        cards = {u["toolCallId"]: u for m in messages for u in updates_of(m) if u["sessionUpdate"] == "tool_call"}
        for turn in self.turns:
            for message_id, live in turn.said.items():
                again = text.get(message_id, "")
                if not (live.startswith(again) or again.startswith(live)) and not message_id.startswith("notice_"):
                    self.found("replays unlike what was live", f"{message_id}: {live!r}, then {again!r}")
            for call_id, update in turn.settled.items():
                card = cards.get(call_id, {})
                if card.get("status") != update["status"] or shown(card) != shown(update):
                    self.found("replays unlike what was live", f"{call_id}: {update}, then {card}")
        for call_id, card in cards.items():
            if card["status"] not in ("completed", "failed"):
                self.found("replays unlike what was live", f"{call_id} is shown as {card['status']} after a load")


def of(events: Iterable[Json], kind: str) -> list[Json]:
    """Return the events of one type."""
    return [event for event in events if event["type"] == kind]


def text_of(content: Iterable[Mapping[str, Any]]) -> str:
    """Return the text of content blocks."""
    return "".join(block.get("text", "") for block in content)


def drawn(result: Json) -> list[Json]:
    """Return what a logged result is drawn as, as far as it is text or a diff."""
    blocks = result.get("shown") or result["content"]
    kept = [{key: block[key] for key in ("text", "path", "newText") if key in block} for block in blocks]
    return [{**item, "text": item["text"].removesuffix("\n")} if "text" in item else item for item in kept]


def shown(update: Json) -> list[Json]:
    """Return what a tool card shows, as far as it is text or a diff; text without the fence that it may stand in."""
    found = (item["content"] if item["type"] == "content" else item for item in update.get("content", ()))
    kept = ({key: item[key] for key in ("text", "path", "newText") if key in item} for item in found)
    return [{**item, "text": unfenced(item["text"])} if "text" in item else item for item in kept]


def unfenced(text: str) -> str:
    """Return what a fenced code block holds, without the end of its last line; other text as it is."""
    fence = text[: len(text) - len(text.lstrip("`~"))]
    inner = text.removeprefix(f"{fence}\n").removesuffix(f"\n{fence}")
    return inner if fence and f"{fence}\n{inner}\n{fence}" == text else text


def same_log(before: list[Json], after: list[Json]) -> bool:
    """Whether a later log is the earlier one: a load with nothing new to say writes nothing."""
    return [_plain(event) for event in after] == [_plain(event) for event in before]


def _plain(event: Json) -> Json:
    return {key: value for key, value in event.items() if key not in ("d", "crc")}  # anew at every rewrite


def read_log(path: Path) -> list[Json]:
    """Return the events of a log.

    Raises:
        ValueError: a line is not whole.
    """
    lines = path.read_text().split("\n")
    if lines[-1]:
        raise ValueError("the log ends in half a line")
    return [json.loads(line) for line in lines[1:-1]]

"""A whole process over real pipes: what comes in, what comes out, and nothing else."""

import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import orjson
import pytest
from support.loops import BOTH_WHEN_SLOW

from acp_bridge.rpc import Failure, Notification, Request, Success, encode

SCRIPT = str(Path(__file__).with_name("echo.py"))
WAIT_S = 5


def command(backend: str = "asyncio") -> list[str]:
    return [sys.executable, SCRIPT, backend]


class Child:
    """The process, and its lines as they come."""

    def __init__(self, backend: str = "asyncio", stdout: int = subprocess.PIPE) -> None:
        self.process = subprocess.Popen(command(backend), stdin=subprocess.PIPE, stdout=stdout, stderr=subprocess.PIPE)
        self.lines: queue.Queue[bytes] = queue.Queue()
        self.noise = b""
        self._threads = [threading.Thread(target=self._read_errors)]
        self._threads[0].start()

    def read(self) -> None:
        """Begin to read what it sends."""
        thread = threading.Thread(target=self._read_lines)
        self._threads.append(thread)
        thread.start()

    def _read_lines(self) -> None:
        for line in self._stream(self.process.stdout):
            self.lines.put(line)
        self.lines.put(b"")

    def _read_errors(self) -> None:
        self.noise = self._stream(self.process.stderr).read()

    @staticmethod
    def _stream(stream: IO[bytes] | None) -> IO[bytes]:
        assert stream is not None
        return stream

    def write(self, data: bytes) -> None:
        stream = self._stream(self.process.stdin)
        stream.write(data)
        stream.flush()

    def next(self) -> dict[str, Any]:
        line = self.lines.get(timeout=WAIT_S)
        assert line.endswith(b"\n"), (line, self.noise)
        return orjson.loads(line)

    def hang_up(self) -> None:
        self._stream(self.process.stdin).close()

    def end(self) -> int:
        """Hang up and wait; the exit code."""
        self.hang_up()
        try:
            return self.process.wait(WAIT_S)
        finally:
            self.process.kill()
            self.process.wait()
            for thread in self._threads:
                thread.join(WAIT_S)
            for stream in (self.process.stdout, self.process.stderr):
                if stream is not None:
                    stream.close()


@pytest.fixture(scope="module", params=["asyncio", "trio"])
def child(request: pytest.FixtureRequest) -> Iterator[Child]:
    """One process for all that it must survive."""
    child = Child(request.param)
    child.read()
    yield child
    assert child.end() == 0
    assert b"Traceback" not in child.noise.replace(b"Traceback (most recent call last)", b"", 2)  # those of `fail`
    assert child.lines.get(timeout=WAIT_S) == b""


@pytest.fixture
def alive(child: Child) -> Iterator[Child]:
    """The process, which still answers after the test, and with nothing in between."""
    yield child
    child.write(encode(Request("alive", "echo", {})))
    assert child.next() == {"jsonrpc": "2.0", "id": "alive", "result": {}}


def call(text: bytes) -> bytes:
    return b'{"jsonrpc":"2.0","method":"echo",' + text + b"}\n"


def nested(levels: int) -> bytes:
    return call(b'"id":1,"params":{"a":' + b"[" * (levels - 2) + b"]" * (levels - 2) + b"}")


ERRORS = {
    "invalid JSON": (b"{\n", None, -32700),
    "a byte order mark": (b"\xef\xbb\xbf" + call(b'"id":1'), None, -32700),
    "trailing garbage": (call(b'"id":1').strip() + b"}\n", None, -32700),
    "a raw NUL": (b"\x00" + call(b'"id":1'), None, -32700),
    "invalid UTF-8": (call(b'"id":"\xff"'), None, -32700),
    "NaN": (call(b'"id":1,"params":{"a":NaN}'), None, -32700),
    "infinity": (call(b'"id":1,"params":{"a":1e999}'), None, -32700),
    "129 levels": (nested(129), 1, -32600),
    "1,000 levels": (nested(1000), 1, -32600),
    "100,000 levels": (nested(100_000), 1, -32600),
    "an id of 65 bits": (call(b'"id":%d' % 2**64), None, -32600),
    "an id of 40 digits": (call(b'"id":' + b"9" * 40), None, -32600),
    "a boolean id": (call(b'"id":true'), None, -32600),
    "a fractional id": (call(b'"id":1.0'), None, -32600),
    "an object for an id": (call(b'"id":{}'), None, -32600),
    "an empty batch": (b"[]\n", None, -32600),
    "a batch": (b"[" + call(b'"id":1').strip() + b"]\n", None, -32600),
    "a scalar": (b"1\n", None, -32600),
    "null": (b"null\n", None, -32600),
    "no JSON-RPC": (b'{"foo":"bar"}\n', None, -32600),
    "no version": (b'{"id":1,"method":"echo"}\n', 1, -32600),
    "a method that is no string": (b'{"jsonrpc":"2.0","id":1,"method":1}\n', 1, -32600),
    "params by position": (call(b'"id":1,"params":[]'), 1, -32602),
    "an unknown method": (encode(Request(1, "nobody", {})), 1, -32601),
    "an unknown extension": (encode(Request(1, "_x/y", {})), 1, -32601),
    "a failing handler": (encode(Request(1, "fail", {})), 1, -32603),
    "a result that no JSON can say": (encode(Request(1, "surrogate", {})), 1, -32603),
}


@pytest.mark.parametrize("name", ERRORS)
def test_bad_input_gets_its_error_and_the_connection_lives(alive: Child, name: str) -> None:
    line, request_id, code = ERRORS[name]
    alive.write(line)
    answer = alive.next()
    assert (answer["jsonrpc"], answer["id"], answer["error"]["code"]) == ("2.0", request_id, code)
    message = answer["error"]["message"]
    assert message
    assert "\n" not in message
    assert "secret" not in message


IGNORED = {
    "blank lines": b"\n  \n\r\n",
    "an unknown notification": encode(Notification("nobody", {})),
    "an unknown extension": encode(Notification("_x", {})),
    "an unknown protocol notification": encode(Notification("$/x", {})),
    "a notification with bad params": b'{"jsonrpc":"2.0","method":"n","params":[1]}\n',
    "a cancel of nobody": encode(Notification("$/cancel_request", {"requestId": 77})),
    "a response to nobody": encode(Success(77, {})),
    "an error to nobody": encode(Failure(77, -1, "no")),
    "an error without an id": encode(Failure(None, -32700, "no")),
    "a response with both": b'{"jsonrpc":"2.0","id":1,"result":1,"error":{"code":1,"message":"m"}}\n',
}


@pytest.mark.parametrize("name", IGNORED)
def test_what_may_not_be_answered_is_ignored(alive: Child, name: str) -> None:
    alive.write(IGNORED[name])


@pytest.mark.parametrize("request_id", [0, -1, 2**53 + 1, 2**63 - 1, "", "1", "é", None])
def test_an_id_comes_back_as_it_is(alive: Child, request_id: int | str | None) -> None:
    alive.write(encode(Request(request_id, "echo", {"a": 1})))
    assert alive.next() == {"jsonrpc": "2.0", "id": request_id, "result": {"a": 1}}


def test_absent_and_null_params_are_empty(alive: Child) -> None:
    alive.write(call(b'"id":1') + call(b'"id":2,"params":null'))
    assert [alive.next()["result"] for _ in range(2)] == [{}, {}]


def test_of_duplicate_keys_the_last_wins(alive: Child) -> None:
    alive.write(call(b'"id":1,"params":{"a":1,"a":2}'))
    assert alive.next()["result"] == {"a": 2}


def test_text_comes_back_in_one_line_of_utf_8(alive: Child) -> None:
    params = {"text": "a\nb\u2028c\x00d 𝄞 é"}
    alive.write(encode(Request(1, "echo", params)))
    assert alive.next()["result"] == params


def test_an_id_in_flight_is_refused_and_the_running_request_can_still_be_cancelled(alive: Child) -> None:
    alive.write(encode(Request(1, "wait", {})) * 2)
    assert (alive.next()["error"]["code"], alive.process.poll()) == (-32600, None)
    alive.write(encode(Notification("$/cancel_request", {"requestId": 1})))
    assert alive.next()["error"]["code"] == -32800


def test_lines_end_in_crlf_too(alive: Child) -> None:
    alive.write(b"\r\n" + call(b'"id":1').replace(b"\n", b" \r\n"))
    assert alive.next()["id"] == 1


def test_one_byte_per_write_is_one_message(alive: Child) -> None:
    for byte in encode(Request("é", "echo", {"text": "𝄞"})):
        alive.write(bytes((byte,)))
    assert alive.next() == {"jsonrpc": "2.0", "id": "é", "result": {"text": "𝄞"}}


def test_ten_thousand_messages_in_one_write_are_all_answered(alive: Child) -> None:
    alive.write(b"".join(encode(Request(n, "echo", {})) for n in range(10_000)))
    assert sorted([alive.next()["id"] for _ in range(10_000)]) == list(range(10_000))


@pytest.mark.parametrize("size", [70_000, 2_000_000, 7_000_000])
def test_a_long_line_works(alive: Child, size: int) -> None:
    alive.write(encode(Request(1, "echo", {"text": "x" * size})))
    assert len(alive.next()["result"]["text"]) == size


def test_a_line_too_long_for_clients_is_an_error(alive: Child) -> None:
    half = "x" * 5_000_000
    alive.write(b'{"jsonrpc":"2.0","id":1,"method":"echo","params":{"a":"%b","b":"%b"}}\n' % ((half.encode(),) * 2))
    assert alive.next()["error"]["code"] == -32603


def test_a_request_to_the_client_is_answered_by_it_and_a_late_answer_ignored(alive: Child) -> None:
    alive.write(encode(Request(1, "ask", {"a": 1})))
    asked = alive.next()
    assert (asked["method"], asked["params"]) == ("client/ask", {"a": 1})
    alive.write(encode(Success(asked["id"], "yes")))
    assert alive.next()["result"] == "yes"
    alive.write(encode(Request(2, "ask", {})))
    asked = alive.next()
    alive.write(encode(Notification("$/cancel_request", {"requestId": 2})))
    taken_back = alive.next()
    assert (taken_back["method"], taken_back["params"]) == ("$/cancel_request", {"requestId": asked["id"]})
    assert alive.next()["error"]["code"] == -32800
    alive.write(encode(Success(asked["id"], "late")))


def test_sigpipe_changes_nothing(alive: Child) -> None:
    alive.process.send_signal(signal.SIGPIPE)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the peak of memory is read from /proc")
def test_a_line_of_100_megabytes_is_refused_in_bounded_memory() -> None:
    child = Child()
    child.read()
    child.write(encode(Request(1, "peak", {})))
    before = child.next()["result"]
    block = b"x" * 1_000_000
    for _ in range(100):
        child.write(block)
    child.write(b"\n" + encode(Request(2, "peak", {})))
    refusal = child.next()
    assert (refusal["id"], refusal["error"]["code"]) == (None, -32600)
    assert child.next()["result"] - before < 60_000_000
    assert child.end() == 0


# --- the descriptors ---


def run(
    backend: str = "asyncio",
    *,
    data: bytes | None = None,
    stdin: int | IO[bytes] | None = None,
    stdout: int | IO[bytes] = subprocess.PIPE,
) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        command(backend), input=data, stdin=stdin, stdout=stdout, stderr=subprocess.PIPE, timeout=WAIT_S
    )


THREE = b"".join(encode(Request(n, "echo", {})) for n in range(3))
ANSWERS = b"".join(encode(Success(n, {})) for n in range(3))


def lines(data: bytes) -> set[bytes]:
    """Requests without order between them may be answered in any."""
    return set(data.splitlines())


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_the_null_device_as_input_is_an_orderly_end(backend: str) -> None:
    done = run(backend, stdin=subprocess.DEVNULL)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_regular_file_as_input_is_answered_into_a_regular_file(tmp_path: Path, backend: str) -> None:
    (tmp_path / "in").write_bytes(THREE)
    with open(tmp_path / "in", "rb") as source, open(tmp_path / "out", "wb") as sink:
        done = run(backend, stdin=source, stdout=sink)
    assert (done.returncode, done.stderr) == (0, b"")
    assert lines((tmp_path / "out").read_bytes()) == lines(ANSWERS)


def test_half_a_line_at_the_end_is_dropped() -> None:
    done = run(data=THREE + b'{"jsonrpc":"2.0","id":9')
    assert (done.returncode, lines(done.stdout), done.stderr) == (0, lines(ANSWERS), b"")


@pytest.mark.parametrize(
    ("closing", "answered"), [("2>&-", True), ("<&-", False), (">&-", False), ("<&- >&- 2>&-", False)]
)
def test_missing_descriptors_are_no_obstacle(closing: str, answered: bool) -> None:
    shell = ["sh", "-c", f'exec "$@" {closing}', "sh", *command()]
    done = subprocess.run(shell, input=THREE, capture_output=True, timeout=WAIT_S)
    assert (done.returncode, done.stderr) == (0, b"")
    assert lines(done.stdout) == (lines(ANSWERS) if answered else set())


def test_noise_of_the_process_and_its_children_goes_to_stderr_and_they_read_nothing() -> None:
    done = run(data=encode(Request("noise", "noise", {})) + THREE)
    assert done.returncode == 0
    assert lines(done.stdout) == lines(ANSWERS + encode(Success("noise", "quiet")))
    assert all(noise in done.stderr for noise in (b"print\n", b"unflushed", b"descriptor\n", b"child\n", b"error\n"))


def test_a_child_of_the_process_takes_nothing_from_the_protocol() -> None:
    child = Child()
    child.read()
    child.write(encode(Request(1, "noise", {})))  # its child reads to the end of stdin, which is still open here
    assert child.next() == {"jsonrpc": "2.0", "id": 1, "result": "quiet"}
    assert child.end() == 0


# --- a client that is slow, or gone ---


@pytest.mark.parametrize("backend", BOTH_WHEN_SLOW)
def test_a_client_that_stops_reading_and_then_reads_loses_nothing(backend: str) -> None:
    child = Child(backend)
    count = 60_000  # of 250 bytes: some three times what may be queued
    child.write(encode(Request(1, "bulk", {"count": count, "size": 200})))
    child.write(encode(Request(2, "echo", {})))  # it still reads and answers while its output stands
    child.read()
    found = [child.next() for _ in range(count + 2)]
    assert [message["params"]["n"] for message in found if "params" in message] == list(range(count))
    assert found[-1] == {"jsonrpc": "2.0", "id": 1, "result": count}
    assert found.index({"jsonrpc": "2.0", "id": 2, "result": {}}) < count
    assert child.end() == 0


def test_all_that_is_queued_at_the_end_reaches_a_client_that_reads_late() -> None:
    child = Child()
    count = 20_000
    child.write(encode(Request(1, "flood", {"count": count, "size": 200})))
    child.hang_up()
    child.read()
    assert [child.next().get("params", {}).get("n") for _ in range(count + 1)] == [*range(count), None]
    assert child.end() == 0


def test_a_client_that_closes_its_end_gets_a_quick_quiet_exit() -> None:
    read, write = os.pipe()
    child = Child(stdout=write)
    os.close(write)
    os.close(read)
    child.write(encode(Request(1, "bulk", {"count": 10_000_000, "size": 200})))
    assert child.process.wait(WAIT_S) == 1
    child.end()
    assert child.noise == b""


def test_importing_the_package_loads_nothing_slow() -> None:
    code = "import sys, acp_bridge.rpc, acp_bridge.effects; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, check=True, timeout=WAIT_S
    ).stdout.decode()
    assert not {"asyncio", "trio", "pydantic", "httpx", "subprocess"} & set(loaded.split())

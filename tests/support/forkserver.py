"""A process that has imported what an agent imports, and forks one for each order that comes over a socket.

Owns what a fork must be given so that it is what the command would have been: descriptors, folder, environment,
session, signals, streams, arguments, and an end by the interpreter. Has no thread, no event loop and no descriptor
beyond its socket, which it verifies before the first fork. Run as a program, by `warm`, which is told the pid of each.

An agent is the grandchild: its parent ends at once, so that the kernel hands it to the one who ordered it, who is the
nearest subreaper at that moment and so waits for it, signals it and gets its exit status as for any child of its own.
"""

import gc
import importlib
import io
import json
import os
import runpy
import signal
import socket
import sys
import tempfile
import threading
import time
from typing import Any, Final, TypeAlias

Order: TypeAlias = dict[str, Any]

IMPORTS: Final = (
    "acp_bridge.cli.serve",
    "acp_bridge.headless",
    "acp_bridge.bridge.bridge",
    "acp_bridge.composition",
    "acp_bridge.llm.scripted",
    "acp_bridge.llm.recording",
    "anyio._backends._asyncio",
    "anyio._backends._trio",
    "openai.resources.chat",
    "anthropic.resources.messages",
    "mcp",
)
"""What agents of the tests import sooner or later."""
LENGTH_BYTES: Final = 4
PID_BYTES: Final = 20


def serve(control: socket.socket) -> Order | None:
    """Fork an agent for each order until nobody is left to give one; return the order in the agent, None at the end."""
    while True:
        head, fds, _flags, _address = socket.recv_fds(control, LENGTH_BYTES, 3)
        if not head:
            return None
        order: Order = json.loads(control.recv(int.from_bytes(head), socket.MSG_WAITALL))
        ours, theirs = os.pipe()
        parent = os.fork()
        if not parent:
            agent = os.fork()
            if agent:
                os.write(theirs, str(agent).encode())
                os._exit(0)
            control.close()
            become(order, fds)
            return order
        os.close(theirs)
        pid = os.read(ours, PID_BYTES)
        os.waitpid(parent, 0)  # from here on the agent is the child of whoever ordered it
        for fd in (ours, *fds):
            os.close(fd)
        control.sendall(pid.rjust(PID_BYTES))


def become(order: Order, fds: list[int]) -> None:
    """Make this process what `order` says, as an interpreter that has just begun would find itself."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if order["own_session"]:
        os.setsid()
    for number, fd in enumerate(fds):
        os.dup2(fd, number)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    os.chdir(order["cwd"])
    coerced = {"LC_CTYPE": os.environ["LC_CTYPE"]} if "LC_CTYPE" in os.environ else {}
    given: dict[str, str] = order["env"]
    sys.dont_write_bytecode = bool(given.get("PYTHONDONTWRITEBYTECODE"))
    os.environ.clear()
    os.environ.update(given if {"LC_ALL", "LC_CTYPE", "LANG"} & given.keys() else {**given, **coerced})  # PEP 538
    time.tzset()
    tempfile.tempdir = None
    sys.stdin = sys.__stdin__ = _stream(0, sys.stdin)
    sys.stdout = sys.__stdout__ = _stream(1, sys.stdout)
    sys.stderr = sys.__stderr__ = _stream(2, sys.stderr)


def _stream(fd: int, like: Any) -> Any:
    """Return the stream that an interpreter makes of a descriptor at its start."""
    raw = io.FileIO(fd, "r" if fd == 0 else "w", closefd=False)
    if fd and os.environ.get("PYTHONUNBUFFERED"):
        return io.TextIOWrapper(raw, like.encoding, like.errors, write_through=True)
    buffered = io.BufferedReader(raw) if fd == 0 else io.BufferedWriter(raw)
    return io.TextIOWrapper(buffered, like.encoding, like.errors, line_buffering=fd == 2 or raw.isatty())


def run(order: Order) -> None:
    """Run the program that was ordered."""
    sys.argv = order["argv"]
    more = [entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
    sys.path[:0] = [order["cwd"] if order["path"] is None else order["path"], *more]
    if order["module"]:
        runpy.run_module(order["module"], run_name="__main__", alter_sys=True)
    elif order["code"]:
        exec(order["code"], {"__name__": "__main__"})
    else:
        runpy.run_path(order["argv"][0], run_name="__main__")


def main() -> None:
    """Import, verify that a fork shares nothing that it must not, and serve."""
    control = socket.socket(fileno=int(sys.argv[1]))
    control.set_inheritable(False)
    del sys.path[0]  # this file's folder
    for name in IMPORTS:
        importlib.import_module(name)
    assert threading.active_count() == 1, threading.enumerate()
    opened = {int(name) for name in os.listdir("/proc/self/fd")} - {0, 1, 2, control.fileno()}
    assert len(opened) == 1, opened  # the listing's own
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupted run of tests ends it by closing the socket
    gc.collect()
    gc.freeze()  # else the first collection in an agent would copy every page
    order = serve(control)
    if order is not None:
        run(order)


if __name__ == "__main__":
    main()

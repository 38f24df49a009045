"""The guard process: runs one program and ends all its descendants when the pipe from the agent closes.

A script of its own, started with `python -I -S`, so it imports next to nothing: it stands before every command. It
lives in a session of its own, so a signal to the agent's process group does not reach it; and it is the reaper of
its descendants, so those that left the session or lost their parent are still found. Knows nothing of the agent.

    _guardian.py CONTROL_FD DRAIN_FD RUNNING_PATH NOT_ENV PROGRAM [ARGUMENT…]

It writes lines to CONTROL_FD: `started PID`, `ended CODE LEFT`, `failed WHY`. It reads `d` there, from when on it
empties the pipe DRAIN_FD, so that a job in the background is not stopped by a pipe that nobody reads; and the end of
the stream, at which it ends everything. Without anything left to guard it goes by itself. NOT_ENV names a variable that
the program is not to have: Python sets LC_CTYPE for itself where no locale is set (PEP 538).
"""

# ruff: noqa: SIM105, S605, S606, S607 - contextlib takes 4 ms to import; and starting programs is all that this is for

import fcntl
import os
import select
import sys
import time

_signal = __import__("_signal")  # `signal` takes 5 ms; and this has no type stub

GRACE_S = 0.4
"""Between TERM and KILL."""
SETTLE_S = 0.05
"""What a command's last processes may take to go before they count as left in the background."""
LOCK_S = 2.0

LINUX = sys.platform.startswith("linux")
PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 36, 38


class Guard:
    """One program and whatever it started."""

    def __init__(self, control: int, drain: int, groups: set[int] | None) -> None:
        self.control = control
        self.drain = drain
        self.poll = select.poll()
        self.child = 0
        self.code: int | None = None
        self.groups = groups
        self.alone = False

    def run(self, argv: list[str]) -> None:
        """Start `argv`, tell how it ended, and stay while anything that it started lives."""
        wake = self.watch()
        if self.poll.poll(0):
            return  # the agent is gone already, and nobody would hear of what this would do
        self.child = self.spawn(argv)
        if self.groups is not None:
            self.groups.add(self.child)
        detach()
        told_at = 0.0
        while True:
            told_at = self.tell(told_at)
            if self.alone and told_at < 0:
                return
            timeout = 1000 if told_at <= 0 else max(1, (told_at - time.monotonic()) * 1000)
            events = dict(self.poll.poll(None if self.groups is None and told_at <= 0 else timeout))
            if self.control in events and not self.obey():
                self.end_all(wake)
                return
            if self.drain in events and not empty(self.drain):
                self.poll.unregister(self.drain)
            self.reap(wake)

    def spawn(self, argv: list[str]) -> int:
        """Start the program in a process group of its own, with every signal as by default."""
        pid = os.fork()
        if pid:
            return pid
        try:
            os.setpgid(0, 0)
            self.say(f"started {os.getpid()}")  # said here: the program may kill the guard at once
            _signal.set_wakeup_fd(-1)
            for number in range(1, _signal.NSIG):
                try:
                    _signal.signal(number, _signal.SIG_DFL)
                except (OSError, ValueError):
                    pass  # not one that can be set
            os.execvp(argv[0], argv)
        except OSError as exc:
            os.write(2, f"{argv[0]}: {exc.strerror}\n".encode("utf-8", "replace"))
        finally:
            os._exit(127)

    def watch(self) -> int:
        """Have the end of any child, and every word of the agent, wake up the loop."""
        wake, waker = os.pipe()
        os.set_blocking(wake, False)
        os.set_blocking(waker, False)
        _signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
        _signal.signal(_signal.SIGCHLD, lambda *_: None)  # pyright: ignore[reportUnknownLambdaType]
        self.poll.register(wake, select.POLLIN)
        self.poll.register(self.control, select.POLLIN)
        return wake

    def say(self, line: str) -> None:
        """Tell the agent, if it is there; the loop sees it if not."""
        try:
            os.write(self.control, line.encode() + b"\n")
        except OSError:
            pass

    def obey(self) -> bool:
        """Read the agent's words; whether it is still there."""
        try:
            words = os.read(self.control, 64)
        except OSError:
            words = b""
        if b"d" in words and self.drain >= 0:
            self.poll.register(self.drain, select.POLLIN)
        return bool(words)

    def tell(self, at: float) -> float:
        """Tell how the program ended, once its last processes had a moment to go. Return when to; -1 if told."""
        if self.code is None or at < 0:
            return at
        if not at:
            at = time.monotonic() + SETTLE_S
        if not self.alone and time.monotonic() < at:
            return at
        left = 0 if self.alone else max(1, len(descendants(self.groups)))  # what forks fast may escape a look
        self.say(f"ended {self.code} {left}")
        return -1

    def reap(self, wake: int | None = None) -> None:
        """Take in every child that ended. None left means no descendant is left: orphans become our children."""
        if wake is not None:
            empty(wake)
        try:
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if not pid:
                    return
                if pid == self.child:
                    code = os.waitstatus_to_exitcode(status)
                    self.code = code if code >= 0 else 128 - code
        except ChildProcessError:
            self.alone = self.groups is None or not descendants(self.groups)

    def end_all(self, wake: int) -> None:
        """TERM, a short grace, then KILL until none is left. What forks meanwhile is stopped first."""
        self.reap()
        freeze(self.groups)  # else a shell whose program has taken its TERM goes on to the next one
        ending = descendants(self.groups)
        for number in (_signal.SIGTERM, _signal.SIGCONT):  # a stopped process takes its TERM when it goes on
            for pid in ending:
                send(pid, number)
        self.poll.unregister(self.control)
        deadline = time.monotonic() + GRACE_S
        while not self.alone and time.monotonic() < deadline:
            self.poll.poll(20)
            self.reap(wake)
        pause = 2
        while not self.alone:
            freeze(self.groups)
            for pid in descendants(self.groups):
                send(pid, _signal.SIGKILL)
            self.poll.poll(pause)
            self.reap(wake)
            pause = min(pause * 2, 200)  # what the kernel holds goes when it goes


def detach() -> None:
    """Let go of the program's pipes and folder: they must not stay open on our account."""
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    os.close(null)
    os.chdir("/")


def empty(fd: int) -> bool:
    """Read and forget what there is; whether there may be more to come."""
    try:
        return bool(os.read(fd, 65536))
    except OSError as exc:
        return isinstance(exc, BlockingIOError)


def send(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except OSError:
        pass  # gone, or not ours to end


def freeze(groups: set[int] | None) -> None:
    """Stop all descendants, until a look finds no new one: then none can fork away from the KILL."""
    stopped: set[int] = set()
    for _ in range(50):
        fresh = descendants(groups) - stopped
        if not fresh:
            return
        for pid in fresh:
            send(pid, _signal.SIGSTOP)
        stopped |= fresh


def descendants(groups: set[int] | None) -> set[int]:
    """Return the living descendants of this process; with `groups`, also those members of their process groups."""
    table = processes()
    children: dict[int, list[int]] = {}
    for pid, (parent, _, _) in table.items():
        children.setdefault(parent, []).append(pid)
    found: set[int] = set()
    ahead = [os.getpid()]
    while ahead:
        for pid in children.get(ahead.pop(), ()):
            found.add(pid)
            ahead.append(pid)
    if groups is not None:
        groups.update(table[pid][1] for pid in found)
        found.update(pid for pid, (_, group, _) in table.items() if group in groups)
        found.discard(os.getpid())
    return {pid for pid in found if table[pid][2] not in "ZX"}


def processes() -> dict[int, tuple[int, int, str]]:
    """Return parent, process group and state by pid."""
    if not LINUX:
        return listed()
    table: dict[int, tuple[int, int, str]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                fd = os.open(f"/proc/{name}/stat", os.O_RDONLY)
            except OSError:
                continue  # it ended
            try:
                facts = os.read(fd, 1024)
            except OSError:
                continue
            finally:
                os.close(fd)
            state, parent, group = facts[facts.rfind(b")") + 2 :].split(None, 3)[:3]  # a name may hold anything
            table[int(name)] = (int(parent), int(group), state.decode())
    return table


def listed() -> dict[int, tuple[int, int, str]]:
    """As `processes`, from `ps`, where there is no `/proc`; without `ps` itself."""
    with os.popen("echo $$; exec ps -axo pid=,ppid=,pgid=,stat=") as ps:  # pyright: ignore[reportDeprecated]
        own, *facts = map(str.split, ps.read().splitlines())
    return {int(row[0]): (int(row[1]), int(row[2]), row[3][0]) for row in facts if row[0] != own[0]}


def prepare() -> set[int] | None:
    """Become deaf to signals, unable to gain privileges, reaper of orphans; if not, return a set for their groups."""
    for number in (_signal.SIGHUP, _signal.SIGINT, _signal.SIGQUIT, _signal.SIGTERM, _signal.SIGTSTP, _signal.SIGPIPE):
        _signal.signal(number, _signal.SIG_IGN)
    _signal.pthread_sigmask(_signal.SIG_SETMASK, [])
    if not LINUX:
        return set()
    try:
        import _ctypes  # some Pythons are built without; `ctypes` itself takes 3 ms

        prctl = _ctypes.dlsym(_ctypes.dlopen(None, 0), "prctl")  # pyright: ignore[reportArgumentType]
    except ImportError:
        return set()
    _ctypes.call_function(prctl, (PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    return set() if _ctypes.call_function(prctl, (PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)) else None


def lock(path: str) -> bool:
    """Hold `path` shared for as long as this process lives; the program does not inherit it."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    deadline = time.monotonic() + LOCK_S
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
            return True
        except BlockingIOError:  # somebody looks whether earlier commands ended: a matter of moments
            if time.monotonic() > deadline:
                return False
            time.sleep(0.01)


def main() -> None:
    control, drain, running, argv = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[5:]
    os.environ.pop(sys.argv[4], None)
    for fd in (control, drain):
        if fd >= 0:
            os.set_inheritable(fd, False)
    guard = Guard(control, drain, prepare())
    try:
        if running and not lock(running):
            guard.say("failed its lock is held by another process")
            return
        guard.run(argv)
    except OSError as exc:
        guard.say(f"failed {exc.strerror}")


if __name__ == "__main__":
    main()
    os._exit(0)  # nothing to tidy up, and an interpreter takes its time to

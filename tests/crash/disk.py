"""A disk in memory that knows what is in the cache and what is on the medium, and records every call.

It stands in the place of `OsDisk`. What a sync confirmed is stable; what was not synced is pending; what a failed sync
lost stays readable until the machine goes down, and no later sync brings it back: the kernel's own behaviour.
"""

import errno
import os
import stat
from collections.abc import Callable
from dataclasses import dataclass, field


class Killed(BaseException):
    """The process is gone: no line of it runs any more."""


@dataclass(slots=True)
class Node:
    """A file or folder: its bytes or names in the cache, on the medium, and on the way.

    Attributes:
        number: who it is; nobody ever has it again.
        inode: what a file system calls it; the next file may be called the same once this one is gone.
    """

    number: int
    is_folder: bool
    inode: int
    data: bytearray = field(default_factory=bytearray)
    stable: bytes = b""
    pending: list[tuple[int, bytes]] = field(default_factory=list)
    ghosts: list[tuple[int, bytes]] = field(default_factory=list)
    names: dict[str, int] = field(default_factory=dict)
    stable_names: dict[str, int] = field(default_factory=dict)
    pending_names: list[dict[str, int | None]] = field(default_factory=list)
    ghost_names: list[dict[str, int | None]] = field(default_factory=list)

    def copy(self) -> "Node":
        return Node(
            self.number,
            self.is_folder,
            self.inode,
            bytearray(self.data),
            self.stable,
            list(self.pending),
            list(self.ghosts),
            dict(self.names),
            dict(self.stable_names),
            [*self.ghost_names, *self.pending_names],  # a file system that lost names refuses its next user by itself
        )


@dataclass(frozen=True, slots=True)
class Op:
    """One recorded call."""

    kind: str
    path: str
    size: int = 0


CHANGES = frozenset(
    {"create", "write", "write_at", "sync", "sync_folder", "mkdir", "link", "rename", "unlink", "rmdir"}
)
Fault = Callable[[Op], BaseException | int | None]
"""Decides before each call: an error to raise, or for a write how many bytes it may take."""


class ImageDisk:
    """See the module."""

    def __init__(self) -> None:
        self.nodes: dict[int, Node] = {1: Node(1, is_folder=True, inode=1)}
        self.next_number = 2
        self.next_inode = 2
        self.ops: list[Op] = []
        self.fault: Fault | None = None
        self.after: Callable[[Op], None] | None = None
        self.dead = False
        self._open: dict[int, int] = {}
        self._paths: dict[int, str] = {}
        self._append: set[int] = set()
        self._locks: dict[int, int] = {}
        self._next_fd = 100

    # What tests do with it.

    def copy(self) -> "ImageDisk":
        """Return the same disk as another process would find it: nothing is open, no lock is held."""
        other = ImageDisk()
        other.nodes = {number: node.copy() for number, node in self.nodes.items()}
        other.next_number, other.next_inode = self.next_number, self.next_inode
        return other

    def free_inode(self) -> int:
        """Return the number of a file that is gone, of several the latest, else a new one: the worst that may be."""
        named = {1, *self._open.values()}
        for node in self.nodes.values():
            named.update(node.names.values())
        taken = {self.nodes[number].inode for number in named}
        gone = [inode for inode in range(2, self.next_inode) if inode not in taken]
        if gone:
            return gone[-1]
        self.next_inode += 1
        return self.next_inode - 1

    def key(self) -> tuple[object, ...]:
        """Return what makes two disks the same to a reader."""
        return tuple(
            (node.inode, bytes(node.data), tuple(sorted(node.names.items()))) for _, node in sorted(self.nodes.items())
        )

    def changes(self) -> int:
        """Return how many calls could change the disk."""
        return sum(op.kind in CHANGES for op in self.ops)

    def count(self, kind: str) -> int:
        """Return how many calls of one kind there were."""
        return sum(op.kind == kind for op in self.ops)

    def file(self, path: str) -> bytes:
        """Return a file's bytes as the cache has them."""
        return bytes(self._node(path).data)

    # What storage does with it.

    def _call(self, kind: str, path: str, size: int = 0) -> int:
        if self.dead:
            raise Killed
        op = Op(kind, path, size)
        verdict = self.fault(op) if self.fault is not None else None
        if isinstance(verdict, BaseException):
            if kind in ("sync", "sync_folder") and isinstance(verdict, OSError):
                self._lose(self._node(path))
            raise verdict
        self.ops.append(op)
        return size if verdict is None else verdict

    def _done(self) -> None:
        if self.after is not None:
            self.after(self.ops[-1])

    def _lose(self, node: Node) -> None:
        """Do what the kernel does when a write-back fails: call the pages clean and keep showing them."""
        node.ghosts += node.pending
        node.ghost_names += node.pending_names
        node.pending, node.pending_names = [], []

    def _node(self, path: str) -> Node:
        node = self.nodes[1]
        for part in path.strip("/").split("/"):
            if part:
                if part not in node.names:
                    raise FileNotFoundError(errno.ENOENT, "no such file", path)
                node = self.nodes[node.names[part]]
        return node

    def _parent(self, path: str) -> tuple[Node, str]:
        folder, _, name = path.rpartition("/")
        return self._node(folder or "/"), name

    def _change(self, folder: Node, delta: dict[str, int | None]) -> None:
        folder.pending_names.append(delta)
        apply_names(folder.names, delta)

    def open(self, path: str, flags: int) -> int:
        folder, name = self._parent(path)
        there = folder.names.get(name)
        create = bool(flags & os.O_CREAT)
        if there is None and not create:
            raise FileNotFoundError(errno.ENOENT, "no such file", path)
        if there is not None and create and flags & os.O_EXCL:
            raise FileExistsError(errno.EEXIST, "exists", path)
        self._call("create" if there is None else "open", path)
        if there is None:
            there = self._new(is_folder=False)
            self._change(folder, {name: there})
        self._next_fd += 1
        self._open[self._next_fd], self._paths[self._next_fd] = there, path
        if flags & os.O_APPEND:
            self._append.add(self._next_fd)
        self._done()
        return self._next_fd

    def _new(self, *, is_folder: bool) -> int:
        number, self.next_number = self.next_number, self.next_number + 1
        self.nodes[number] = Node(number, is_folder, self.free_inode())
        return number

    def close(self, fd: int) -> None:
        if self.dead:
            raise Killed
        number = self._open.pop(fd)
        if self._locks.get(number) == fd:
            del self._locks[number]

    def read(self, fd: int, size: int, offset: int) -> bytes:
        self._call("read", self._paths[fd])
        return bytes(self.nodes[self._open[fd]].data[offset : offset + size])

    def write(self, fd: int, data: memoryview) -> int:
        assert fd in self._append
        node = self.nodes[self._open[fd]]
        taken = self._call("write", self._paths[fd], len(data))
        self._put(node, len(node.data), bytes(data[:taken]))
        self._done()
        return taken

    def write_at(self, fd: int, data: bytes, offset: int) -> int:
        taken = self._call("write_at", self._paths[fd], len(data))
        self._put(self.nodes[self._open[fd]], offset, data[:taken])
        self._done()
        return taken

    def _put(self, node: Node, offset: int, data: bytes) -> None:
        node.pending.append((offset, data))
        overlay(node.data, offset, data)

    def sync(self, fd: int) -> None:
        node = self.nodes[self._open[fd]]
        self._call("sync", self._paths[fd])
        stable = bytearray(node.stable)
        for offset, data in node.pending:
            overlay(stable, offset, data)
        node.stable, node.pending = bytes(stable), []
        self._done()

    def sync_folder(self, path: str) -> None:
        node = self._node(path)
        self._call("sync_folder", path)
        for delta in node.pending_names:
            apply_names(node.stable_names, delta)
        node.pending_names = []
        self._done()

    def fstat(self, fd: int) -> os.stat_result:
        return self._status(self.nodes[self._open[fd]])

    def lstat(self, path: str) -> os.stat_result:
        if self.dead:
            raise Killed
        return self._status(self._node(path))

    def _status(self, node: Node) -> os.stat_result:
        mode = stat.S_IFDIR | 0o700 if node.is_folder else stat.S_IFREG | 0o600
        return os.stat_result((mode, node.inode, 1, 1, os.geteuid(), 0, len(node.data), 0, 0, 0))

    def names(self, path: str) -> list[str]:
        if self.dead:
            raise Killed
        return list(self._node(path).names)

    def make_folder(self, path: str) -> None:
        folder, name = self._parent(path)
        if name in folder.names:
            raise FileExistsError(errno.EEXIST, "exists", path)
        self._call("mkdir", path)
        self._change(folder, {name: self._new(is_folder=True)})
        self._done()

    def link(self, source: str, target: str) -> None:
        number = self._node(source).number
        folder, name = self._parent(target)
        if name in folder.names:
            raise FileExistsError(errno.EEXIST, "exists", target)
        self._call("link", target)
        self._change(folder, {name: number})
        self._done()

    def rename(self, source: str, target: str) -> None:
        folder, old = self._parent(source)
        same, new = self._parent(target)
        assert folder is same, "storage renames within one folder"
        there = folder.names.get(new)
        if there is not None and self.nodes[there].names:
            raise OSError(errno.ENOTEMPTY, "folder is not empty", target)
        number = self._node(source).number
        self._call("rename", target)
        if self.nodes[number].is_folder:
            self._change(folder, {old: None, new: number})
        else:  # not every file system takes the old name and gives the new one at once; a folder never has two
            self._change(folder, {new: number})
            self._change(folder, {old: None})
        self._done()

    def unlink(self, path: str) -> None:
        self._node(path)
        folder, name = self._parent(path)
        self._call("unlink", path)
        self._change(folder, {name: None})
        self._done()

    def remove_folder(self, path: str) -> None:
        if self._node(path).names:
            raise OSError(errno.ENOTEMPTY, "folder is not empty", path)
        folder, name = self._parent(path)
        self._call("rmdir", path)
        self._change(folder, {name: None})
        self._done()

    def try_lock(self, fd: int) -> bool:
        number = self._open[fd]
        return self._locks.setdefault(number, fd) == fd


def overlay(base: bytearray, offset: int, data: bytes) -> None:
    """Write `data` over `base` at `offset`; a gap is zeros."""
    if len(base) < offset:
        base.extend(bytes(offset - len(base)))
    base[offset : offset + len(data)] = data


def apply_names(names: dict[str, int], delta: dict[str, int | None]) -> None:
    for name, number in delta.items():
        if number is None:
            names.pop(name, None)
        else:
            names[name] = number

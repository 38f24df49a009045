"""Every disk that a crash may leave: from what a run had synced, and from what it had not.

What was not synced may be on the medium in part, in any order, or not at all; the size may be there before the bytes.
Names may be lost. The mark, which nobody syncs, may be there, old, torn or gone.
"""

from collections.abc import Iterator
from typing import Literal

from crash.disk import ImageDisk, Node, apply_names, overlay

SECTOR = 512
_GARBAGE = bytes((i * 197 + 91) % 256 for i in range(SECTOR))


Grain = Literal["all", "each", "few"]
"""All combinations; or each state of each part once, beside the plainest ones of the others; or a few of each kind."""


def images(disk: ImageDisk, grain: Grain) -> Iterator[ImageDisk]:
    """Yield the disks that may be found if the power goes now."""
    for i, folders in enumerate(_names(disk)):
        fine = grain != "few" and i == 0
        for k, mark in enumerate(_marks(disk, fine=fine)):
            for data in _data(disk, fine=fine and (k == 0 or grain == "all")):
                yield _image(disk, folders, {**data, **mark})


def _image(disk: ImageDisk, folders: dict[int, dict[str, int]], data: dict[int, bytes]) -> ImageDisk:
    image = ImageDisk()
    image.next_number = disk.next_number
    reached = [1]
    image.nodes = {}
    while reached:
        node = disk.nodes[reached.pop()]
        if node.is_folder:
            names = folders.get(node.number, node.stable_names)
            image.nodes[node.number] = Node(node.number, True, names=dict(names), stable_names=dict(names))
            reached.extend(names.values())
        else:
            content = data.get(node.number, node.stable)
            image.nodes[node.number] = Node(node.number, False, data=bytearray(content), stable=content)
    return image


def _names(disk: ImageDisk) -> Iterator[dict[int, dict[str, int]]]:
    """Yield the names of each folder whose changes were not synced: all there, none, and each subset of them."""
    unsynced = [node for node in disk.nodes.values() if node.is_folder and (node.ghost_names or node.pending_names)]
    whole = {node.number: dict(node.names) for node in unsynced}
    yield whole
    if unsynced:
        yield {}
    for node in unsynced:
        deltas = [*node.ghost_names, *node.pending_names]
        count = len(deltas)
        ordered, one_lost = [2**i - 1 for i in range(count)], [2**count - 1 - 2**i for i in range(count)]
        chosen = range(2**count) if count <= 3 else [*ordered, *one_lost]
        for subset in chosen:
            names = dict(node.stable_names)
            for i, delta in enumerate(deltas):
                if subset >> i & 1:
                    apply_names(names, delta)
            yield {**whole, node.number: names}


def _is_lock(disk: ImageDisk, number: int) -> bool:
    return any(
        name.endswith(".lock")
        for node in disk.nodes.values()
        if node.is_folder
        for name, there in (*node.names.items(), *node.stable_names.items())
        if there == number
    )


def _unsynced_files(disk: ImageDisk) -> list[Node]:
    return [node for node in disk.nodes.values() if not node.is_folder and (node.pending or node.ghosts)]


def _marks(disk: ImageDisk, *, fine: bool) -> Iterator[dict[int, bytes]]:
    """Yield what the lock files may hold: all that was written, an older mark, half a mark, nothing."""
    locks = [node for node in _unsynced_files(disk) if _is_lock(disk, node.number)]
    yield {node.number: bytes(node.data) for node in locks}
    yield {}
    for node in locks if fine else ():
        for count in {len(node.pending) - 1, len(node.pending) - 2, len(node.pending) // 2}:
            if 0 < count < len(node.pending):
                older = bytearray(node.stable)
                for offset, data in node.pending[:count]:
                    overlay(older, offset, data)
                yield {node.number: bytes(older)}
        yield {node.number: bytes(node.data[:77])}


def _data(disk: ImageDisk, *, fine: bool) -> Iterator[dict[int, bytes]]:
    """Yield what the files may hold: each in every state, while the others are whole or as they were."""
    files = [node for node in _unsynced_files(disk) if not _is_lock(disk, node.number)]
    whole = {node.number: bytes(node.data) for node in files}
    yield whole
    if files:
        yield {}
    for node in files:
        for content in contents(node, fine=fine):
            yield {**whole, node.number: content}


def contents(node: Node, *, fine: bool) -> Iterator[bytes]:
    """Yield the states of one file."""
    whole, stable = bytes(node.data), bytes(node.stable)
    start = min(offset for offset, _ in (*node.pending, *node.ghosts))
    size = len(whole)
    yield stable
    cuts = range(len(stable), size) if fine else sorted({len(stable), (len(stable) + size) // 2, max(size - 1, 0)})
    for cut in cuts:
        yield whole[:cut]
    old = stable.ljust(size, b"\0")
    garbage = (stable + (_GARBAGE * (size // SECTOR + 1)))[:size]
    yield old
    yield garbage
    for sector in range(start - start % SECTOR, size, SECTOR):
        end = min(sector + SECTOR, size)
        yield whole[:sector] + old[sector:end] + whole[end:]
        yield whole[:sector] + garbage[sector:end] + whole[end:]
        yield old[:end] + whole[end:]
        yield whole[:sector] + old[sector:]

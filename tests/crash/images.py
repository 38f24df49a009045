"""Every disk that a crash may leave: from what a run had synced, and from what it had not.

What was not synced may be on the medium in part, in any order, or not at all; the size may be there before the bytes.
Names may be lost. The mark, which nobody syncs, may be there, old, torn or gone.
"""

from collections.abc import Iterable, Iterator
from random import Random
from typing import Literal

from crash.disk import ImageDisk, Node, apply_names, overlay

SECTOR, PAGE = 512, 4096
_MANY = 3000
"""Bytes from which on a cut is not tried at each of them, but round each sector's and line's end."""
_MIXED = {"few": 1, "each": 10, "all": 300}
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
    if any(node.pending or node.ghosts or node.pending_names or node.ghost_names for node in disk.nodes.values()):
        chance = Random(f"{disk.next_number} {len(disk.ops)}")
        for _ in range(_MIXED[grain]):
            yield _mixed(disk, chance)


def _mixed(disk: ImageDisk, chance: Random) -> ImageDisk:
    """Return a disk on which every file and folder is in a state of its own."""
    folders = dict[int, dict[str, int]]()
    for node in disk.nodes.values():
        if node.is_folder:
            names = folders[node.number] = dict(node.stable_names)
            for delta in (*node.ghost_names, *node.pending_names):
                if chance.random() < 0.6:
                    apply_names(names, delta)
    data = {node.number: _blocks(node, chance) for node in _unsynced_files(disk)}
    marks = list(_marks(disk, fine=True))
    return _image(disk, folders, {**data, **chance.choice(marks)})


def _blocks(node: Node, chance: Random) -> bytes:
    """Return a file of which each block got there, or not, or something else did; in sectors or in pages."""
    whole, size = bytes(node.data), len(node.data)
    grain = chance.choice((SECTOR, PAGE))
    kinds = (whole, *_instead(node))
    found = bytearray(size)
    for at in range(0, size, grain):
        found[at : at + grain] = chance.choice(kinds)[at : at + grain]
    return bytes(found[: chance.choice((size, chance.randint(len(node.stable), max(size, len(node.stable)))))])


def _instead(node: Node) -> tuple[bytes, bytes, bytes]:
    """Return what may be where bytes did not get to: nothing, another file's, or this one's own from elsewhere."""
    stable, size = bytes(node.stable), len(node.data)
    own = bytes(node.data[:SECTOR]) or b"\0"
    garbage, stale = ((stable + block * (size // len(block) + 1))[:size] for block in (_GARBAGE, own))
    return stable.ljust(size, b"\0")[:size], garbage, stale


def _image(disk: ImageDisk, folders: dict[int, dict[str, int]], data: dict[int, bytes]) -> ImageDisk:
    image = ImageDisk()
    image.next_number, image.next_inode = disk.next_number, disk.next_inode
    reached = [1]
    image.nodes = {}
    while reached:
        node = disk.nodes[reached.pop()]
        if node.is_folder:
            names = folders.get(node.number, node.stable_names)
            image.nodes[node.number] = Node(node.number, True, node.inode, names=dict(names), stable_names=dict(names))
            reached.extend(names.values())
        else:
            content = data.get(node.number, node.stable)
            image.nodes[node.number] = Node(node.number, False, node.inode, data=bytearray(content), stable=content)
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
    return _is_called(disk, number, ".lock")


def _is_called(disk: ImageDisk, number: int, word: str) -> bool:
    return any(
        word in name
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
        plain = _is_called(disk, node.number, "index.cache")  # nobody ever syncs it, and its checksum covers all of it
        for content in contents(node, fine=fine) if not plain else list(contents(node, fine=False))[:3]:
            yield {**whole, node.number: content}


def _cuts(whole: bytes, stable: int, *, fine: bool) -> Iterable[int]:
    """Yield where the file may end."""
    size = len(whole)
    if not fine:
        return sorted({stable, (stable + size) // 2, max(size - 1, 0)})
    if size - stable <= _MANY:
        return range(stable, size)
    ends = {*range(0, size, SECTOR), *(at + 1 for at, byte in enumerate(whole) if byte == 10)}
    return sorted(cut for end in ends for cut in (end - 1, end, end + 1) if stable <= cut < size)


def contents(node: Node, *, fine: bool) -> Iterator[bytes]:
    """Yield the states of one file."""
    whole, stable = bytes(node.data), bytes(node.stable)
    start = min(offset for offset, _ in (*node.pending, *node.ghosts))
    size = len(whole)
    yield stable
    for cut in _cuts(whole, len(stable), fine=fine):
        yield whole[:cut]
    old, garbage, own = _instead(node)
    yield old
    yield garbage
    yield own
    for page in range(start - start % PAGE, size, PAGE) if size - start > PAGE else ():
        end = min(page + PAGE, size)
        yield whole[:page] + old[page:end] + whole[end:]
        yield old[:page] + whole[page:end] + old[end:]
    sectors = range(start - start % SECTOR, size, SECTOR)
    for sector in sectors if fine else sectors[:: max(1, len(sectors) // 4)]:
        end = min(sector + SECTOR, size)
        yield whole[:sector] + old[sector:end] + whole[end:]
        yield whole[:sector] + garbage[sector:end] + whole[end:]
        yield old[:end] + whole[end:]
        yield whole[:sector] + old[sector:]

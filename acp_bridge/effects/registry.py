"""Names that stand for values as long as somebody keeps them registered."""

from collections.abc import Callable, Iterator, Mapping
from types import TracebackType
from typing import Self, TypeVar

T = TypeVar("T")


class Registration:
    """An entry of a `Registry`, there from `register` on until `undo`, or until its `with` block is left."""

    def __init__(self, undo: Callable[[], None]) -> None:
        self._undo: Callable[[], None] | None = undo

    def undo(self) -> None:
        """Take the entry away; a second time it does nothing, also if the name has a new owner."""
        undo, self._undo = self._undo, None
        if undo is not None:
            undo()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.undo()


class Registry(Mapping[str, T]):
    """Read as a mapping, in order of registration; written by `register` alone. `kind` names the values in messages."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._entries: dict[str, T] = {}

    def register(self, name: str, value: T) -> Registration:
        """Let `name` stand for `value`.

        Raises:
            ValueError: the name is taken.
        """
        if name in self._entries:
            raise ValueError(f"there is a {self._kind} {name!r} already; undo its registration or take another name")
        self._entries[name] = value

        def undo() -> None:
            del self._entries[name]

        return Registration(undo)

    def __getitem__(self, name: str) -> T:
        return self._entries[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

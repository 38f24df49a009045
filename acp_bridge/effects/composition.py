"""Parts entered in one order and left in the reverse one, whatever happens."""

from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Generic, NamedTuple, TypeVar, cast

import anyio

T = TypeVar("T")


class Key(Generic[T]):
    """The name, with its type, under which a part gives something: `STORE: Key[Store] = Key("store")`."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name


class Services:
    """What the parts entered so far gave."""

    def __init__(self) -> None:
        self._values: dict[str, Any] = {}

    def __getitem__(self, key: Key[T]) -> T:
        try:
            return cast("T", self._values[key.name])
        except KeyError:
            raise LookupError(f"no earlier part gives {key.name!r}; list the one that does first") from None

    def expect(self, name: str) -> None:
        if name in self._values:
            raise LookupError(f"two parts give {name!r}; leave one of them out")

    def add(self, name: str, value: Any) -> None:
        self._values[name] = value


class Part(NamedTuple):
    """Something set up and undone: `setup` gets what the earlier parts gave, its value goes to the later ones."""

    gives: Key[Any]
    setup: Callable[[Services], AbstractAsyncContextManager[Any]]


@asynccontextmanager
async def compose(parts: Iterable[Part]) -> AsyncGenerator[Services]:
    """Enter `parts` as listed; on exit, or if one cannot be set up, leave what was entered, strictly last first.

    Each exit is awaited, and the next follows also if it failed or was cancelled. One failure is raised as it is;
    several, the body's included, in one group, in the order in which they happened. A native cancellation goes
    through, unless something failed besides.
    """
    services = Services()
    entered: list[tuple[str, AbstractAsyncContextManager[Any]]] = []
    failures = _Failures()
    try:
        for part in parts:
            name = part.gives.name
            try:
                services.expect(name)
                manager = part.setup(services)
                services.add(name, await manager.__aenter__())
            except Exception as exc:
                exc.add_note(f"while setting up {name!r}")
                raise
            entered.append((name, manager))
        yield services
    except BaseException as exc:  # noqa: BLE001 - raised again, behind the tear-down
        failures.add(exc)
    while entered:
        name, manager = entered.pop()
        await _leave(name, manager, failures)
    failures.reraise()


async def _leave(name: str, manager: AbstractAsyncContextManager[Any], failures: "_Failures") -> None:
    reason = failures.in_flight
    try:
        handled = await manager.__aexit__(type(reason) if reason else None, reason, reason and reason.__traceback__)
    except BaseException as exc:  # noqa: BLE001 - raised again, behind the exits that follow
        if exc is not reason and isinstance(exc, Exception):
            exc.add_note(f"while leaving {name!r}")
        failures.add(exc)
    else:
        if handled:
            failures.drop_in_flight()


class _Failures:
    """What has gone wrong so far, and which of it the next exit is told."""

    def __init__(self) -> None:
        self._cancelled: BaseException | None = None
        self._failed: list[BaseException] = []

    @property
    def in_flight(self) -> BaseException | None:
        """A cancellation goes first: the scope that waits for it lies further out."""
        return self._cancelled or (self._failed[0] if self._failed else None)

    def drop_in_flight(self) -> None:
        if self._cancelled is not None:
            self._cancelled = None
        else:
            del self._failed[0]

    def add(self, exc: BaseException) -> None:
        if _is_cancellation(exc):
            self._cancelled = exc
            return
        inside = set(map(id, _flatten(exc)))  # a task group reports what it was told within a group of its own
        self._failed = [earlier for earlier in self._failed if not inside.issuperset(map(id, _flatten(earlier)))]
        self._failed.append(exc)

    def reraise(self) -> None:
        match self._failed:
            case []:
                if self._cancelled is not None:
                    raise self._cancelled
            case [failure]:
                raise failure
            case failures:  # a cancellation beside them is delivered again at the next await
                raise BaseExceptionGroup("several parts failed", failures)


def flatten_exceptions(exc: BaseException) -> list[BaseException]:
    """Return the errors that are no groups, within `exc` or `exc` itself, in order."""
    return list(_flatten(exc))


def _flatten(exc: BaseException) -> Iterator[BaseException]:
    if isinstance(exc, BaseExceptionGroup):
        for inner in cast("BaseExceptionGroup[BaseException]", exc).exceptions:
            yield from _flatten(inner)
    else:
        yield exc


def _is_cancellation(exc: BaseException) -> bool:
    return all(isinstance(leaf, anyio.get_cancelled_exc_class()) for leaf in _flatten(exc))

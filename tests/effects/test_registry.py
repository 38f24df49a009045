import pytest

from acp_bridge.effects import Registry


def test_what_is_registered_can_be_read_in_order_until_it_is_undone() -> None:
    tools: Registry[int] = Registry("tool")
    first = tools.register("b", 1)
    with tools.register("a", 2) as second:
        assert dict(tools) == {"b": 1, "a": 2}
        assert list(tools) == ["b", "a"]
    assert dict(tools) == {"b": 1}
    second.undo()
    first.undo()
    assert len(tools) == 0


def test_a_name_that_is_taken_is_an_error_and_changes_nothing() -> None:
    tools: Registry[int] = Registry("tool")
    tools.register("a", 1)
    with pytest.raises(ValueError, match="there is a tool 'a' already"):
        tools.register("a", 2)
    assert tools["a"] == 1


def test_undoing_twice_does_not_undo_a_successor() -> None:
    tools: Registry[int] = Registry("tool")
    first = tools.register("a", 1)
    first.undo()
    tools.register("a", 2)
    first.undo()
    assert tools["a"] == 2

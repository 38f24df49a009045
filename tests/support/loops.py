"""Which asynchronous tests run on trio in the slow run alone.

Most run on both event loops, as the fixture `anyio_backend` of `tests/conftest.py` has it. A test that takes a second
or more, and shows something that is the same code on either loop, runs on asyncio in the quick run and on both in all.
"""

import pytest

BOTH_WHEN_SLOW = ("asyncio", pytest.param("trio", marks=pytest.mark.slow))
"""Parameters of a test that names its loop itself."""

TRIO_WHEN_SLOW = pytest.mark.parametrize("anyio_backend", BOTH_WHEN_SLOW)
"""Marks a test that is asynchronous itself."""

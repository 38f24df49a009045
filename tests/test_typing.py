"""What third parties write against this package is checked by their type checker, and so is the composition itself."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import acp_bridge

PROGRAM = """
import os

from acp_bridge.app import serve
from acp_bridge.config import load
from acp_bridge.headless import open_runtime
from acp_bridge.rpc import Wire
from acp_bridge.storage import MemoryStore
from acp_bridge.testing import Client


async def main(wire: Wire) -> None:
    await serve(load(os.environ), wire, store=MemoryStore())
    async with open_runtime(load(os.environ), store=MemoryStore()) as runtime:
        session = await runtime.new_session("/", roots=("/tmp",))
        async with session.prompt("Hello") as turn:
            async for happened in turn:
                print(happened)


print(Client, main)
"""

TYPOS = {
    "store=MemoryStore())\n    async": "stor=MemoryStore())\n    async",
    "wire, store=MemoryStore())": "wire, policy=MemoryStore())",
    "os.environ), store=MemoryStore()) as": "os.environ), tool=()) as",
    "store=MemoryStore()) as": "store=MemoryStore) as",
    "runtime.new_session": "runtime.new_sesion",
    'roots=("/tmp",)': "roots=3",
    "import Client": "import Cleint",
}

COMPOSITION_TYPOS = {
    "services[SESSIONS], services[ASSEMBLY]": "services[ASSEMBLY], services[SESSIONS]",
    "handshake.open(services[front])": "handshake.opn(services[front])",
    "bridges.append(services[front])": "bridges.append(services[SESSIONS])",
    "store=store,": "store=policy,",
    "parts(config, replacements(), ending.deadline)": "parts(config, ending.deadline, replacements())",
    "Part(front, set_up)": "Part(front, handshake)",
    "bridge.busy for bridge in bridges": "bridge.bussy for bridge in bridges",
}


def test_the_package_says_that_it_is_typed() -> None:
    assert (Path(acp_bridge.__file__).parent / "py.typed").exists()


def errors_in(folder: Path) -> dict[str, list[str]]:
    """Return what pyright, in strict mode, says of each file."""
    (folder / "pyrightconfig.json").write_text(json.dumps({"typeCheckingMode": "strict", "pythonVersion": "3.11"}))
    argv = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable, "--project", str(folder)]
    said = json.loads(subprocess.run(argv, capture_output=True, text=True, timeout=300, check=False).stdout)
    found: dict[str, list[str]] = {path.stem: [] for path in folder.glob("*.py")}
    for each in said["generalDiagnostics"]:
        if each["severity"] == "error":
            found[Path(each["file"]).stem].append(each["message"])
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("source", "typos"),
    [(PROGRAM, TYPOS), ((Path(acp_bridge.__file__).parent / "app.py").read_text(), COMPOSITION_TYPOS)],
    ids=["a program of somebody else's", "the composition"],
)
def test_a_planted_typo_fails_the_type_check(source: str, typos: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "sound.py").write_text(source)
    for place, (right, wrong) in enumerate(typos.items()):
        assert right in source, right
        (tmp_path / f"typo_{place}.py").write_text(source.replace(right, wrong, 1))
    found = errors_in(tmp_path)
    assert found.pop("sound") == []
    missed = [wrong for place, wrong in enumerate(typos.values()) if not found[f"typo_{place}"]]
    assert not missed

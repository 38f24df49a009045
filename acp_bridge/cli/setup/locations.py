"""Where things are on this machine: this installation's command, and the files that editors keep settings in.

`setup` writes what `doctor` reads, so each place is named once, here. Opens none of them.
"""

import os
import sys
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class SettingsFile:
    """An editor's JSON settings, and the member of them that holds its agents by name."""

    path: Path
    agents: str


def serve_command() -> tuple[str, ...]:
    """Return how an editor starts this installation: absolute, since editors do not see a shell's PATH."""
    name = "acp-bridge.exe" if os.name == "nt" else "acp-bridge"
    beside = Path(sys.executable).absolute().with_name(name)  # not resolved: a virtual environment's Python is a link
    if os.access(beside, os.X_OK):
        return str(beside), "serve"
    # -P: with -m alone, a project that has an `acp_bridge` of its own would be run in this program's place
    return str(Path(sys.executable).absolute()), "-P", "-m", "acp_bridge", "serve"


def config_folder() -> Path:
    """Return where programs that follow XDG keep settings."""
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")


def vscode_folder() -> Path:
    """Return VS Code's folder of the platform."""
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "Code"
    if os.name == "nt":
        return Path(os.environ.get("APPDATA") or Path.home() / "AppData" / "Roaming") / "Code"
    return config_folder() / "Code"


def zed_settings() -> SettingsFile:
    """Return Zed's settings."""
    return SettingsFile(config_folder() / "zed" / "settings.json", "agent_servers")


def jetbrains_settings() -> SettingsFile:
    """Return the file that JetBrains IDEs read agents from."""
    return SettingsFile(Path.home() / ".jetbrains" / "acp.json", "agent_servers")


def vscode_settings() -> SettingsFile:
    """Return VS Code's user settings, as the extension vscode-acp reads them."""
    return SettingsFile(vscode_folder() / "User" / "settings.json", "acp.agents")


def acpx_settings() -> SettingsFile:
    """Return acpx's settings."""
    return SettingsFile(Path.home() / ".acpx" / "config.json", "agents")

"""Variables by which programs know that nobody is there to be asked: they fail at once, with words, rather than wait.

Owns the table. A variable that the user's configuration lets commands see stays the user's. That commands have no
terminal, their guard sees to.

Decision: `GIT_SSH_COMMAND` is not set. It would take the place of a repository's own `core.sshCommand`; without a
terminal and an askpass program ssh asks nothing anyway.
"""

import shlex
from collections.abc import Collection, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

_NO_EDITOR = f"/bin/sh {shlex.quote(str(Path(__file__).with_name('_no_editor.sh')))}"

UNATTENDED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "EDITOR": _NO_EDITOR,
        "VISUAL": _NO_EDITOR,
        "GIT_EDITOR": _NO_EDITOR,
        "GIT_SEQUENCE_EDITOR": _NO_EDITOR,
        "GIT_MERGE_AUTOEDIT": "no",  # a merge takes the message that it has
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ASKPASS": "/bin/false",  # what a configuration names may open a window
        "GCM_INTERACTIVE": "never",
        "SSH_ASKPASS": "/bin/false",
        "SSH_ASKPASS_REQUIRE": "never",
        "SUDO_ASKPASS": "/bin/false",
        "DEBIAN_FRONTEND": "noninteractive",
        "PIP_NO_INPUT": "1",
        "PAGER": "cat",
        "GIT_PAGER": "cat",
        "MANPAGER": "cat",
        "SYSTEMD_PAGER": "cat",
        "AWS_PAGER": "",
    }
)


def unattended(env: Mapping[str, str], named: Collection[str]) -> dict[str, str]:
    """Return the environment of a command; of what the user's configuration has `named`, theirs holds."""
    return {**env, **{name: value for name, value in UNATTENDED.items() if name not in named or name not in env}}

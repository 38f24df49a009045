"""`acp-bridge sessions`: look after stored sessions. One file a verb.

Owns which verbs there are. What all of them need is in `stored`; how a conversation is told, in `timeline`.
"""

from importlib import import_module
from typing import Final

from acp_bridge.cli.formatting import unknown_name
from acp_bridge.cli.terminal import print_line
from acp_bridge.errors import ConfigError

VERBS: Final = {
    "list": "which sessions there are, newest first",
    "show": "read a conversation",
    "export": "write a conversation as Markdown, HTML or JSON",
    "verify": "check every record of one session, or of all",
    "repair": "close what a crash left open; with --salvage, go round damage",
    "fork": "make a new session of another's beginning",
    "delete": "remove sessions for good",
}


def main(argv: list[str]) -> int:
    """Run a verb.

    Raises:
        ConfigError: there is no such verb, or none was given.
    """
    if not argv:
        raise ConfigError(f"sessions needs a verb: {', '.join(VERBS)}; `acp-bridge sessions --help` says more")
    verb, *rest = argv
    if verb in ("-h", "--help", "help"):
        return _help()
    if verb not in VERBS:
        raise unknown_name("verb", verb, VERBS, remedy="`acp-bridge sessions --help` lists them")
    return int(import_module(f"{__name__}.{verb}").main(rest))


def _help() -> int:
    lines = "\n".join(f"  {name:<8} {what}" for name, what in VERBS.items())
    print_line(
        f"usage: acp-bridge sessions VERB [ARGUMENT…]\n\n{lines}\n\n"
        "An ID may be cut short as long as it stays unique. `acp-bridge sessions VERB --help` says more.\n"
        "Sessions lie in the program's folder, one folder each; `acp-bridge doctor` says where."
    )
    return 0

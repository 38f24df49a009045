"""`acp-bridge doctor`: is everything there, does it work, and what is to be done.

Owns the order of the checks. Asks no provider and changes nothing.
"""

import os
from dataclasses import asdict

import anyio
import anyio.to_thread

from acp_bridge.cli.parser import CommandParser
from acp_bridge.cli.terminal import print_json
from acp_bridge.composition import home_of

from .editors import editors
from .program import configuration, guard, model, models, program, python, search
from .report import Check, print_checks
from .storage import storage


def main(argv: list[str]) -> int:
    """Look at everything; 1 if there is a problem.

    Raises:
        ConfigError: an argument is not known.
    """
    parser = CommandParser(
        "doctor",
        "Checks Python, the configuration, the model's route and key, the storage folder, the tools and the editors,\n"
        "and says what to do. Asks no provider and changes nothing. Exit code 1 if there is a problem.",
        epilog="Where stdout is no terminal, a line is: level, name, how it stands and what to do, separated by tabs.",
    )
    parser.add_argument("--json", action="store_true", help="an object with a list of checks")
    args = parser.parse_args(argv)
    checks = anyio.run(_checks)
    healthy = all(check.level != "problem" for check in checks)
    if args.json:
        print_json({"ok": healthy, "checks": [asdict(check) for check in checks]})
    else:
        print_checks(checks)
    return 0 if healthy else 1


async def _checks() -> list[Check]:
    checked, config = configuration(os.environ)
    checks = [python(), program(), checked, await model(config), *models(config)]
    if config.storage == "jsonl":
        checks += await storage(home_of(config))
    else:
        checks.append(Check(name="Storage", detail=f"{config.storage}, which this command does not know"))
    checks += [await anyio.to_thread.run_sync(search), await guard(config)]
    return checks + await anyio.to_thread.run_sync(editors)

"""This package's agent, traced: `python traced_agent.py FOLDER`."""

import os
import sys
from dataclasses import replace
from pathlib import Path

import anyio

from acp_bridge.app import serve
from acp_bridge.config import load
from acp_bridge.rpc import open_stdio
from acp_bridge.testing.trace import TracedWire, begin_trace, write_scenario


def main(folder: Path) -> None:
    config = load(os.environ)
    route = begin_trace(folder, home=Path(config.home), route=config.model, environ=config.environ)
    secrets = [config.environ.get("OPENAI_API_KEY", "sk-none")]
    wire = TracedWire(open_stdio(), folder, secrets)
    try:
        anyio.run(serve, replace(config, model=route), wire)
    finally:
        write_scenario(folder, secrets)


if __name__ == "__main__":
    main(Path(sys.argv[1]))

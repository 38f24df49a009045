"""`python -m acp_bridge.testing FOLDER`: make a scenario of a trace whose agent was killed before it could."""

import os
import sys
from pathlib import Path

from .trace import write_scenario

if __name__ == "__main__":
    secrets = [value for name, value in os.environ.items() if name.endswith(("_KEY", "_TOKEN", "_SECRET")) and value]
    write_scenario(Path(sys.argv[1]), secrets)

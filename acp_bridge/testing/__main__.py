"""`python -m acp_bridge.testing FOLDER`: make a scenario of a trace whose agent was killed before it could."""

import os
import sys
from pathlib import Path

from acp_bridge.redaction import Secrets, secrets_in

from .trace import write_scenario

if __name__ == "__main__":
    write_scenario(Path(sys.argv[1]), Secrets(secrets_in(os.environ)))

"""What an interpreter finds at its start, printed: run warm and cold by `test_warm`, which compares."""

import os
import sys

print(
    __name__, __file__, sys.argv, sys.path[:2], sys.dont_write_bytecode, type(sys.stdout.buffer).__name__, os.getcwd()
)
print(os.environ["PYTHONPATH"])

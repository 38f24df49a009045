"""The agent on a disk that hangs, fails or is full for as long as a file `hang`, `eio` or `full` is in its home."""

import errno
import os
import sys
import time
from pathlib import Path

import anyio

from acp_bridge.app import serve
from acp_bridge.cli.logs import log_to_stderr
from acp_bridge.config import load
from acp_bridge.rpc import open_stdio
from acp_bridge.storage import JsonlStore
from acp_bridge.storage.disk import OsDisk

HOME = Path(os.environ["ACP_BRIDGE_HOME"])


class FailingDisk(OsDisk):
    def sync(self, fd: int) -> None:
        while (HOME / "hang").exists():
            time.sleep(0.01)
        if (HOME / "eio").exists():
            raise OSError(errno.EIO, "input/output error")
        super().sync(fd)

    def write(self, fd: int, data: memoryview) -> int:
        if (HOME / "full").exists():
            raise OSError(errno.ENOSPC, "no space left on device")
        return super().write(fd, data)


if __name__ == "__main__":
    config = load(os.environ)
    log = log_to_stderr(config.log, config.secrets)
    wire = open_stdio()
    store = JsonlStore(HOME / "sessions", disk=FailingDisk())
    try:
        sys.exit(anyio.run(lambda: serve(config, wire, store=store)))
    finally:
        log.flush()

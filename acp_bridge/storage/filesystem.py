"""The file system that sessions lie on: what the user should know of it, and can do, if it is a network's or refuses.

Owns the sentences, and reads the table of mounts: a network's locks and syncs promise less than a disk's. Knows no
session.
"""

import errno
from pathlib import Path

_NETWORK = frozenset(
    {
        "9p", "afs", "beegfs", "ceph", "cifs", "davfs", "fuse.glusterfs", "fuse.rclone", "fuse.s3fs", "fuse.sshfs",
        "gfs2", "glusterfs", "lustre", "ncpfs", "nfs", "nfs4", "ocfs2", "smb3", "smbfs", "virtiofs",
    }
)  # fmt: skip
_MOUNTS = Path("/proc/self/mounts")

CANNOT_BE_WRITTEN = frozenset((errno.EROFS, errno.EACCES, errno.EPERM))
"""What opening a file for writing says where reading may do; ext4 becomes read-only after an I/O error."""
_FULL = frozenset((errno.ENOSPC, errno.EDQUOT))


def with_remedy(said: str, cause: OSError) -> str:
    """Return `said` with what the user can do about `cause`, if that is known."""
    if cause.errno in CANNOT_BE_WRITTEN:
        return f"{said}; make the folder writable, or set ACP_BRIDGE_HOME to one that is"
    if cause.errno in _FULL:
        return f"{said}; make room there, or set ACP_BRIDGE_HOME to a folder where there is some"
    return said


def read_only_warning(path: str, cause: OSError) -> str:
    """Return what the user should know of a session whose log can be read and not written."""
    return (
        f"{path} can only be read ({cause.strerror or cause}): the session is shown as it was, and nothing is saved or"
        " run in it until it can be written again"
    )


def network_warning(path: str, mounts: str | None = None) -> str:
    """Return what the user should know about the file system of `path`, or `""`. `mounts` is the table's text."""
    kind = _kind(path, _table() if mounts is None else mounts)
    if kind not in _NETWORK:
        return ""
    return (
        f"sessions lie on a network file system ({kind}, {path}): a lock may not keep other machines out, and what was"
        " saved may not survive the server; set ACP_BRIDGE_HOME to a folder on a local disk"
    )


def _table() -> str:
    try:
        return _MOUNTS.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""  # not Linux: nothing is known, so nothing is said


def _kind(path: str, mounts: str) -> str:
    """Return the type of the deepest mount that holds `path`; of two at one place the later covers the earlier."""
    depth, kind = -1, ""
    for line in mounts.splitlines():
        _, point, found, *_ = [*line.split(" "), "", "", ""]
        point = point.replace("\\040", " ").rstrip("/")
        if (path == point or path.startswith(f"{point}/")) and len(point) >= depth:
            depth, kind = len(point), found
    return kind

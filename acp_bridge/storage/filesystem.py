"""Whether a folder lies on a network file system, whose locks and syncs promise less. Reads the table of mounts."""

from pathlib import Path

_NETWORK = frozenset(
    {
        "9p", "afs", "beegfs", "ceph", "cifs", "davfs", "fuse.glusterfs", "fuse.rclone", "fuse.s3fs", "fuse.sshfs",
        "gfs2", "glusterfs", "lustre", "ncpfs", "nfs", "nfs4", "ocfs2", "smb3", "smbfs", "virtiofs",
    }
)  # fmt: skip
_MOUNTS = Path("/proc/self/mounts")


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

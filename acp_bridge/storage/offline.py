"""What `verify` says of a log. Knows no files."""

from dataclasses import dataclass

from .scan import Damage, Scan


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """A log, record by record.

    Attributes:
        records: how many hold.
        size: length of the file.
        durable: how much of it is known durable.
        dropped_bytes: what follows the records that hold and was not known durable: a crash's rest, no damage.
        damage: the first line that should hold and does not.
        kept_file: where a salvage left the damaged file.
    """

    session_id: str
    path: str
    records: int
    size: int
    durable: int
    dropped_bytes: int
    damage: Damage | None = None
    kept_file: str = ""


def verification(session_id: str, path: str, found: Scan, *, kept_file: str = "") -> Verification:
    """Return what `found` says."""
    rest = found.length - found.end
    return Verification(
        session_id=session_id,
        path=path,
        records=found.records,
        size=found.length,
        durable=found.durable,
        dropped_bytes=0 if found.damage else rest,
        damage=found.damage,
        kept_file=kept_file,
    )

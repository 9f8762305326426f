"""Files whose damage is noticed: what ``torch.save`` wrote, with a digest of every byte at its end."""

import hashlib
import os
from pathlib import Path

DIGEST = 32
"""Bytes of a digest."""

EMPTY_COMMENT = b"\0\0"
END = b"PK\5\6"
"""How the last 22 bytes of a zip archive without a comment begin, which is what ``torch.save`` writes."""


def seal(path: Path) -> None:
    """Put the digest of an archive behind it, as the archive's comment: whatever reads zip archives still reads it."""
    with open(path, "rb+") as file:
        file.seek(-22, os.SEEK_END)
        end = file.read(22)
        if not (end.startswith(END) and end.endswith(EMPTY_COMMENT)):
            raise ValueError(f"{path} is no archive of torch.save")
        file.seek(-2, os.SEEK_END)
        file.write(DIGEST.to_bytes(2, "little"))
        file.flush()
        file.write(_digest(path, 0))


def is_whole(path: Path) -> bool | None:
    """Say whether a sealed file is as it was written; None of an archive that was never sealed."""
    if not path.is_file():
        return False
    size = path.stat().st_size
    if size < 22 + DIGEST:
        return None if _unsealed(path, size) else False
    if _unsealed(path, size):
        return None
    with open(path, "rb") as file:
        file.seek(size - DIGEST)
        return file.read() == _digest(path, DIGEST)


def _unsealed(path: Path, size: int) -> bool:
    with open(path, "rb") as file:
        file.seek(max(size - 22, 0))
        end = file.read()
    return end.startswith(END) and end.endswith(EMPTY_COMMENT)


def _digest(path: Path, without: int) -> bytes:
    """Return the digest of a file but for its last bytes."""
    digest, left = hashlib.blake2b(digest_size=DIGEST), path.stat().st_size - without
    with open(path, "rb") as file:
        while left > 0 and (part := file.read(min(left, 1 << 20))):
            digest.update(part)
            left -= len(part)
    return digest.digest()

"""Writing what ``torch.save`` writes, so that a full disk is an error that says so."""

from pathlib import Path
from typing import IO, Any

import torch


class Told:
    """A file that remembers why it could not be written to: PyTorch tells that in words of its own."""

    def __init__(self, file: IO[bytes]) -> None:
        self.file = file
        self.error: OSError | None = None

    def write(self, content: Any) -> int:
        """Write."""
        try:
            return self.file.write(content)
        except OSError as error:
            self.error = error
            raise

    def flush(self) -> None:
        """Hand over what is held back."""
        self.file.flush()


def save(content: Any, path: Path) -> None:
    """Write tensors and what surrounds them; what the system refuses is its ``OSError``."""
    with open(path, "wb") as file:
        told = Told(file)
        try:
            torch.save(content, told)  # type: ignore[arg-type]
        except RuntimeError as error:
            raise told.error or error from None

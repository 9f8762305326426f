"""The picture of any data: of a stream what is held over time, of others who holds what."""

import sys
from pathlib import Path

from flcluster.data import FederatedDataModule
from flcluster.datamodules.streams.module import StreamDataModule

from .clients import draw_clients
from .stream import draw_stream

MOST = 200_000
"""Clients times events of a stream beyond which drawing it would take long."""


def draw_data(data: FederatedDataModule, path: Path) -> Path | None:
    """Draw data, set up, that a run was made with; None where that is not possible, which harms no run."""
    try:
        if not isinstance(data, StreamDataModule):
            return draw_clients(data, path)
        return draw_stream(data, path) if data.num_clients * len(data.events) <= MOST else None
    except Exception as error:  # data may be anybody's, and the run is done
        print(f"no picture of the data: {type(error).__name__}: {error}", file=sys.stderr)
        return None

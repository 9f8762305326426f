"""How rows travel between ranks, with threads in the place of processes."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, local
from types import SimpleNamespace

import pytest
import torch

from flcluster.federation import ranks as module
from flcluster.federation.ranks import Ranks


class Wire:
    """What torch.distributed does, among threads."""

    def __init__(self, size):
        self.size, self.met, self.here, self.left = size, Barrier(size), local(), {}
        self.messages = 0

    def exchange(self, mine):
        self.left[self.here.rank] = mine
        self.met.wait()
        found = [self.left[rank] for rank in range(self.size)]
        self.met.wait()
        self.messages += 1
        return found

    def all_gather(self, blocks, block):
        for target, source in zip(blocks, self.exchange(block.clone()), strict=True):
            target.copy_(source)

    def broadcast(self, row, src):
        row.copy_(self.exchange(row.clone())[src])


@pytest.mark.parametrize(("small", "messages"), [(2**20, 1), (0, 7)])
@pytest.mark.parametrize("owners", [[0, 1, 1, 2, 0, 0, 1], [2] * 7])
def test_every_rank_gets_every_row(monkeypatch, owners, small, messages):
    """Small rows in one message, large ones one by one: the same rows, which own their memory."""
    wire, rows = Wire(3), torch.arange(7 * 5, dtype=torch.float32).view(7, 5)
    monkeypatch.setattr(module, "dist", wire)
    monkeypatch.setattr(module, "SMALL", small)

    def send(rank):
        wire.here.rank = rank
        mine = {i: rows[i].clone() for i, owner in enumerate(owners) if owner == rank}
        return Ranks(SimpleNamespace(world_size=3, global_rank=rank)).send_rows(mine, owners, rows[0])

    with ThreadPoolExecutor(3) as pool:
        for found in pool.map(send, range(3)):
            assert torch.equal(torch.stack(found), rows)
            assert all(row.untyped_storage().nbytes() == 5 * 4 for row in found)
    assert wire.messages == 3 * messages

"""Local, where uploads only tell of themselves: what a training starts from."""

import pytest
import torch
from upload_methods import local_pair, make


@pytest.mark.parametrize("start", ["common", "own"])
def test_an_upload_tells_what_its_training_started_from(start, federation):
    seen = []

    class Watch:
        def on_upload(self, loop, upload):
            seen.append((upload.client, upload.start.clone(), upload.row.clone()))

    loop = make(federation, local_pair(start=start)[0], callbacks=[Watch()])
    held = {}
    while loop.position < loop.total:
        loop.advance()
        client, began, row = seen[-1]
        assert torch.equal(began, held.get(client, loop.state.initial) if start == "own" else loop.state.initial)
        held[client] = row
    assert len(held) < len(seen)

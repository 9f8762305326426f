"""What comes to the host in one copy is what was on the device."""

import torch

from flcluster.federation.flat.fetching import fetched, number, packed, unpacked


def test_what_is_packed_comes_back():
    found = [torch.randn(3, 2), torch.tensor(1 / 3, dtype=torch.float64), torch.zeros(0), torch.randn(2).bfloat16()]
    flat = packed(found)
    assert flat.dtype == torch.float64 and flat.shape == (9,)
    for before, after in zip(found, unpacked(flat, found), strict=True):
        assert before.dtype == after.dtype and torch.equal(before, after)


def test_what_is_on_the_host_is_not_copied():
    one = torch.ones(2, requires_grad=True)
    (same,) = fetched([one])
    assert same.data_ptr() == one.data_ptr() and not same.requires_grad
    assert fetched([]) == []
    assert number(torch.tensor(2.5)) == 2.5

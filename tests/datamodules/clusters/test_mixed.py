import numpy as np
import pytest
import torch

from flcluster.datamodules.clusters import mixed as mixture


def test_apportion_by_hand():
    assert mixture.apportion(np.array([1.0, 1.0, 2.0]), 8).tolist() == [2, 2, 4]
    assert mixture.apportion(np.array([0.5, 0.3, 0.2]), 11).tolist() == [6, 3, 2]  # quotas 5.5 3.3 2.2
    assert mixture.apportion(np.array([3, 1]), 2).tolist() == [2, 0]  # quotas 1.5 0.5: a tie goes to the first
    assert mixture.apportion(np.array([5, 5]), 0).tolist() == [0, 0]


def test_apportion_sums_and_stays_within_one():
    rng = np.random.default_rng(0)
    for _ in range(300):
        weights, total = rng.dirichlet(np.ones(rng.integers(1, 7))), int(rng.integers(0, 3000))
        counts = mixture.apportion(weights, total)
        assert counts.sum() == total and (counts >= 0).all()
        assert (abs(counts - weights * total) < 1).all()


def test_main_count_stays_within_bounds_where_it_can():
    assert mixture.main_count(11, 0.4, (0.4, 0.9)) == 5  # 4.4 would round to 4/11 < 0.4
    assert mixture.main_count(11, 0.9, (0.4, 0.9)) == 9
    assert mixture.main_count(10, 0.5, (0.5, 0.5)) == 5
    assert mixture.main_count(3, 0.5, (0.5, 0.5)) in (1, 2)  # no whole number fits


@pytest.mark.parametrize("clusters", [2, 3, 6])
def test_counts_have_the_stated_distribution(clusters):
    rng, n, main = np.random.default_rng(1), 1000, 1
    drawn = np.stack([mixture.draw_counts(rng, n, main, clusters, (0.4, 0.9), "dirichlet") for _ in range(3000)])
    assert (drawn.sum(1) == n).all()
    shares = drawn[:, main] / n
    assert shares.min() >= 0.4 and shares.max() <= 0.9
    assert abs(shares.mean() - 0.65) < 0.01 and abs(shares.std() - 0.5 / 12**0.5) < 0.01
    others = np.delete(drawn, main, 1) / (n - drawn[:, [main]])
    assert np.allclose(others.mean(0), 1 / (clusters - 1), atol=0.02)
    k = clusters - 1  # Dirichlet(1) over k parts: variance (k-1) / (k^2 (k+1))
    assert np.allclose(others.var(0), (k - 1) / (k * k * (k + 1)), atol=0.01)


def test_uniform_rest_is_equal_and_no_cluster_is_favoured():
    rng = np.random.default_rng(2)
    total = np.zeros(4, dtype=int)
    for client in range(400):
        counts = mixture.draw_counts(rng, 100, client % 4, 4, (0.5, 0.5), "uniform")
        others = np.delete(counts, client % 4)
        assert others.max() - others.min() <= 1
        total += counts
    assert total.tolist() == [10_000] * 4


def test_one_cluster_gets_everything():
    assert mixture.draw_counts(np.random.default_rng(0), 17, 0, 1, (0.4, 0.9), "dirichlet").tolist() == [17]


def test_draws_are_different_entries_of_the_pool_and_cover_it():
    rng, pool = np.random.default_rng(3), torch.arange(100, 140)
    seen = torch.zeros(40)
    for _ in range(200):
        drawn = mixture.draw_without_replacement(rng, pool, 10)
        assert len(set(drawn.tolist())) == 10 and (drawn >= 100).all() and (drawn < 140).all()
        seen[drawn - 100] += 1
    assert seen.min() > 20 and seen.max() < 85  # 50 expected
    assert mixture.draw_without_replacement(rng, pool, 40).tolist() == pool.tolist()


def test_the_suggested_size_is_the_largest_that_fits():
    for available in range(1, 60):
        for share in (0.5, 0.6, 0.9, 1.0):
            works = mixture.largest_size(available, share)
            assert mixture.needed(works, share) <= available < mixture.needed(works + 1, share)

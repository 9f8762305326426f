"""Cohorts by hand: who, for how long, in which cluster, and what each is asked to do."""

import numpy as np

from flcluster.devices.profiles import Devices, Profile
from flcluster.protocol.participation import Cohort, Load, profile_of, side_by_side

LOAD = Load(downloads=2.0, uploads=3.0, forwards=5.0)


def test_a_cohort_is_pairs_of_client_and_cluster():
    assert list(Cohort([4, 7, 9], labels=[1, 0, 1])) == [(4, 1), (7, 0), (9, 1)]
    assert len(Cohort([4, 7, 9])) == 3


def test_without_clusters_everyone_is_in_the_first():
    plain = Cohort([4, 7])
    assert list(plain) == [(4, 0), (7, 0)]
    assert (plain.places, plain.labels) == ([0, 0], None)


def test_by_default_a_cohort_takes_one_unit_and_a_model_each_way():
    assert (Cohort([1]).seconds, Cohort([1]).lost, Cohort([1]).load) == (1.0, 0, Load(1.0, 1.0, 0.0))


def test_assigned_changes_the_clusters_alone():
    before = Cohort([4, 7], 2.5, 3, load=LOAD)
    assert before.assigned([1, 2]) == Cohort([4, 7], 2.5, 3, [1, 2], LOAD)
    assert before.labels is None


def test_delayed_changes_the_time_alone():
    before = Cohort([4, 7], 2.5, 3, [1, 0], LOAD)
    assert before.delayed(1.5) == Cohort([4, 7], 4.0, 3, [1, 0], LOAD)
    assert before.delayed(0.0) is before


def test_side_by_side_by_hand():
    """Clients in order, each with its part's number; the slowest part sets the time, those lost add up."""
    parts = [Cohort([1, 5], 3.0, 1, load=LOAD), Cohort([2, 4], 7.0, 2, load=LOAD), Cohort([], 1.0, load=LOAD)]
    assert side_by_side(parts) == Cohort([1, 2, 4, 5], 7.0, 3, [0, 1, 1, 0], LOAD)


def test_a_load_is_a_number_for_all_or_one_for_each_client():
    """Arrays are over all clients: those asked for are picked out, in their order."""
    load = Load(downloads=np.array([10.0, 11.0, 12.0, 13.0]), uploads=3.0, forwards=np.array([0.0, 1.0, 2.0, 3.0]))
    down, up, forwards = load.of(np.array([3, 1]))
    assert (down.tolist(), up, forwards.tolist()) == ([13.0, 11.0], 3.0, [3.0, 1.0])
    assert LOAD.of(np.array([3, 1])) == [2.0, 3.0, 5.0]


def test_devices_are_made_once_for_all_clients_and_a_seed():
    class Counted(Devices):
        def profile(self, clients, seed):
            made.append((clients, seed))
            return Profile(np.ones(clients), np.ones(clients))

    made, devices = [], Counted()
    for seed in (1, 1, 2, 1):
        profile_of(devices, 6, seed)
    assert made == [(6, 1), (6, 2)]

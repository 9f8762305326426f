"""What a round did by default and otherwise, and which model each client uses."""

import numpy as np
import pytest
import torch

from flcluster.federation.bank import Table
from flcluster.protocol.outcome import Round, Served, own_or_common
from flcluster.protocol.participation import Cohort, Load

MODELS = torch.arange(6.0).view(3, 2)


def done(load=None, labels=(2, 0), **more):
    """A round of clients 4 and 1, in clusters 2 and 0."""
    return Round(Cohort([4, 1], labels=list(labels) if labels else None, load=load or Load()), [], MODELS, **more)


def test_a_round_costs_what_its_cohort_was_asked_for():
    """Sent, received, passes; a load names what is received first."""
    assert done().cost(0) == done().cost(1) == (1.0, 1.0, 0.0)
    assert done(Load(downloads=2.0, uploads=3.0, forwards=5.0)).cost(1) == (3.0, 2.0, 5.0)


def test_a_load_of_each_client_is_found_by_its_number_not_its_place():
    load = Load(downloads=np.arange(10.0, 16.0), uploads=np.arange(20.0, 26.0), forwards=np.arange(30.0, 36.0))
    assert [done(load).cost(i) for i in range(2)] == [(24.0, 14.0, 34.0), (21.0, 11.0, 31.0)]


@pytest.mark.parametrize(
    ("otherwise", "cost"),
    [
        ({"uploads": [7, 8]}, (8, 2, 5)),
        ({"downloads": [7, 8]}, (3, 8, 5)),
        ({"forwards": [7, 8]}, (3, 2, 8)),
        ({"uploads": [0, 0], "downloads": [0, 0], "forwards": [0, 0]}, (0, 0, 0)),  # nothing is not the default
    ],
)
def test_what_was_otherwise_is_told_by_place(otherwise, cost):
    assert done(Load(downloads=2.0, uploads=3.0, forwards=5.0), **otherwise).cost(1) == cost


def test_a_participant_uses_the_model_of_its_cluster():
    assert [done().row(i).tolist() for i in range(2)] == [[4.0, 5.0], [0.0, 1.0]]
    assert [done(labels=None).row(i).tolist() for i in range(2)] == [[0.0, 1.0]] * 2


def test_or_the_one_that_the_method_names():
    assert [done(which=[1, 1]).row(i).tolist() for i in range(2)] == [[2.0, 3.0]] * 2
    assert [done(which=[0, 2]).row(i).tolist() for i in range(2)] == [[0.0, 1.0], [4.0, 5.0]]


def test_nothing_besides_models_by_default():
    plain = done()
    assert (plain.upload_bytes, plain.download_bytes, plain.server_compute, plain.extra) == (0, 0, 0, {})


def test_served_by_cluster_or_by_number():
    labels = np.array([1, -1, 0])
    assert Served(MODELS, labels).which is labels
    assert Served(MODELS, labels, np.array([0, 2, -1])).which.tolist() == [0, 2, -1]


def test_own_or_common():
    """Clients 0 and 2 have models of their own: number 0 is the common one, number i + 1 client i's."""
    own = Table(3, 2)
    own[0], own[2] = torch.tensor([1.0, 1.0]), torch.tensor([2.0, 2.0])
    served = own_or_common(torch.tensor([9.0, 9.0]), own, np.array([True, False, True]))
    assert served.which.tolist() == [1, 0, 3]
    assert served.labels.tolist() == [0, 0, 0]
    assert len(served.models) == 4
    assert [served.models[k].tolist() for k in served.which.tolist()] == [[1.0, 1.0], [9.0, 9.0], [2.0, 2.0]]

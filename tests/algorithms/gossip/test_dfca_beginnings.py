"""DFCA's first models, and its rounds beside those of IFCA's server."""

import numpy as np
import pytest
import torch
from dfca_rounds import COMMON, assigned, people
from gossip import WIDTH, rows_of

from flcluster.algorithms import DFCA, IFCA
from flcluster.errors import UserError
from flcluster.topology.families import Complete, EdgeList

# ----------------------------------------------------------------------------------------------------------- beginnings


def test_global_initialisation_is_the_same_for_all(script, federate):
    """k different models, the same for every client, and the same that IFCA's server begins with."""
    fed = federate(people(script))
    algorithm = DFCA(**COMMON, num_clusters=3)
    state = algorithm.init(fed)
    rows = rows_of(algorithm, fed).reshape(9, 3, -1)
    assert (rows == rows[:1]).all()
    assert len(np.unique(rows[0], axis=0)) == 3
    assert np.array_equal(rows[0], IFCA(**COMMON, num_clusters=3).init(fed).models.double().numpy())
    assert state.labels.tolist() == [-1] * 9
    assert (state.messages, algorithm.title) == (0, "DFCA-GI")
    assert algorithm.measures(state, 0, fed)["disagreement"] == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize(("links", "alone"), [("0 1\n1 2\n", 6), ("0 1\n2 3\n4 5\n6 7\n7 8\n", 0)])
def test_clients_without_a_neighbour_are_told_of(links, alone, script, federate, tmp_path):
    (tmp_path / "links.txt").write_text(links)
    fed, told = federate(people(script)), []
    fed.note = told.append
    DFCA(**COMMON, num_clusters=2, topology=EdgeList(path=str(tmp_path / "links.txt"))).init(fed)
    assert [text.partition("(")[0] for text in told] == [f"{alone} of 9 clients have no neighbour "] * (alone > 0)


def test_messages_arrive_in_another_order_in_every_round(script, federate, monkeypatch):
    orders = []
    monkeypatch.setattr("flcluster.algorithms.gossip.dfca.average_in_turn", lambda table, sent: orders.append(sent))
    fed = federate(people(script))
    algorithm = DFCA(**COMMON, num_clusters=1, topology=Complete(), aggregation="sequential")
    links, sent = algorithm.topology.links(9, 0, 0), np.ones((9, 1), dtype=bool)
    for t in (0, 0, 1):
        algorithm.gossip(links, sent, t, fed)
    assert orders[0] == orders[1] != orders[2] and sorted(orders[0]) == sorted(orders[2])
    assert len(orders[0]) == 9 * 8


def test_local_initialisation_differs_everywhere(script, federate):
    found = []
    for seed in (11, 11, 12):
        fed = federate(people(script), seed=seed)
        algorithm = DFCA(**COMMON, num_clusters=3, initialisation="local")
        algorithm.init(fed)
        found.append(rows_of(algorithm, fed))
        assert len(np.unique(found[-1], axis=0)) == 27
        assert len(np.unique(found[-1].round(3)[:, :4], axis=0)) == 27  # not by rounding alone
    assert np.array_equal(found[0], found[1])
    assert not (found[0] == found[2]).any()
    assert algorithm.title == "DFCA-LI"


def test_the_data_say_how_many_models(script, federate):
    data = people(script)
    data.num_clusters = 3
    fed = federate(data)
    algorithm = DFCA(**COMMON)
    algorithm.init(fed)
    assert len(algorithm.models(fed)) == 27


def test_first_models_that_attract(script, federate):
    """Global initialisation may insist that every model attracts some clients."""
    failing = 0
    for seed in range(5):
        fed = federate(people(script, 8), seed=seed)
        algorithm = DFCA(**COMMON, num_clusters=2, min_share=0.25)
        algorithm.init(fed)
        rows = rows_of(algorithm, fed)
        assert (rows.reshape(8, 2, -1) == rows[:2]).all()
        assert np.bincount(list(assigned(rows, 2, range(8), 0, fed).values()), minlength=2).min() >= 2
        plain = np.tile(fed.init_rows(2).double().numpy(), (8, 1))
        failing += np.bincount(list(assigned(plain, 2, range(8), 0, fed).values()), minlength=2).min() < 2
    assert failing > 0


@pytest.mark.parametrize("wrong", [{"num_clusters": 0}, {"min_share": -0.5}, {"rounds": 0}, {"participation": 0.0}])
def test_wrong_settings_name_their_key(wrong):
    with pytest.raises(UserError, match=next(iter(wrong))):
        DFCA(**wrong)


# --------------------------------------------------------------------------------------------------- beside the server


def test_on_a_complete_graph_members_have_ifcas_models(script, federate):
    """Who trained model j has the mean over all who did: IFCA's new model. Who did not counts its old copy once more.

    So while the clusters stay as they are, the members' models are IFCA's, round after round.
    """
    held = {m: ([0, 1, 2, 3] * (3 + m % 3), 2 * (m % 2)) for m in range(8)}
    dfca, ifca = DFCA(**COMMON, num_clusters=2, topology=Complete()), IFCA(**COMMON, num_clusters=2)
    for seed in range(20):  # a beginning that divides them as the data do
        left, right = federate(script({0: held}), seed=seed), federate(script({0: held}), seed=seed)
        state, server = dfca.init(left), ifca.init(right)
        labels = assigned(rows_of(dfca, left), 2, range(8), 0, left)
        if len({(i % 2, j) for i, j in labels.items()}) == 2 and len(set(labels.values())) == 2:
            break
    else:
        pytest.fail("no such beginning")
    for t in range(4):
        old = rows_of(dfca, left)
        state, mine = dfca.step(state, t, left)
        server, theirs = ifca.step(server, t, right)
        assert mine.cohort.labels == theirs.cohort.labels == list(labels.values())
        rows, models = rows_of(dfca, left), server.models.double().numpy()
        for i in range(8):
            for j in range(2):
                size = sum(label == j for label in labels.values())
                new = models[j] if labels[i] == j else (old[i * 2 + j] + size * models[j]) / (size + 1)
                np.testing.assert_allclose(rows[i * 2 + j], new, rtol=0, atol=5e-6)


def test_a_model_that_nobody_trains_stays_as_with_ifca(script, federate):
    """Everyone prefers model 0: model 1 is IFCA's unchanged one at every client."""
    fed = federate(people(script))
    dfca = DFCA(**COMMON, num_clusters=2, topology=Complete())
    state = dfca.init(fed)
    table = dfca.models(fed)
    bad = torch.full((WIDTH,), 0.0)
    bad[-1] = 50.0  # always says class 3
    for i in range(9):
        table[2 * i + 1] = bad
    dfca.step(state, 0, fed)
    assert all(torch.equal(table[2 * i + 1], bad) for i in range(9))


def test_one_model_on_a_complete_graph_is_averaging_by_a_server(script, federate):
    """k = 1: every row is the plain mean, round after round, and IFCA's with one model."""
    left, right = federate(people(script)), federate(people(script))
    dfca, ifca = DFCA(**COMMON, num_clusters=1, topology=Complete()), IFCA(**COMMON, num_clusters=1)
    state, server = dfca.init(left), ifca.init(right)
    for t in range(3):
        state, _ = dfca.step(state, t, left)
        server, _ = ifca.step(server, t, right)
        expected = np.tile(server.models.double().numpy(), (9, 1))
        np.testing.assert_allclose(rows_of(dfca, left), expected, rtol=0, atol=5e-6)

"""Clients trained ahead of their turn: the outcome of one at a time, made several at a time."""

from hypothesis import given, settings
from hypothesis import strategies as st

from flcluster.federation.together.look_ahead import LookAhead

EXAMPLES = settings(deadline=None, max_examples=200, database=None)


def served(clients, skipped, result_of):
    """Go through the turns: a client's result is of what it received at its own last turn, of everyone before it."""
    total, received, results = 1, dict.fromkeys(clients, 0), {}
    for turn, client in enumerate(clients):
        if turn not in skipped:
            results[turn] = result_of(turn, received)
            total = (31 * total + results[turn]) % 10007
        received[client] = total + turn  # at a turn that is skipped too
    return results


def trained(turn, client, received):
    return (7 * received[client] + 13 * turn + client) % 10007


@st.composite
def turns(draw):
    """Whose turn it is, how many may be made together, and the turns at which nothing is trained."""
    clients = draw(st.lists(st.integers(0, draw(st.integers(0, 8))), min_size=1, max_size=60))
    return clients, draw(st.integers(1, 12)), draw(st.sets(st.integers(0, len(clients) - 1), max_size=len(clients)))


@EXAMPLES
@given(turns())
def test_the_outcome_is_that_of_one_at_a_time(found):
    """And every result is made once: at most so many together, each client once among them, the next turn first."""
    clients, at_once, skipped = found
    ahead, made = LookAhead(clients, at_once, skipped), []

    def result_of(turn, received):
        def make(coming):
            assert coming[0] == turn
            assert coming == sorted(coming)
            assert len(coming) <= at_once
            assert len({clients[n] for n in coming}) == len(coming)
            made.extend(coming)
            return [trained(n, clients[n], received) for n in coming]

        return ahead.take(turn, make)

    expected = served(clients, skipped, lambda turn, received: trained(turn, clients[turn], received))
    assert served(clients, skipped, result_of) == expected
    assert sorted(made) == sorted(expected)
    assert ahead.ready == {}


def test_one_at_a_time_makes_one_at_a_time():
    ahead, asked = LookAhead([0, 1, 0, 2], 1), []
    for turn in range(4):
        ahead.take(turn, lambda coming: asked.append(coming) or coming)
    assert asked == [[0], [1], [2], [3]]


def test_the_first_turn_of_each_client_is_known():
    """Of 0, 1, 0, 2, 1, 3: turns 2 and 4 wait for what their clients receive at 0 and 1; at most three are wanted."""
    assert LookAhead([0, 1, 0, 2, 1, 3], 9).known(0) == [0, 1, 3, 5]
    assert LookAhead([0, 1, 0, 2, 1, 3], 3).known(0) == [0, 1, 3]
    assert LookAhead([0, 1, 0, 2, 1, 3], 9).known(2) == [2, 3, 4, 5]


def test_what_is_ready_is_not_made_again_and_its_client_waits():
    """Turn 1 is ready, so client 1's turn 3, which follows it, is not known yet."""
    ahead = LookAhead([0, 1, 2, 1, 0], 9)
    ahead.ready[1] = "ready"
    assert ahead.known(0) == [0, 2]
    assert ahead.take(1, lambda coming: 1 / 0) == "ready"
    assert ahead.ready == {}


def test_a_skipped_turn_makes_its_client_wait():
    """Client 1 trains nothing at turn 1: what it trains at turn 3 is known only after that."""
    assert LookAhead([0, 1, 2, 1], 9, {1}).known(0) == [0, 2]
    assert LookAhead([0, 1, 2, 1], 9, {1}).known(2) == [2, 3]


def test_no_more_than_eight_times_as_many_turns_are_looked_at():
    """Two at once: sixteen turns after this one, whatever clients come later."""
    assert LookAhead([0] * 16 + [1], 2).known(0) == [0, 16]
    assert LookAhead([0] * 17 + [1], 2).known(0) == [0]
    assert LookAhead([0] * 20 + [1], 2).known(4) == [4, 20]

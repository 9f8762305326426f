"""DFCA without a barrier, simulated plainly, one event after the other."""

import numpy as np
from gossip import WIDTH, rows_of
from replay import mean_loss

COMMON = {"local_epochs": 1, "batch_size": 64}
CLOSE = {"rtol": 0, "atol": 2e-6}
SOON = 1e-9
"""A latency that is over long before anything else happens."""


class Replay:
    """One event after the other: a client's training ends, it sends, takes in what has come, and begins again."""

    def __init__(self, algorithm, fed, k, adjacency):
        self.rows, self.fed, self.k, self.adjacency = rows_of(algorithm, fed), fed, k, adjacency
        self.boxes = {i: [] for i in range(len(adjacency))}
        self.sent = self.taken = 0

    def label(self, client):
        view = self.fed.data.shard(client, 0).train
        losses = [mean_loss(self.rows[client * self.k + j], view) for j in range(self.k)]
        return losses.index(min(losses))

    def end(self, client, trained, now):
        """Return the cluster that was trained and how many messages were taken in: those sent before this moment."""
        label = self.label(client)
        self.rows[client * self.k + label] = trained
        for m in np.flatnonzero(self.adjacency[client]).tolist():
            self.boxes[m].append((label, trained.copy(), now))
            self.sent += 1
        here = [message for message in self.boxes[client] if message[2] < now]
        self.boxes[client] = [message for message in self.boxes[client] if message[2] >= now]
        for j in range(self.k):
            found = [row for cluster, row, _ in here if cluster == j]
            total = self.rows[client * self.k + j] + sum(found, np.zeros(WIDTH))
            self.rows[client * self.k + j] = total / (1 + len(found))
        self.taken += len(here)
        return label, len(here)


def trained_rows(log):
    return [(job.client, row.double().numpy()) for job, row in log]

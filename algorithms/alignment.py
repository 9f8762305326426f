"""One numbering of clusters for clients that each number their own."""

import numpy as np
import torch
from scipy.optimize import linear_sum_assignment

from flcluster.bank import Table


def align(table: Table, clients: int, k: int) -> list[list[int]]:
    """Renumber each client's k models so that they agree with the clients before it, by cosine similarity.

    The reference is the running mean of the models seen so far, beginning with client 0's. Returns for each client
    which of its old models stands at each number now.
    """
    orders = [list(range(k))]
    reference = torch.stack([table[j] for j in range(k)])
    for client in range(1, clients):
        rows = torch.stack([table[client * k + j] for j in range(k)])
        order = best_order(torch.nn.functional.normalize(reference), torch.nn.functional.normalize(rows))
        for j, which in enumerate(order):
            if which != j:
                table[client * k + j] = rows[which]
        reference.lerp_(rows[order], 1 / (client + 1))
        orders.append(order)
    return orders


def best_order(reference: torch.Tensor, rows: torch.Tensor) -> list[int]:
    """Return which row stands for each reference so that the similarities add up to the most."""
    _, order = linear_sum_assignment((reference @ rows.T).double().numpy(), maximize=True)
    return np.asarray(order).tolist()

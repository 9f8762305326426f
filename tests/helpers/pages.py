"""Runs to make pages of, and pages taken apart."""

import http.client
import json
import re
import threading
from contextlib import closing, contextmanager

import numpy as np
from runs import write_run

from flcluster.report.html.live import server


def cdfl_run(path, clients=6, cycles=4, K=2, seed=0, algorithm="CDFL", settings=None, **values):
    """A run of uploads with mixtures and estimates, as the engine leaves it."""
    generator = np.random.default_rng(seed)
    uploads = clients * cycles
    true = generator.dirichlet(np.ones(K), uploads).round(4)
    estimate = generator.dirichlet(np.ones(K), uploads).round(4)
    accuracy = np.linspace(0.3, 0.9, uploads) + generator.normal(0, 0.02, uploads)
    rows = {
        "update": range(1, uploads + 1),
        "epoch": range(uploads),
        "client": [at % clients for at in range(uploads)],
        "status": ["refused" if at == 2 else "accepted" for at in range(uploads)],
        "acc_before": accuracy.tolist(),
        "acc_after": (accuracy + 0.05).tolist(),
    }
    rows |= {f"true_{k}": true[:, k].tolist() for k in range(K)} | {
        f"est_{k}": estimate[:, k].tolist() for k in range(K)
    }
    at = range(cycles + 1)
    metrics = {
        "update": [clients * t for t in at],
        "epoch": [clients * t for t in at],
        "time": [1.5 * t for t in at],
        "client_acc_after": ["", *(0.5 + 0.1 * t + 0.01 * seed for t in range(cycles))],
        "cluster_acc": [0.4 + 0.1 * t for t in at],
        "upload_bytes": [1e6 * t for t in at],
        "download_bytes": [2e6 * t for t in at],
        "client_compute": [300 * t for t in at],
    }
    told = {"num_clusters": K, "num_clients": clients, "updates": uploads, "status": "finished", "refused": 1}
    told |= {"client_acc_after": 0.8, "upload_bytes": 1e6 * cycles, "download_bytes": 2e6 * cycles}
    told |= {"client_compute": 300 * cycles, "wall_seconds": 2.5, "dataset": "Digits"}
    settings = settings or {"data": "Digits", "algorithm": {"class_path": algorithm, "init_args": {"rho": 0.1}}}
    return write_run(path, algorithm, seed, metrics, rows, settings, **{**told, **values})


def data_of(page):
    """What a page holds in numbers."""
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)[1])


def section_of(told, ident):
    """One section of a page's data."""
    return next(section for section in told["sections"] if section["id"] == ident)


@contextmanager
def serving(*paths, **where):
    """A server in a thread; yields a function that asks it."""
    with server(list(paths), **where) as made:
        thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()

        def ask(path, method="GET", **headers):
            with closing(http.client.HTTPConnection("127.0.0.1", made.server_address[1], timeout=20)) as connection:
                names = {name.replace("_", "-"): value for name, value in headers.items()}
                connection.request(method, path, headers=names)
                answer = connection.getresponse()
                return answer.status, answer.read().decode(), answer.headers

        try:
            yield ask
        finally:
            made.shutdown()
            thread.join()

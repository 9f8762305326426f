"""How well do a run's cluster models average? Accuracy on each cluster along the line between two of them.

CDFL's reply is a weighted sum of cluster models, so a dip between them ("barrier") limits what a client receives.
Run: python tests/benchmarks/barrier.py RUN [--clusters 0 1] [--samples 2000]
"""

import argparse
from pathlib import Path

import torch
from lightning.fabric import Fabric

from flcluster.data import View
from flcluster.engine.finished.saved import Saved
from flcluster.federation.bank import Bank
from flcluster.federation.federation import Federation


def main() -> None:
    """Print the line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("--clusters", type=int, nargs=2, default=(0, 1))
    parser.add_argument("--samples", type=int, default=2000)
    given = parser.parse_args()
    saved = Saved.load(given.run)
    saved.data.setup("fit")
    fed = Federation(
        Fabric(accelerator="cpu", devices=1), saved.model, saved.data, lambda width: Bank(given.run, width, 0), 0
    )
    a, b = given.clusters
    models = saved.models()
    p = fed.layout.num_parameters
    print(
        f"{saved.content['position']} uploads; distance of the models {float((models[a] - models[b])[:p].norm()):.2f}"
    )
    views = [
        View(((source, index[: given.samples]),)) for k in (a, b) for source, index in saved.data.cluster_test(k).parts
    ]
    for share in torch.linspace(0, 1, 5).tolist():
        row = torch.lerp(models[a], models[b], share)
        scores = "  ".join(f"cluster {k} {fed.accuracy(row, v):.3f}" for k, v in zip((a, b), views, strict=True))
        print(f"{1 - share:.2f} of model {a}, {share:.2f} of model {b}: {scores}")


if __name__ == "__main__":
    main()

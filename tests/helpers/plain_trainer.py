"""The truth of local training: a plain Trainer of Lightning, that knows nothing of flcluster."""

import contextlib
import random
import sys
import warnings

import lightning as L
import numpy as np
import torch
from torch.utils.data import DataLoader, Sampler, Subset

from flcluster.seeds import rng, sequence, torch_seed

QUIET = {
    "logger": False,
    "enable_checkpointing": False,
    "enable_progress_bar": False,
    "enable_model_summary": False,
    "num_sanity_val_steps": 0,
}


class Batches(Sampler):
    """The samples of a job, shuffled for each epoch as the job says, in batches."""

    def __init__(self, rows, job, seed, batch_norm=False):
        self.rows, self.order = np.asarray(rows), rng(seed, job.purpose, job.client, job.cycle)
        cuts = [slice(at, at + job.batch_size) for at in range(0, len(rows), job.batch_size)]
        self.cuts = [cut for cut in cuts if not (batch_norm and len(self.rows[cut]) == 1)]

    def __len__(self):
        return len(self.cuts)

    def __iter__(self):
        shuffled = self.rows[self.order.permutation(len(self.rows))]
        return iter([shuffled[cut].tolist() for cut in self.cuts])


def starting(package, state):
    """Return a callback that loads weights, which may be those of layers that are made late."""
    callback = package.Callback()
    callback.on_fit_start = lambda trainer, module: module.load_state_dict(state)
    return callback


def package_of(module):
    """The package that a module is made with: there are two of them."""
    other = sys.modules.get("pytorch_lightning")
    return other if other is not None and isinstance(module, other.LightningModule) else L


@contextlib.contextmanager
def seeded(seed, purpose, *ids):
    """Python's, NumPy's and torch's generators, by hand."""
    number = int(sequence(seed, purpose, *ids).generate_state(1)[0])
    kept = random.getstate(), np.random.get_state()
    with torch_seed(seed, purpose, *ids):
        random.seed(number), np.random.seed(number)
        yield
    random.setstate(kept[0]), np.random.set_state(kept[1])


def trained_plainly(module, dataset, rows, job, seed, collate=None, data=None, start=None, batch_norm=False, val=None):
    """Train on some rows of a dataset; return the module's tensors.

    A datamodule, if given, does what it does, except that the batches are those of the job. With ``val``, a dataset
    and rows of it, it validates.
    """
    loader = DataLoader(dataset, batch_sampler=Batches(rows, job, seed, batch_norm), collate_fn=collate)
    package = package_of(module)
    if not isinstance(data, package.LightningDataModule):
        data = package.LightningDataModule()
    data.train_dataloader = lambda: loader
    if val is not None:
        held_out = DataLoader(Subset(*val), job.batch_size, collate_fn=collate)
        data.val_dataloader = lambda: held_out
    with warnings.catch_warnings(), seeded(seed, job.purpose, job.client, job.cycle):
        warnings.simplefilter("ignore")
        callbacks = [] if start is None else [starting(package, start)]
        length = {"max_epochs": job.epochs, "limit_val_batches": 0 if val is None else 1.0}
        trainer = package.Trainer(accelerator="cpu", devices=1, callbacks=callbacks, **length, **QUIET)
        trainer.fit(module, datamodule=data)
    return {name: value.clone() for name, value in module.state_dict().items()}


def difference(found, expected, before):
    """Return the largest difference of two state dicts, as a share of what training changed in the tensor."""
    shares, moved = [0.0], False
    assert found.keys() == expected.keys()
    found, expected, before = (
        {name: torch.view_as_real(v) if torch.is_tensor(v) and v.is_complex() else v for name, v in state.items()}
        for state in (found, expected, before)
    )
    for name, value in expected.items():
        if not hasattr(value, "double"):
            continue
        change = float((value.double() - before[name].double()).nan_to_num().abs().max()) if value.numel() else 0.0
        error = float((found[name].double() - value.double()).nan_to_num().abs().max()) if value.numel() else 0.0
        assert (found[name].double().isnan() == value.double().isnan()).all()
        moved |= change > 0
        shares.append(0.0 if error <= 1e-7 else error / max(change, 1e-30))
    assert moved, "training changed nothing"
    return max(shares)

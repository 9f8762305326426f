"""What is wrong with a LightningModule of one's own is told in its first trainings, and a model is a row, not less."""

import math
import re
from dataclasses import replace
from pathlib import Path

import lightning
import pytest
import torch
from federations import CLASSES
from torch import nn
from torch.nn import functional as F

from flcluster.data import Samples, View
from flcluster.errors import UserError
from flcluster.federation.jobs import Job
from flcluster.federation.lightning_worker import SILENT
from flcluster.federation.paths import check_classes
from flcluster.federation.together.rule import Wish
from flcluster.federation.trainer.local_training import all_tensors_finite


class Own(lightning.LightningModule):
    """Softmax regression whose loss is changed by a function of the loss and the number of the batch."""

    def __init__(self, change=lambda loss, batch_idx: loss, lr=0.1):
        super().__init__()
        self.change, self.lr, self.net = change, lr, nn.Sequential(nn.Flatten(), nn.Linear(6, CLASSES))

    def forward(self, x):
        return self.net(x)

    def training_step(self, batch, batch_idx):
        return self.change(F.cross_entropy(self(batch[0]), batch[1]), batch_idx)

    def validation_step(self, batch, batch_idx):
        self.log("val_loss", F.cross_entropy(self(batch[0]), batch[1]))

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), self.lr)


def refused(act, what):
    with pytest.raises(UserError) as found:
        act()
    told = str(found.value)
    assert re.match(rf"{what} \({re.escape(str(Path(__file__)))}", told), told
    return told


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda loss, batch_idx: loss.detach(), "without a gradient"),
        (lambda loss, batch_idx: loss * torch.ones(2), "must give a loss that is one number"),
        (lambda loss, batch_idx: loss * math.nan, "gives a loss of nan on its first samples, which are finite"),
        (lambda loss, batch_idx: loss / 0, "gives a loss of inf"),
    ],
)
def test_the_loss_of_the_first_batch(change, said, federation):
    told = refused(lambda: federation(module=Own(change)), "Own.training_step")
    assert said in told.replace("a Tensor (2,) of float32", "")


def test_weights_that_are_not_finite_at_once(federation):
    assert "lower its learning rate" in refused(lambda: federation(module=Own(lr=1e30)), "Own")


def test_a_loss_that_is_infinite_and_harms_nothing(federation):
    """A manual guard, say: the weights are finite."""
    federation(module=Own(lambda loss, batch_idx: loss * 0 + 1e38))


def test_data_that_are_not_finite_are_not_the_modules_fault(federation, blobs):
    data = blobs()
    for source in data.sources["train"]:
        source.x[:] = math.nan
    fed = federation(data, Own())
    (trained,) = fed.train(jobs(fed)[:1])
    assert not trained.finite and math.isnan(trained.accuracy)


def jobs(fed):
    return [Job(client, fed.init_rows(1)[0], fed.data.shard(client).train, 1, 8) for client in range(SILENT)]


def test_a_module_without_a_loss(federation):
    """None is what leaves a batch out, so it takes some trainings to know."""
    fed = federation(module=Own(lambda loss, batch_idx: None))
    assert "returns no loss" in refused(lambda: list(fed.train(jobs(fed))), "Own.training_step")


def test_batches_that_are_left_out(federation):
    """The first of each training, here of more than one batch, and in the short one at the start of the only one."""
    fed = federation(module=Own(lambda loss, batch_idx: loss if batch_idx else None))
    assert all(math.isfinite(result.loss) for result in fed.train(jobs(fed)))


def test_optimising_by_hand_needs_no_loss(federation):
    class Manual(Own):
        def __init__(self):
            super().__init__()
            self.automatic_optimization = False

        def training_step(self, batch, batch_idx):
            optimizer = self.optimizers()
            optimizer.zero_grad()
            self.manual_backward(F.cross_entropy(self(batch[0]), batch[1]))
            optimizer.step()

    fed = federation(module=Manual())
    assert len(list(fed.train(jobs(fed)))) == SILENT


@pytest.mark.parametrize("module", [None, Own], ids=["flat", "trainer"])
@pytest.mark.parametrize("shape", [(), (1,), (3,), (1, 0)])  # (1, 0): one row too deep
def test_a_model_is_a_whole_row(module, shape, federation):
    """A shorter one would fill the model with copies of itself."""
    fed = federation(module=module and module())
    row = torch.zeros(shape) if shape != (1, 0) else fed.init_rows(1)
    with pytest.raises(ValueError, match="a model is a row of"):
        fed.worker.layout.load(row)
    job = replace(jobs(fed)[0], start=row)
    with pytest.raises(ValueError, match="a model is a row of"):
        list(fed.train([job]))


def test_several_in_one_pass_begin_with_whole_rows_too(federation):
    fed = federation()
    fed._wish = Wish(4, 8)
    assert fed.several is not None
    with pytest.raises(ValueError, match="a model is a row of"):
        list(fed.train([replace(job, start=torch.zeros(1)) for job in jobs(fed)]))


def test_data_without_classes_are_named_with_their_file(federation, blobs):
    data = blobs()
    shard = type(data).shard

    class Targets(type(data)):
        def shard(self, client, cycle=0):
            points = Samples([(torch.zeros(1, 2, 3), torch.tensor(0.5))] * 9)
            view = View(((points, torch.arange(9)),))
            return replace(shard(self, client, cycle), train=view, test=view)

    with pytest.raises(UserError, match=rf"but Targets \({re.escape(str(Path(__file__)))}\) does not tell the class"):
        check_classes(Targets(), nn.Linear(1, 1))


def test_what_batches_may_be_made_of():
    assert all_tensors_finite({"x": [torch.ones(2)], "name": "a"}) and all_tensors_finite(None)
    assert not all_tensors_finite((torch.ones(1), {"y": torch.tensor([math.inf])}))

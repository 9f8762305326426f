"""timm, segmentation-models-pytorch, lightly and torchgeo."""

from copy import deepcopy

import lightning as L
import pytest
import torch
import zoo
from torch import nn
from torch.nn import functional as F
from torch.utils.data import Dataset, TensorDataset
from zoo import Classifier

pytestmark = pytest.mark.zoo
N = 44


def pictures(size=32, channels=3, classes=4):
    return (TensorDataset(torch.rand(N, channels, size, size), torch.randint(classes, (N,))),)


def masks(size=32, classes=3):
    return ([{"image": torch.rand(3, size, size), "mask": torch.randint(classes, (size, size))} for _ in range(N)],)


# ------------------------------------------------------------------------------- timm


@pytest.mark.parametrize("name", ["resnet10t", "mobilenetv3_small_050", "test_vit", "test_convnext", "test_byobnet"])
def test_timm(name):
    import timm

    def make():
        return Classifier(timm.create_model(name, pretrained=False, num_classes=4))

    zoo.check(make, lambda: pictures(160 if name == "test_vit" else 32), "timm", name=name, epochs=1)


def test_timm_frozen_vit():
    import timm

    def make():
        net = timm.create_model("vit_tiny_patch16_224", pretrained=False, num_classes=4, img_size=32, depth=2)
        net.requires_grad_(False)
        net.head.requires_grad_(True)
        return Classifier(net.to(torch.bfloat16))

    class Bf16(Classifier):
        def __init__(self):
            super().__init__(make().net)
            self.net.head.float()

        def forward(self, x):
            return self.net.head(
                self.net.forward_head(self.net.forward_features(x.bfloat16()), pre_logits=True).float()
            )

    zoo.check(Bf16, pictures, "timm", name="vit_tiny_patch16, frozen, bfloat16", epochs=1)


def test_timm_average():
    import timm
    from timm.utils import ModelEmaV2

    class Averaged(Classifier):
        """timm's average of the weights is a module of its own."""

        def __init__(self):
            super().__init__(timm.create_model("test_resnet", pretrained=False, num_classes=4))
            self.average = ModelEmaV2(self.net, decay=0.9)
            self.average.requires_grad_(False)

        def on_train_batch_end(self, outputs, batch, batch_idx):
            self.average.update(self.net)

    zoo.check(Averaged, pictures, "timm", name="test_resnet, ModelEmaV2", epochs=1)


def test_timm_mixup():
    import timm
    from timm.data import Mixup
    from timm.loss import SoftTargetCrossEntropy

    class Mixed(Classifier):
        """Mixes pictures on their way to the model, with NumPy's generator."""

        def __init__(self):
            super().__init__(timm.create_model("test_resnet", pretrained=False, num_classes=4))
            self.mixup, self.loss = Mixup(mixup_alpha=0.8, cutmix_alpha=1.0, num_classes=4), SoftTargetCrossEntropy()

        def on_after_batch_transfer(self, batch, dataloader_idx):
            return self.mixup(*batch) if self.trainer.training else batch

        def training_step(self, batch, batch_idx):
            return self.loss(self(batch[0]), batch[1])

    zoo.check(Mixed, pictures, "timm", name="test_resnet, Mixup", epochs=2)


# ------------------------------------------------------------------------------- segmentation-models-pytorch


@pytest.mark.parametrize("name", ["Unet", "FPN", "DeepLabV3Plus", "Segformer"])
def test_smp(name):
    import segmentation_models_pytorch as smp

    class PetModel(L.LightningModule):
        """The module of its example."""

        def __init__(self):
            super().__init__()
            self.model = smp.create_model(name, encoder_name="resnet18", encoder_weights=None, classes=3)
            self.register_buffer("std", torch.tensor([0.229, 0.224, 0.225]).view(1, 3, 1, 1))
            self.register_buffer("mean", torch.tensor([0.485, 0.456, 0.406]).view(1, 3, 1, 1))
            self.loss_fn = smp.losses.DiceLoss(smp.losses.MULTICLASS_MODE, from_logits=True)
            self.training_step_outputs, self.validation_step_outputs = [], []

        def forward(self, image):
            return self.model((image - self.mean) / self.std)

        def shared_step(self, batch):
            mask = batch["mask"].long()
            logits = self(batch["image"])
            found = logits.argmax(1)
            tp, fp, fn, tn = smp.metrics.get_stats(found, mask, mode="multiclass", num_classes=3)
            return {"loss": self.loss_fn(logits, mask), "tp": tp, "fp": fp, "fn": fn, "tn": tn}

        def shared_epoch_end(self, outputs, stage):
            sums = [torch.cat([x[key] for x in outputs]) for key in ("tp", "fp", "fn", "tn")]
            iou = smp.metrics.iou_score(*sums, reduction="micro-imagewise")
            self.log_dict({f"{stage}_per_image_iou": iou}, prog_bar=True)

        def training_step(self, batch, batch_idx):
            out = self.shared_step(batch)
            self.training_step_outputs.append(out)
            return out

        def on_train_epoch_end(self):
            self.shared_epoch_end(self.training_step_outputs, "train")
            self.training_step_outputs.clear()

        def validation_step(self, batch, batch_idx):
            self.validation_step_outputs.append(self.shared_step(batch))

        def on_validation_epoch_end(self):
            self.shared_epoch_end(self.validation_step_outputs, "valid")
            self.validation_step_outputs.clear()

        def configure_optimizers(self):
            optimizer = torch.optim.Adam(self.parameters(), lr=2e-4)
            schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=50, eta_min=1e-5)
            return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}

    zoo.check(PetModel, lambda: masks(64), "segmentation-models-pytorch", epochs=1, name=f"PetModel, {name}")


# ------------------------------------------------------------------------------- lightly


def views():
    """Two views of each picture, its label and its name, as lightly's datasets give them."""
    return ([([a, b], 0, "name.png") for a, b in torch.rand(N, 2, 3, 16, 16)],)


def backbone():
    return nn.Sequential(nn.Conv2d(3, 8, 3, 2), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())


class SSL(L.LightningModule):
    rate = 0.06

    def __init__(self):
        super().__init__()
        self.backbone = backbone()
        self.build()

    def training_step(self, batch, batch_idx):
        return self.of_views(*batch[0])

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=self.rate)


def kinds_of_lightly():
    from lightly import loss
    from lightly.models import utils
    from lightly.models.modules import NNMemoryBankModule, heads
    from lightly.utils.scheduler import cosine_schedule

    class SimCLR(SSL):
        def build(self):
            self.head, self.criterion = heads.SimCLRProjectionHead(8, 8, 8), loss.NTXentLoss()

        def of_views(self, a, b):
            return self.criterion(self.head(self.backbone(a)), self.head(self.backbone(b)))

    class MoCo(SSL):
        def build(self):
            self.head = heads.MoCoProjectionHead(8, 8, 8)
            self.backbone_momentum, self.head_momentum = deepcopy(self.backbone), deepcopy(self.head)
            utils.deactivate_requires_grad(self.backbone_momentum)
            utils.deactivate_requires_grad(self.head_momentum)
            self.criterion = loss.NTXentLoss(memory_bank_size=(32, 8))

        def of_views(self, a, b):
            momentum = cosine_schedule(self.current_epoch, 10, 0.996, 1)
            utils.update_momentum(self.backbone, self.backbone_momentum, m=momentum)
            utils.update_momentum(self.head, self.head_momentum, m=momentum)
            query = self.head(self.backbone(a))
            with torch.no_grad():
                key = self.head_momentum(self.backbone_momentum(b))
            return self.criterion(query, key)

    class BYOL(MoCo):
        def build(self):
            super().build()
            self.head = heads.BYOLProjectionHead(8, 8, 8)
            self.head_momentum = deepcopy(self.head)
            utils.deactivate_requires_grad(self.head_momentum)
            self.prediction, self.criterion = heads.BYOLPredictionHead(8, 8, 8), loss.NegativeCosineSimilarity()

        def of_views(self, a, b):
            utils.update_momentum(self.backbone, self.backbone_momentum, m=0.99)
            utils.update_momentum(self.head, self.head_momentum, m=0.99)
            online = [self.prediction(self.head(self.backbone(x))) for x in (a, b)]
            slow = [self.head_momentum(self.backbone_momentum(x)).detach() for x in (a, b)]
            return 0.5 * (self.criterion(online[0], slow[1]) + self.criterion(online[1], slow[0]))

    class SimSiam(SSL):
        def build(self):
            self.head, self.prediction = heads.SimSiamProjectionHead(8, 8, 8), heads.SimSiamPredictionHead(8, 4, 8)
            self.criterion = loss.NegativeCosineSimilarity()

        def of_views(self, a, b):
            z = [self.head(self.backbone(x)) for x in (a, b)]
            p = [self.prediction(x) for x in z]
            return 0.5 * (self.criterion(z[0].detach(), p[1]) + self.criterion(z[1].detach(), p[0]))

    class BarlowTwins(SimCLR):
        def build(self):
            self.head, self.criterion = heads.BarlowTwinsProjectionHead(8, 8, 8), loss.BarlowTwinsLoss()

    class VICReg(SimCLR):
        def build(self):
            self.head, self.criterion = heads.VICRegProjectionHead(8, 8, 8), loss.VICRegLoss()

    class NNCLR(SSL):
        def build(self):
            self.head, self.prediction = heads.NNCLRProjectionHead(8, 8, 8), heads.NNCLRPredictionHead(8, 8, 8)
            self.memory_bank, self.criterion = NNMemoryBankModule(size=(32, 8)), loss.NTXentLoss()

        def of_views(self, a, b):
            z = [self.head(self.backbone(x)) for x in (a, b)]
            p = [self.prediction(x) for x in z]
            near = self.memory_bank(z[0].detach(), update=False), self.memory_bank(z[1].detach(), update=True)
            return 0.5 * (self.criterion(near[0], p[1]) + self.criterion(near[1], p[0]))

    class DINO(SSL):
        def build(self):
            self.teacher_backbone = deepcopy(self.backbone)
            self.head = heads.DINOProjectionHead(8, 8, 4, 16, freeze_last_layer=1)
            self.teacher_head = heads.DINOProjectionHead(8, 8, 4, 16)
            utils.deactivate_requires_grad(self.teacher_backbone)
            utils.deactivate_requires_grad(self.teacher_head)
            self.criterion = loss.DINOLoss(output_dim=16, warmup_teacher_temp_epochs=2)

        def of_views(self, a, b):
            utils.update_momentum(self.backbone, self.teacher_backbone, m=0.99)
            utils.update_momentum(self.head, self.teacher_head, m=0.99)
            teacher = [self.teacher_head(self.teacher_backbone(x)) for x in (a, b)]
            student = [self.head(self.backbone(x)) for x in (a, b)]
            return self.criterion(teacher, student, epoch=self.current_epoch)

        def on_after_backward(self):
            self.head.cancel_last_layer_gradients(current_epoch=self.current_epoch)

    class SwaV(SSL):
        def build(self):
            self.head = heads.SwaVProjectionHead(8, 8, 8)
            self.prototypes = heads.SwaVPrototypes(8, n_prototypes=16)
            self.criterion = loss.SwaVLoss(sinkhorn_gather_distributed=False)

        def of_views(self, a, b):
            self.prototypes.normalize()
            found = [self.prototypes(F.normalize(self.head(self.backbone(x)))) for x in (a, b)]
            return self.criterion(found, [])

    return [SimCLR, MoCo, BYOL, SimSiam, BarlowTwins, VICReg, NNCLR, DINO, SwaV]


LIGHTLY = ["SimCLR", "MoCo", "BYOL", "SimSiam", "BarlowTwins", "VICReg", "NNCLR", "DINO", "SwaV"]


@pytest.mark.parametrize("name", LIGHTLY)
def test_lightly(name):
    (kind,) = [kind for kind in kinds_of_lightly() if kind.__name__ == name]
    zoo.check(kind, views, "lightly", name=f"{name} (lightly)")


# ------------------------------------------------------------------------------- torchgeo


class Bands(Dataset):
    """Pictures with a label, a mask and boxes."""

    channels = 3

    def __init__(self, split="train", keys=("label",), size=32):
        draw = torch.Generator().manual_seed(len(split))
        held = {
            "image": 255 * torch.rand(N, self.channels, size, size, generator=draw),
            "label": torch.randint(4, (N,), generator=draw),
            "mask": torch.randint(3, (N, size, size), generator=draw),
        }
        self.samples = [{key: held[key][i] for key in ("image", *keys)} for i in range(N)]

    def __len__(self):
        return N

    def __getitem__(self, i):
        return dict(self.samples[i])


def of_torchgeo(keys, four=False, size=32):
    from torchgeo.datamodules import NonGeoDataModule

    class Four(Bands):
        channels = 4

    return lambda: NonGeoDataModule(Four if four else Bands, batch_size=zoo.SIZE, keys=keys, size=size)


def test_torchgeo_classification():
    from torchgeo.trainers import ClassificationTask

    make = lambda: ClassificationTask("resnet18", num_classes=4)  # noqa: E731
    zoo.check(make, of_torchgeo(("label",)), "torchgeo", name="ClassificationTask", metric="val_loss", validates=True)
    frozen = lambda: ClassificationTask("resnet18", num_classes=4, freeze_backbone=True, patience=0)  # noqa: E731
    zoo.check(
        frozen,
        of_torchgeo(("label",)),
        "torchgeo",
        name="ClassificationTask, frozen backbone",
        metric="val_loss",
        validates=True,
    )


def test_torchgeo_segmentation():
    from torchgeo.trainers import SemanticSegmentationTask

    make = lambda: SemanticSegmentationTask("unet", "resnet18", num_classes=3, loss="focal")  # noqa: E731
    zoo.check(
        make,
        of_torchgeo(("mask",)),
        "torchgeo",
        name="SemanticSegmentationTask",
        metric="val_loss",
        validates=True,
        epochs=1,
    )


def test_torchgeo_regression():
    from torchgeo.trainers import PixelwiseRegressionTask, RegressionTask

    make = lambda: RegressionTask("resnet18", num_outputs=1)  # noqa: E731
    zoo.check(make, of_torchgeo(("label",)), "torchgeo", name="RegressionTask", validates=True, epochs=1)
    pixelwise = lambda: PixelwiseRegressionTask("unet", "resnet18")  # noqa: E731
    zoo.check(pixelwise, of_torchgeo(("mask",)), "torchgeo", name="PixelwiseRegressionTask", validates=True, epochs=1)


def test_torchgeo_byol():
    from torchgeo.trainers import BYOLTask

    make = lambda: BYOLTask("resnet18", in_channels=3)  # noqa: E731
    zoo.check(make, of_torchgeo((), size=64), "torchgeo", name="BYOLTask", validates=True, epochs=1)


def test_torchgeo_moco_and_simclr():
    from torchgeo.trainers import MoCoTask, SimCLRTask

    moco = lambda: MoCoTask("resnet18", memory_bank_size=32, size=32, schedule=[1])  # noqa: E731
    zoo.check(moco, of_torchgeo(()), "torchgeo", name="MoCoTask", epochs=2)
    simclr = lambda: SimCLRTask("resnet18", memory_bank_size=0, size=32, layers=2)  # noqa: E731
    zoo.check(simclr, of_torchgeo(()), "torchgeo", name="SimCLRTask", epochs=1)

"""Lightning's own demos, the modules of its tutorials, and torchvision's networks."""

import lightning as L
import pytest
import torch
import zoo
from torch import nn
from torch.nn import functional as F
from torch.utils.data import TensorDataset
from zoo import Classifier

pytestmark = pytest.mark.zoo
N = 44


def pictures(size=16, channels=3, classes=4):
    return (TensorDataset(torch.rand(N, channels, size, size), torch.randint(classes, (N,))),)


def rows(width=32):
    return ([row for row in torch.randn(N, width)],)


def words(length=6, vocabulary=11):
    text = torch.randint(vocabulary, (N, length + 1))
    return (TensorDataset(text[:, :-1], text[:, 1:]),)


# ------------------------------------------------------------------------------- Lightning's demos


@pytest.mark.parametrize("name", ["BoringModel", "ManualOptimBoringModel", "DemoModel"])
def test_boring(name):
    from lightning.pytorch.demos import boring_classes

    zoo.check(getattr(boring_classes, name), rows, "lightning")


def test_boring_datamodule():
    from lightning.pytorch.demos.boring_classes import BoringDataModule, BoringModel

    zoo.check(BoringModel, BoringDataModule, "lightning", name="BoringModel, BoringDataModule", epochs=1)


def test_stream_of_boring():
    from lightning.pytorch.demos.boring_classes import BoringDataModuleNoLen, BoringModel

    zoo.check(BoringModel, BoringDataModuleNoLen, "lightning", name="BoringModel, BoringDataModuleNoLen")


def test_net():
    from lightning.pytorch.demos.boring_classes import Net

    class ImageClassifier(L.LightningModule):
        def __init__(self):
            super().__init__()
            self.model = Net()

        def forward(self, x):
            return self.model(x)

        def training_step(self, batch, batch_idx):
            return F.nll_loss(self(batch[0]), batch[1].long())

        def configure_optimizers(self):
            optimizer = torch.optim.Adadelta(self.parameters(), lr=1.0)
            return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.7)]

    zoo.check(ImageClassifier, lambda: pictures(28, 1), "lightning")


def test_lstm():
    from lightning.pytorch.demos.lstm import LightningLSTM, SimpleLSTM

    class Small(LightningLSTM):
        def __init__(self):
            super().__init__(11)
            self.model = SimpleLSTM(11, 8, 8, 2)

        def prepare_data(self):
            """Nothing to download."""

    zoo.check(Small, lambda: words(), "lightning", name="LightningLSTM")


def test_transformer():
    from lightning.pytorch.demos.transformer import LightningTransformer, Transformer

    class Small(LightningTransformer):
        def __init__(self):
            super().__init__(11)
            self.model = Transformer(11, 8, 2, 8, 1)

        def prepare_data(self):
            """Nothing to download."""

    zoo.check(Small, words, "lightning", name="LightningTransformer")


# ------------------------------------------------------------------------------- Lightning's tutorials


def test_autoencoder():
    class LitAutoEncoder(L.LightningModule):
        def __init__(self):
            super().__init__()
            self.encoder = nn.Sequential(nn.Linear(64, 16), nn.ReLU(), nn.Linear(16, 3))
            self.decoder = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 64))

        def training_step(self, batch, batch_idx):
            x, _ = batch
            x = x.view(x.size(0), -1)
            loss = F.mse_loss(self.decoder(self.encoder(x)), x)
            self.log("train_loss", loss)
            return loss

        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters(), lr=1e-3)

    zoo.check(LitAutoEncoder, lambda: pictures(8, 1), "lightning")


class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        self.model = nn.Sequential(
            nn.Linear(10, 16), nn.BatchNorm1d(16, 0.8), nn.LeakyReLU(0.2), nn.Linear(16, 64), nn.Tanh()
        )

    def forward(self, z):
        return self.model(z).view(-1, 1, 8, 8)


class GAN(L.LightningModule):
    """The GAN of the tutorials."""

    def __init__(self):
        super().__init__()
        self.save_hyperparameters()
        self.automatic_optimization = False
        self.generator = Generator()
        self.discriminator = nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))
        self.validation_z = torch.randn(8, 10)
        self.example_input_array = torch.zeros(2, 10)

    def forward(self, z):
        return self.generator(z)

    def training_step(self, batch):
        imgs, _ = batch
        optimizer_g, optimizer_d = self.optimizers()
        z = torch.randn(imgs.shape[0], 10).type_as(imgs)
        self.toggle_optimizer(optimizer_g)
        self.generated_imgs = self(z)
        valid = torch.ones(imgs.size(0), 1).type_as(imgs)
        loss = F.binary_cross_entropy_with_logits
        g_loss = loss(self.discriminator(self(z)), valid)
        self.log("g_loss", g_loss, prog_bar=True)
        self.manual_backward(g_loss)
        optimizer_g.step()
        optimizer_g.zero_grad()
        self.untoggle_optimizer(optimizer_g)
        self.toggle_optimizer(optimizer_d)
        real = loss(self.discriminator(imgs), valid)
        fake = loss(self.discriminator(self(z).detach()), 1 - valid)
        d_loss = (real + fake) / 2
        self.log("d_loss", d_loss, prog_bar=True)
        self.manual_backward(d_loss)
        optimizer_d.step()
        optimizer_d.zero_grad()
        self.untoggle_optimizer(optimizer_d)

    def validation_step(self, batch, batch_idx):
        """Nothing to see."""

    def on_validation_epoch_end(self):
        self(self.validation_z.type_as(self.generator.model[0].weight))

    def configure_optimizers(self):
        made = [self.generator, self.discriminator]
        return [torch.optim.Adam(each.parameters(), lr=2e-3, betas=(0.5, 0.999)) for each in made], []


def test_gan():
    zoo.check(GAN, lambda: pictures(8, 1), "lightning")


def test_finetuning_of_a_frozen_backbone():
    class ImagenetTransferLearning(L.LightningModule):
        def __init__(self):
            super().__init__()
            from torchvision.models import resnet18

            backbone = resnet18(weights=None)
            self.feature_extractor = nn.Sequential(*list(backbone.children())[:-1])
            self.feature_extractor.eval()
            self.classifier = nn.Linear(backbone.fc.in_features, 4)

        def forward(self, x):
            with torch.no_grad():
                representations = self.feature_extractor(x).flatten(1)
            return self.classifier(representations)

        def training_step(self, batch, batch_idx):
            return F.cross_entropy(self(batch[0]), batch[1])

        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters(), lr=1e-3)

    zoo.check(ImagenetTransferLearning, pictures, "lightning torchvision")


def test_unfreezing_later():
    class Later(Classifier):
        """A backbone that begins to train after an epoch."""

        def __init__(self):
            super().__init__()
            self.head = nn.Linear(4, 4)
            self.net.requires_grad_(False)

        def on_train_epoch_start(self):
            if self.current_epoch == 1:
                self.net.requires_grad_(True)

        def forward(self, x):
            return self.head(self.net(x))

    zoo.check(Later, pictures, "lightning", "later than")


def test_one_cycle():
    class LitResnet(Classifier):
        """The baseline of the CIFAR-10 tutorial."""

        def __init__(self):
            from torchvision.models import resnet18

            net = resnet18(weights=None, num_classes=4)
            net.conv1 = nn.Conv2d(3, 64, 3, 1, 1, bias=False)
            net.maxpool = nn.Identity()
            super().__init__(net)

        def configure_optimizers(self):
            optimizer = torch.optim.SGD(self.parameters(), lr=0.05, momentum=0.9, weight_decay=5e-4)
            schedule = torch.optim.lr_scheduler.OneCycleLR(
                optimizer, 0.1, total_steps=self.trainer.estimated_stepping_batches
            )
            return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}

    zoo.check(LitResnet, lambda: pictures(8), "lightning torchvision")


def test_second_order():
    class LBFGS(Classifier):
        def configure_optimizers(self):
            return torch.optim.LBFGS(self.parameters(), lr=0.1, max_iter=4)

    zoo.check(LBFGS, pictures, "lightning")


def test_contrastive_views():
    class SimCLR(L.LightningModule):
        """The tutorial on contrastive learning: a batch is a list of two views."""

        def __init__(self):
            super().__init__()
            self.net = nn.Sequential(nn.Flatten(), nn.Linear(768, 8), nn.ReLU(), nn.Linear(8, 8))

        def training_step(self, batch, batch_idx):
            imgs, _ = batch
            feats = self.net(torch.cat(imgs, dim=0))
            cosine = F.cosine_similarity(feats[:, None, :], feats[None, :, :], dim=-1)
            own = torch.eye(len(cosine), dtype=torch.bool)
            cosine = cosine.masked_fill(own, -9e15) / 0.07
            nll = -cosine[own.roll(len(cosine) // 2, 0)] + torch.logsumexp(cosine, dim=-1)
            self.log("train_loss", nll.mean())
            return nll.mean()

        def validation_step(self, batch, batch_idx):
            self.log("val_loss", self.training_step(batch, batch_idx))

        def configure_optimizers(self):
            optimizer = torch.optim.AdamW(self.parameters(), 5e-4, weight_decay=1e-4)
            schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, self.trainer.max_epochs, eta_min=1e-5)
            return [optimizer], [schedule]

    zoo.check(SimCLR, lambda: ([((a, b), 0) for a, b in torch.rand(N, 2, 3, 16, 16)],), "lightning")


def test_plateau_of_validation():
    class Autoencoder(Classifier):
        """The tutorial on autoencoders halves its rate when the validation loss stalls."""

        def configure_optimizers(self):
            optimizer = torch.optim.Adam(self.parameters(), 1e-3)
            schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.2, patience=0, threshold=0.5)
            return {"optimizer": optimizer, "lr_scheduler": schedule, "monitor": "val_loss"}

        def validation_step(self, batch, batch_idx):
            self.log("val_loss", F.cross_entropy(self(batch[0]), batch[1]))

    zoo.check(Autoencoder, pictures, "lightning", "set data.val_share")
    zoo.check(
        Autoencoder,
        pictures,
        "lightning",
        name="Autoencoder, data.val_share=0.2",
        val_share=0.2,
        validates=True,
        epochs=4,
    )


def test_weights_averaged_outside_of_parameters():
    class Averaged(Classifier):
        """torch's AveragedModel as a module of its own."""

        def __init__(self):
            super().__init__()
            ema = torch.optim.swa_utils.get_ema_multi_avg_fn(0.9)
            self.average = torch.optim.swa_utils.AveragedModel(self.net, multi_avg_fn=ema)

        def on_train_batch_end(self, outputs, batch, batch_idx):
            self.average.update_parameters(self.net)

        def configure_optimizers(self):
            return torch.optim.SGD(self.net.parameters(), 0.05)

    zoo.check(Averaged, pictures, "lightning torch")


def test_counters_of_its_own():
    class Warming(Classifier):
        """Counts its steps, and sets its own rate by them."""

        def __init__(self):
            super().__init__()
            self.seen, self.history = 0, []

        def training_step(self, batch, batch_idx):
            self.seen += 1
            self.history.append(self.seen)
            return super().training_step(batch, batch_idx) * min(1, len(self.history) / 8)

    zoo.check(Warming, pictures, "lightning")


# ------------------------------------------------------------------------------- torchvision's networks


@pytest.mark.parametrize(
    "name",
    ["resnet18", "mobilenet_v3_small", "shufflenet_v2_x0_5", "squeezenet1_1", "efficientnet_b0", "regnet_y_400mf"],
)
def test_torchvision(name):
    import torchvision

    def make():
        return Classifier(getattr(torchvision.models, name)(weights=None, num_classes=4))

    zoo.check(make, lambda: pictures(32), "torchvision", name=name, epochs=1)


def test_vision_transformer():
    from torchvision.models import VisionTransformer

    def make():
        return Classifier(VisionTransformer(16, 8, 2, 2, 16, 32, dropout=0.1, num_classes=4))

    zoo.check(make, pictures, "torchvision", name="VisionTransformer")


def test_segmentation():
    from torchvision.models.segmentation import lraspp_mobilenet_v3_large

    class LRASPP(L.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = lraspp_mobilenet_v3_large(weights=None, weights_backbone=None, num_classes=3)

        def training_step(self, batch, batch_idx):
            return F.cross_entropy(self.net(batch["image"])["out"], batch["mask"])

        def validation_step(self, batch, batch_idx):
            self.log("val_loss", self.training_step(batch, batch_idx))

        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters(), 1e-3)

    def data():
        return ([{"image": torch.rand(3, 32, 32), "mask": torch.randint(3, (32, 32))} for _ in range(N)],)

    zoo.check(LRASPP, data, "torchvision", epochs=1)


def test_detection():
    from torchvision.models.detection import ssdlite320_mobilenet_v3_large

    class SSDLite(L.LightningModule):
        """Batches are lists of pictures and of dictionaries; the loss is a sum of a dictionary."""

        def __init__(self):
            super().__init__()
            self.net = ssdlite320_mobilenet_v3_large(weights=None, weights_backbone=None, num_classes=3)

        def training_step(self, batch, batch_idx):
            images, targets = batch
            return sum(self.net(list(images), list(targets)).values())

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), 1e-3)

    def data():
        box = {"boxes": torch.tensor([[1.0, 2.0, 20.0, 30.0]]), "labels": torch.tensor([1])}
        return [(torch.rand(3, 40, 40), box) for _ in range(20)], lambda batch: tuple(zip(*batch, strict=True))

    zoo.check(SSDLite, data, "torchvision", epochs=1)

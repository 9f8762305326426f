"""Models as LightningModules: trained by a plain ``lightning.Trainer`` or, many clients at a time, by flcluster."""

from flcluster.modules.classifier import Classifier
from flcluster.modules.cnn import CNN
from flcluster.modules.generator import LatentGenerator, SemanticGenerator
from flcluster.modules.mlp import MLP
from flcluster.modules.resnet import ResNet18
from flcluster.modules.shufflenet import ShuffleNetV2
from flcluster.modules.vit import ViT

__all__ = ["CNN", "MLP", "Classifier", "LatentGenerator", "ResNet18", "SemanticGenerator", "ShuffleNetV2", "ViT"]

"""Models as LightningModules: trained by a plain ``lightning.Trainer`` or, many clients at a time, by flcluster."""

from .classifier import Classifier
from .cnn import CNN
from .generator import SemanticGenerator
from .latent_generator import LatentGenerator
from .mlp import MLP
from .resnet import ResNet18
from .shufflenet import ShuffleNetV2
from .vit import ViT

__all__ = ["CNN", "MLP", "Classifier", "LatentGenerator", "ResNet18", "SemanticGenerator", "ShuffleNetV2", "ViT"]

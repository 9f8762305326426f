"""Semantics without a language model; their results cannot be compared with the paper's.

Both read a class's name: `HashedNames` its spelling and what is commonly known of it, `Glyphs` the look of a character.
"""

import math
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from flcluster.errors import UserError, at_least
from flcluster.seeds import rng

from .semantics import Semantics, Vectors, unit_vectors

NUMBERS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")


FINE = 64
"""Pixels a side that a character is drawn at before it is made small."""


ATTRIBUTES = {
    # CIFAR-100's superclasses, as published.
    "aquatic mammal": "beaver, dolphin, otter, seal, whale",
    "fish": "aquarium fish, flatfish, ray, shark, trout",
    "flower": "orchid, poppy, rose, sunflower, tulip",
    "food container": "bottle, bowl, can, cup, plate",
    "fruit or vegetable": "apple, mushroom, orange, pear, sweet pepper",
    "electrical device": "clock, keyboard, lamp, telephone, television",
    "furniture": "bed, chair, couch, table, wardrobe",
    "insect": "bee, beetle, butterfly, caterpillar, cockroach",
    "large carnivore": "bear, leopard, lion, tiger, wolf",
    "large man-made outdoor thing": "bridge, castle, house, road, skyscraper",
    "large natural outdoor scene": "cloud, forest, mountain, plain, sea",
    "large omnivore or herbivore": "camel, cattle, chimpanzee, elephant, kangaroo",
    "medium-sized mammal": "fox, porcupine, possum, raccoon, skunk",
    "invertebrate": "crab, lobster, snail, spider, worm",
    "person": "baby, boy, girl, man, woman",
    "reptile": "crocodile, dinosaur, lizard, snake, turtle",
    "small mammal": "hamster, mouse, rabbit, shrew, squirrel",
    "tree": "maple tree, oak tree, palm tree, pine tree, willow tree",
    "vehicle 1": "bicycle, bus, motorcycle, pickup truck, train",
    "vehicle 2": "lawn mower, rocket, streetcar, tank, tractor",
    # CIFAR-10.
    "animal": "bird, cat, deer, dog, frog, horse",
    "four legs": "cat, deer, dog, frog, horse",
    "fur": "cat, deer, dog, horse",
    "pet": "cat, dog",
    "hooves": "deer, horse",
    "machine": "airplane, automobile, ship, truck",
    "wheels": "airplane, automobile, truck",
    "road": "automobile, truck",
    "flies": "airplane, bird",
    # FashionMNIST.
    "garment": "t-shirt/top, trouser, pullover, dress, coat, shirt",
    "upper body": "t-shirt/top, pullover, dress, coat, shirt",
    "legs": "trouser, dress",
    "long sleeves": "pullover, coat, shirt",
    "footwear": "sandal, sneaker, ankle boot",
    "closed shoe": "sneaker, ankle boot",
    "open in front": "coat, shirt",
    "carried": "bag",
}
"""Which names have an attribute: CIFAR-100's superclasses, kinds of animals, machines and clothes."""


@dataclass(frozen=True, kw_only=True)
class HashedNames(Semantics):
    """A name's three-letter pieces and attributes, projected at random.

    Classes that share pieces (shirt, T-shirt) or attributes (CIFAR-100's superclass, say) are close, others nearly at
    right angles. Every piece and every attribute has a Gaussian vector of its own, which its text determines; a name is
    the sum of its pieces' vectors and the sum of its attributes', both weighing the same. So it is the same in all
    runs, whatever the other names are.
    """

    dim: int = 512
    """Dimensions; as many as CLIP's vectors have by default."""

    def __post_init__(self) -> None:
        at_least("semantics.dim", self.dim, 1)

    @property
    def title(self) -> str:
        """Say that it is a fallback."""
        return "hashed names (fallback)"

    def vectors(self, names: Sequence[str], seed: int = 0) -> Vectors:
        """Add up the vectors of each name's pieces and attributes."""
        rows = [self._sum("piece", pieces(name)) + self._sum("attribute", attributes(name)) for name in names]
        return unit_vectors(np.stack(rows), "HashedNames")

    def _sum(self, kind: str, texts: Sequence[str]) -> NDArray[np.float64]:
        """Add up one Gaussian vector per text, to an expected length that does not depend on how many there are."""
        draws = [rng(0, kind, zlib.crc32(text.encode())).standard_normal(self.dim) for text in texts]
        return np.sum([np.zeros(self.dim), *draws], axis=0) / math.sqrt(max(len(draws), 1))


@dataclass(frozen=True, kw_only=True)
class Glyphs(Semantics):
    """For letters and digits, whose names say little of their looks: a small picture of each, in print."""

    size: int = 16
    """Pixels a side; a vector has size² values."""

    def __post_init__(self) -> None:
        at_least("semantics.size", self.size, 2)

    @property
    def title(self) -> str:
        """Say that it is a fallback."""
        return "glyphs (fallback)"

    def vectors(self, names: Sequence[str], seed: int = 0) -> Vectors:
        """Draw each name's character; less their mean, so that blank paper is no likeness."""
        if words := [name for name in names if character(name) is None]:
            raise UserError(
                f"algorithm.semantics: Glyphs draws letters and digits, but the classes are called {', '.join(words)}; "
                "use ShippedNames"
            )
        pictures = np.stack([glyph(character(name) or "", self.size).ravel() for name in names])
        return unit_vectors(pictures - pictures.mean(1, keepdims=True), "Glyphs")


def plain(name: str) -> str:
    """Return a name as one would say it.

    >>> plain("aquarium_fish"), plain("T-shirt/top")
    ('aquarium fish', 't-shirt/top')
    """
    return name.replace("_", " ").strip().lower()


def character(name: str) -> str | None:
    """Return the letter or digit that a name stands for; None if it is a word.

    >>> character("seven"), character("7"), character("Q"), character("cat")
    ('7', '7', 'Q', None)
    """
    if plain(name) in NUMBERS:
        return str(NUMBERS.index(plain(name)))
    return name if len(name) == 1 and name.isascii() and name.isalnum() else None


def pieces(name: str) -> list[str]:
    """Return the three-letter pieces of a name, blanks at its ends included.

    >>> pieces("cat"), pieces("Q")
    ([' ca', 'cat', 'at '], [' Q '])
    """
    word = f" {character(name) or plain(name)} "
    return [word[at : at + 3] for at in range(len(word) - 2)]


def attributes(name: str) -> list[str]:
    """Return what is commonly known of a name; nothing of most.

    >>> attributes("Sneaker"), attributes("oak_tree"), attributes("seven")
    (['footwear', 'closed shoe'], ['tree'], [])
    """
    return [attribute for attribute, names in ATTRIBUTES.items() if plain(name) in names.split(", ")]


def glyph(letter: str, size: int) -> NDArray[np.float64]:
    """Return a character as grey values in [0, 1], ``[size, size]``, in the font that matplotlib brings along.

    All are drawn at one scale on one baseline, so that ``c`` and ``C`` differ.
    """
    import matplotlib
    from PIL import Image, ImageDraw, ImageFont

    font = ImageFont.truetype(Path(matplotlib.get_data_path(), "fonts", "ttf", "DejaVuSans.ttf"), FINE * 3 // 4)
    picture = Image.new("L", (FINE, FINE))
    ImageDraw.Draw(picture).text((FINE // 2, FINE * 3 // 4), letter, fill=255, font=font, anchor="ms")
    return np.asarray(picture.resize((size, size), Image.Resampling.BILINEAR), dtype=np.float64) / 255

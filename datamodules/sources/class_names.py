"""What the classes of the datasets are called, in the order of their labels: what pictures show and semantics read."""

import string

DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
"""Of MNIST and scikit-learn's digits."""


FASHION_MNIST = (
    *("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat"),
    *("Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"),
)


CIFAR10 = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")


CIFAR100_GROUPS = {
    "aquatic_mammals": ("beaver", "dolphin", "otter", "seal", "whale"),
    "fish": ("aquarium_fish", "flatfish", "ray", "shark", "trout"),
    "flowers": ("orchid", "poppy", "rose", "sunflower", "tulip"),
    "food_containers": ("bottle", "bowl", "can", "cup", "plate"),
    "fruit_and_vegetables": ("apple", "mushroom", "orange", "pear", "sweet_pepper"),
    "household_electrical_devices": ("clock", "keyboard", "lamp", "telephone", "television"),
    "household_furniture": ("bed", "chair", "couch", "table", "wardrobe"),
    "insects": ("bee", "beetle", "butterfly", "caterpillar", "cockroach"),
    "large_carnivores": ("bear", "leopard", "lion", "tiger", "wolf"),
    "large_man-made_outdoor_things": ("bridge", "castle", "house", "road", "skyscraper"),
    "large_natural_outdoor_scenes": ("cloud", "forest", "mountain", "plain", "sea"),
    "large_omnivores_and_herbivores": ("camel", "cattle", "chimpanzee", "elephant", "kangaroo"),
    "medium_mammals": ("fox", "porcupine", "possum", "raccoon", "skunk"),
    "non-insect_invertebrates": ("crab", "lobster", "snail", "spider", "worm"),
    "people": ("baby", "boy", "girl", "man", "woman"),
    "reptiles": ("crocodile", "dinosaur", "lizard", "snake", "turtle"),
    "small_mammals": ("hamster", "mouse", "rabbit", "shrew", "squirrel"),
    "trees": ("maple_tree", "oak_tree", "palm_tree", "pine_tree", "willow_tree"),
    "vehicles_1": ("bicycle", "bus", "motorcycle", "pickup_truck", "train"),
    "vehicles_2": ("lawn_mower", "rocket", "streetcar", "tank", "tractor"),
}
"""CIFAR-100's twenty superclasses, in the order of its coarse labels, and the five classes of each."""


CIFAR100 = tuple(sorted(name for group in CIFAR100_GROUPS.values() for name in group))
"""CIFAR-100's classes; the official order is that of the alphabet."""


CIFAR100_COARSE = tuple(CIFAR100_GROUPS)


CIFAR100_COARSE_OF = tuple(
    next(coarse for coarse, group in enumerate(CIFAR100_GROUPS.values()) if name in group) for name in CIFAR100
)
"""The coarse label of each of CIFAR-100's classes."""


_BYCLASS = tuple(string.digits + string.ascii_uppercase + string.ascii_lowercase)


_BYMERGE = tuple(name for name in _BYCLASS if name not in "cijklmopsuvwxyz")


EMNIST = {
    "byclass": _BYCLASS,
    "bymerge": _BYMERGE,
    "balanced": _BYMERGE,
    "letters": tuple(string.ascii_lowercase),
    "digits": tuple(string.digits),
    "mnist": tuple(string.digits),
}
"""Characters as written, by split; ``letters`` has capital and small letters under one label. FEMNIST is byclass."""


KNOWN = {
    "Digits": DIGITS,
    "MNIST": DIGITS,
    "FashionMNIST": FASHION_MNIST,
    "CIFAR10": CIFAR10,
    "CIFAR100": CIFAR100,
}


def class_names(dataset: str, num_classes: int, split: str | None = None) -> tuple[str, ...]:
    """Return what the classes of a dataset are called; ``class 0``, ``class 1``, … if we do not know it.

    Args:
        dataset: Class or class path of the dataset, such as ``torchvision.datasets.CIFAR10``.
        num_classes: Number of classes.
        split: Which of EMNIST's splits.

    >>> class_names("torchvision.datasets.CIFAR10", 10)[:2], class_names("Mine", 2)
    (('airplane', 'automobile'), ('class 0', 'class 1'))
    """
    name = dataset.rpartition(".")[2]
    found = EMNIST.get(split or "", ()) if name == "EMNIST" else KNOWN.get(name, ())
    return found if len(found) == num_classes else tuple(f"class {label}" for label in range(num_classes))

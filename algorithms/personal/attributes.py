"""What is commonly known of class names without any model: CIFAR-100's superclasses, kinds of animals and clothes."""

_MEMBERS = {
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


ATTRIBUTES: dict[str, list[str]] = {}
"""The attributes of each name, in small letters with blanks between words."""


for _attribute, _names in _MEMBERS.items():
    for _name in _names.split(", "):
        ATTRIBUTES.setdefault(_name, []).append(_attribute)

"""What a class name says: as a sentence for a language model, as a character to draw, as pieces to hash."""

from .attributes import ATTRIBUTES

NUMBERS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")


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


def sentence(name: str) -> str:
    """Return what a language model is asked for a class.

    Words get the wording of CLIP's authors, which also brings more of CIFAR-100's superclasses together than the bare
    name does. A bare letter or digit means little to a language model, so it is told what it looks at. Quotation marks
    keep the letter ``a`` from being read as an article.

    >>> sentence("oak_tree"), sentence("q"), sentence("7")
    ('a photo of an oak tree', 'the small letter "q"', 'the number seven')
    """
    drawn = character(name)
    if drawn is None:
        word = plain(name)
        return f"a photo of {'an' if word[:1] in tuple('aeiou') else 'a'} {word}"
    if drawn.isdigit():
        return f"the number {NUMBERS[int(drawn)]}"
    return f'the {"capital" if drawn.isupper() else "small"} letter "{drawn}"'


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
    return list(ATTRIBUTES.get(plain(name), ()))

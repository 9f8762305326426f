"""Open Images by FedScale's clients: the most frequent classes, and clients that have enough of them."""

from collections import Counter, defaultdict
from pathlib import Path

from flcluster.datamodules.sources.checks import MOST_CLASSES, whole_number
from flcluster.datamodules.traces.manifest import ManifestLine, read_csv
from flcluster.errors import UserError, brief

TOP = 100


FEWEST = 10


COLUMNS = ("client_id", "sample_path", "label_name", "label_id")


def open_images(source: Path) -> tuple[list[ManifestLine], list[str]]:
    """Read ``client_data_mapping/train.csv`` of FedScale's ``openImage`` archive and the images in ``train``.

    The file has the columns client_id, sample_path, label_name and label_id. The 100 most frequent classes are kept
    (ties go to the smaller id), and of the clients those that have at least 10 of them, as in FIELDING. There are no
    times: use TraceLabelBuckets. The test file is not read, since it is not known whether its client ids mean the same
    people; the stream parts each client's samples into train and test itself.

    The columns were read in code that uses the file, not in the file.
    """
    path = source / "client_data_mapping" / "train.csv"
    if not path.is_file():
        raise UserError(f"{source.resolve()} has no client_data_mapping/train.csv, which FedScale's archive holds")
    counts: Counter[int] = Counter()
    names: dict[int, str] = {}
    for line, (_, _, name, label) in read_csv(path, COLUMNS):
        number = whole_number(label)
        if number is None or number >= MOST_CLASSES:
            told = f"the label_id {brief(label)} is no whole number from 0 to {MOST_CLASSES - 1}"
            raise UserError(f"{path}, line {line}: {told}")
        counts[number] += 1
        names.setdefault(number, name)
    top = sorted(sorted(counts, key=lambda label: (-counts[label], label))[:TOP])
    kept = set(_clients(path, set(top)))
    titles = _titles(top, names)
    rows = [
        ManifestLine(f"train/{image}", titles[int(label)], client)
        for _, (client, image, _, label) in read_csv(path, COLUMNS)
        if client in kept and int(label) in titles
    ]
    return sorted(rows, key=lambda row: row.client), list(titles.values())


def _clients(path: Path, top: set[int]) -> list[str]:
    """Return the clients with samples of enough of the top classes."""
    held: defaultdict[str, set[int]] = defaultdict(set)
    for line, (client, image, _, label) in read_csv(path, COLUMNS):
        if not client or not image:
            raise UserError(f"{path}, line {line}: client_id and sample_path must not be empty")
        if int(label) in top:
            held[client].add(int(label))
    return [client for client, labels in held.items() if len(labels) >= FEWEST]


def _titles(top: list[int], names: dict[int, str]) -> dict[int, str]:
    """Name the classes; by their ids where names are missing or not unique."""
    unique = {name for name, count in Counter(names[label] for label in top).items() if name and count == 1}
    return {label: names[label] if names[label] in unique else str(label) for label in top}

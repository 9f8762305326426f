import numpy as np
from PIL import Image

from flcluster.datamodules import RotatedDigits
from flcluster.datamodules.pictures.clients import class_shares, cluster_counts, draw_clients


def test_numbers_behind_the_picture():
    data = RotatedDigits(num_clusters=3)
    shards = [data.shard(client) for client in range(5)]
    counts, shares = cluster_counts(shards), class_shares(shards, 10)
    for client, shard in enumerate(shards):
        assert counts[client].tolist() == [len(index) for _, index in shard.train.parts]
        _, labels = shard.train.tensors()
        expected = [(labels == c).float().mean().item() for c in range(10)]
        np.testing.assert_allclose(shares[client], expected, atol=1e-6)


def test_the_picture_shows_every_clusters_colour(tmp_path):
    path = draw_clients(RotatedDigits(num_clusters=3), tmp_path / "new" / "clients.png", cycle=2, max_clients=20)
    image = np.asarray(Image.open(path).convert("RGB")).reshape(-1, 3)
    assert [file.name for file in path.parent.iterdir()] == ["clients.png"]
    for colour in ((0, 114, 178), (213, 94, 0), (0, 158, 115)):
        assert (abs(image.astype(int) - colour).max(1) <= 1).sum() > 1000
    assert (abs(image.astype(int) - (230, 159, 0)).max(1) <= 1).sum() == 0  # no fourth cluster


def test_one_cluster_and_more_clients_than_fit(tmp_path):
    path = draw_clients(RotatedDigits(num_clusters=1, num_clients=50), tmp_path / "c.png", max_clients=10)
    assert Image.open(path).size[0] > 600

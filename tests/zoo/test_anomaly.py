"""anomalib: some detectors train, some only look at their data once."""

import pytest
import torch
import zoo

pytestmark = pytest.mark.zoo
N = 20
BARE = {"pre_processor": False, "post_processor": False, "evaluator": False, "visualizer": False}


def pictures(size=64):
    from anomalib.data import ImageItem
    from anomalib.data.dataclasses.torch import ImageBatch

    held = [
        ImageItem(
            image=torch.rand(3, size, size),
            gt_label=torch.tensor(False),
            gt_mask=torch.zeros(size, size, dtype=torch.bool),
        )
        for i in range(N)
    ]
    return held, ImageBatch.collate


SMALL = {
    "Cflow": {"backbone": "resnet18", "pre_trained": False, "coupling_blocks": 2, "fiber_batch_size": 16},
    "Stfpm": {},
}
WHOLE = {
    "Fastflow": {"pre_trained": False, "flow_steps": 2},
    "ReverseDistillation": {"backbone": "resnet18", "pre_trained": False},
    "Ganomaly": {"batch_size": zoo.SIZE, "n_features": 8, "latent_vec_size": 8},
}
METRIC = {"Fastflow": "image_AUROC"}
ONCE = {
    "Padim": {"pre_trained": False},
    "Patchcore": {"backbone": "resnet18", "pre_trained": False},
    "Dfm": {"backbone": "resnet18", "pre_trained": False},
}


@pytest.fixture(autouse=True)
def nothing_is_downloaded(monkeypatch):
    """Backbones with random weights, also where a detector has no argument for it."""
    import timm

    create = timm.create_model
    monkeypatch.setattr(timm, "create_model", lambda *args, **kwargs: create(*args, **{**kwargs, "pretrained": False}))


@pytest.mark.parametrize("name", SMALL)
def test_detectors(name):
    from anomalib import models

    zoo.check(lambda: getattr(models, name)(**SMALL[name], **BARE), pictures, "anomalib", name=name, epochs=1)


@pytest.mark.parametrize("name", WHOLE)
def test_detectors_with_all_their_parts(name):
    """With what prepares pictures, finds thresholds and scores."""
    from anomalib import models

    data = lambda: pictures(256)  # noqa: E731
    zoo.check(
        lambda: getattr(models, name)(**WHOLE[name]),
        data,
        "anomalib",
        name=f"{name}, all parts",
        epochs=1,
        metric=METRIC.get(name),
    )


@pytest.mark.parametrize("name", ONCE)
def test_what_does_not_train(name):
    from anomalib import models

    given = {**ONCE[name], **BARE}
    zoo.check(lambda: getattr(models, name)(**given), pictures, "anomalib", "nothing would train", name=name, epochs=1)

import numpy as np
import pytest
import torch
from PIL import Image
from torchvision.transforms import InterpolationMode
from torchvision.transforms import functional as F

from flcluster.datamodules import Images, ImageSource


def random_images(n=6, channels=3, size=9):
    pixels = np.random.default_rng(0).integers(0, 256, (n, channels, size, size), dtype=np.uint8)
    return pixels, Images(torch.from_numpy(pixels), torch.arange(n) % 3)


@pytest.mark.parametrize("quarter", [0, 1, 2, 3])
def test_quarter_turns_are_numpys_and_normalised(quarter):
    pixels, images = random_images()
    mean, std = (0.1, 0.2, 0.3), (0.5, 0.25, 2.0)
    index = torch.tensor([4, 0, 4])
    x, y = ImageSource(images, mean, std, 90.0 * quarter).take(index)
    turned = np.rot90(pixels[index.numpy()], quarter, axes=(2, 3)) / 255
    expected = (turned - np.reshape(mean, (3, 1, 1))) / np.reshape(std, (3, 1, 1))
    assert x.dtype == torch.float32 and y.dtype == torch.int64 and x.is_contiguous()
    np.testing.assert_allclose(x.numpy(), expected, atol=1e-6)
    assert y.tolist() == [1, 0, 1]


@pytest.mark.parametrize("angle", [60.0, 120.0, 300.0])
def test_other_angles_are_bilinear_and_black_outside(angle):
    smooth = np.zeros((1, 1, 41, 41), np.uint8)
    rows, columns = np.mgrid[:41, :41]
    smooth[0, 0] = (3 * rows + 2 * columns).clip(0, 255)
    x, _ = ImageSource(Images(torch.from_numpy(smooth), torch.zeros(1).long()), (0.0,), (1.0,), angle).take(
        torch.tensor([0])
    )
    by_pil = np.asarray(Image.fromarray(smooth[0, 0]).rotate(angle, Image.Resampling.BILINEAR)) / 255
    inner = (rows - 20) ** 2 + (columns - 20) ** 2 < 18**2
    np.testing.assert_allclose(x[0, 0].numpy()[inner], by_pil[inner], atol=1.5 / 255)
    by_torchvision = F.rotate(torch.from_numpy(smooth) / 255, angle, InterpolationMode.BILINEAR)
    torch.testing.assert_close(x, by_torchvision)
    assert x[0, 0, 0, 0] == 0 and x[0, 0, -1, -1] == 0


def test_rotation_is_counter_clockwise_at_every_angle():
    pixels = torch.zeros(1, 1, 21, 21, dtype=torch.uint8)
    pixels[0, 0, 9:12, 18:21] = 255  # to the right
    images = Images(pixels, torch.zeros(1).long())
    for angle in (45.0, 90.0):
        x = ImageSource(images, (0.0,), (1.0,), angle).take(torch.tensor([0]))[0][0, 0]
        assert x[:10].sum() > 0.9 * x.sum()  # now above the middle


def test_rotations_share_memory_and_leave_it_alone():
    pixels, images = random_images()
    sources = [ImageSource(images, (0.5,) * 3, (0.5,) * 3, angle) for angle in (0.0, 60.0, 90.0)]
    for source in sources:
        source.take(torch.arange(6))[0].fill_(7)
        assert source.images.pixels.data_ptr() == images.pixels.data_ptr()
        assert len(source) == 6
    assert (images.pixels.numpy() == pixels).all()


def test_maximum_is_the_value_of_one():
    images = Images(torch.tensor([[[[0, 8], [16, 4]]]], dtype=torch.uint8), torch.zeros(1).long(), maximum=16)
    x, _ = ImageSource(images, (0.0,), (1.0,)).take(torch.tensor([0]))
    assert x.flatten().tolist() == [0, 0.5, 1, 0.25]


def test_resized_keeps_flat_images_flat_and_the_same_size_untouched():
    images = Images(torch.full((5, 1, 28, 28), 77, dtype=torch.uint8), torch.arange(5))
    resized = images.resized(32)
    assert resized.pixels.shape == (5, 1, 32, 32) and resized.pixels.dtype == torch.uint8
    assert (resized.pixels == 77).all() and resized.labels.tolist() == [0, 1, 2, 3, 4]
    assert images.resized(28) is images

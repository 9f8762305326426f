"""Pictures of letters and digits, in the font that matplotlib brings along."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

FINE = 64
"""Pixels a side that a character is drawn at before it is made small."""


def glyph(character: str, size: int) -> NDArray[np.float64]:
    """Return a character as grey values in [0, 1], ``[size, size]``.

    All are drawn at one scale on one baseline, so that ``c`` and ``C`` differ.
    """
    import matplotlib
    from PIL import Image, ImageDraw, ImageFont

    font = ImageFont.truetype(Path(matplotlib.get_data_path(), "fonts", "ttf", "DejaVuSans.ttf"), FINE * 3 // 4)
    picture = Image.new("L", (FINE, FINE))
    ImageDraw.Draw(picture).text((FINE // 2, FINE * 3 // 4), character, fill=255, font=font, anchor="ms")
    return np.asarray(picture.resize((size, size), Image.Resampling.BILINEAR), dtype=np.float64) / 255

"""What the robots of these tests see."""

import io

from PIL import Image

import sequence_ai


def _jpeg():
    file = io.BytesIO()
    Image.new("RGB", (8, 8), (200, 30, 30)).save(file, "JPEG")
    return file.getvalue()


FRAME = _jpeg()


def seen(number):
    """What a robot sees at its nth look."""
    return sequence_ai.observation(images={"front": FRAME}, joints=[float(number)], instruction="count")

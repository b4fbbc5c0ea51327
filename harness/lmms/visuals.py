"""Visuals of lmms-eval's documents as media."""

import hashlib
from pathlib import Path

from PIL import Image

from harness.errors import UsageError
from harness.frame_cache import Loader
from harness.image_file import FORMATS, rgb
from harness.media import Media, loaded_image, open_image, pixels
from harness.video.media import video_file

IMAGE_FILES = {f".{name.lower()}" for name in FORMATS} | {".jpg"}


def medium(visual: object, load: Loader | None = None) -> Media:
    """Return an image, or the file of an image or a video, as a medium.

    Args:
        visual: What `doc_to_visual` or a message has.
        load: Decodes the image again where `visual` is one in memory; None: it is kept.

    Raises:
        UsageError: it is something else, such as a sound.
    """
    if isinstance(visual, Image.Image):
        frame = rgb(visual)
        name = hashlib.blake2b(frame.tobytes(), digest_size=16).hexdigest()
        if load is None:
            return pixels([frame], times=[0.0], is_video=False, id=name)
        return loaded_image(load, size=visual.size, id=name)
    if isinstance(visual, str):
        path = Path(visual)
        return open_image(path) if path.suffix.lower() in IMAGE_FILES else video_file(path)
    raise UsageError(
        "a document of lmms-eval",
        expected="images, or files of images or videos",
        found=repr(visual)[:80],
    )

"""Conversion of the visuals of lmms-eval's documents (images, paths of files) to `Media`."""

import hashlib
from pathlib import Path

from PIL import Image

from harness.errors import UsageError
from harness.frame_cache import Loader
from harness.image_file import FORMATS, rgb
from harness.media import Media, loaded_image, open_image, pixels
from harness.video.media import video_file

IMAGE_SUFFIXES = {f".{name.lower()}" for name in FORMATS} | {".jpg"}


def medium(visual: object, load: Loader | None = None) -> Media:
    """Return an image, or the file of an image or a video, as a medium.

    Args:
        visual: An item of `doc_to_visual`, or of a message.
        load: Decodes an image in memory again when it is needed; None: the image is kept.

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
        return open_image(path) if path.suffix.lower() in IMAGE_SUFFIXES else video_file(path)
    raise UsageError(
        "a document of lmms-eval",
        expected="images, or files of images or videos",
        found=repr(visual)[:80],
    )

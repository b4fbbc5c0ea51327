"""One sample in images and in words: media, ground truth and answer at thumbnail size."""

import base64
import io
from collections.abc import Sequence

import numpy as np
from PIL import Image

from harness import overlay
from harness.masks import BoolArray, Rle
from harness.media import Frame, Media
from harness.overlay import Colour
from harness.types import Answer, Prediction, Sample

WIDTH = 260  # pixels of an image's thumbnail
FRAME_WIDTH = 160  # pixels of one frame in a strip
FRAMES = 6
QUALITY = 80
GAP = (128, 128, 128)  # between frames: seen on a light page and on a dark one


def views(sample: Sample, prediction: Prediction | None) -> dict[str, str]:
    """The first medium as JPEG data URIs: plain, with the ground truth, with the prediction.

    `ground_truth` is left out where the ground truth cannot be drawn, `prediction` where neither it
    nor the ground truth can. In `prediction` the answer is tinted and the ground truth outlined. Of
    a video, a strip of frames is drawn.
    """
    if not sample.query.media:
        return {}
    media = sample.query.media[0]
    ground_truth = sample.target.answer if sample.target else None
    answer = prediction.answer if prediction else None
    found = {"image": data_uri(_strip(media, []))}
    if drawable(ground_truth):
        found["ground_truth"] = data_uri(
            _strip(media, [(ground_truth, overlay.GROUND_TRUTH, True)])
        )
    if drawable(ground_truth) or drawable(answer):
        layers = [(answer, overlay.PREDICTION, True), (ground_truth, overlay.GROUND_TRUTH, False)]
        found["prediction"] = data_uri(_strip(media, layers))
    return found


def drawable(answer: Answer | None) -> bool:
    """Return True if an answer has a part that lies in the image."""
    return answer is not None and any(
        part is not None
        for part in (
            answer.masks,
            answer.soft_masks,
            answer.boxes,
            answer.points,
            answer.box_track,
        )
    )


def data_uri(image: Frame) -> str:
    """An image as a JPEG inside a URI."""
    encoded = io.BytesIO()
    Image.fromarray(image).save(encoded, format="JPEG", quality=QUALITY)
    return "data:image/jpeg;base64," + base64.b64encode(encoded.getvalue()).decode("ascii")


def _strip(media: Media, layers: Sequence[tuple[Answer | None, Colour, bool]]) -> Frame:
    width = FRAME_WIDTH if len(media) > 1 else WIDTH
    shown = []
    for index in overlay.spread(len(media), FRAMES):
        image = overlay.thumbnail(media.frame(index), width=width)
        for answer, colour, filled in layers:
            if answer is not None:
                image = draw(
                    image, answer, index=index, size=media.size, colour=colour, filled=filled
                )
        shown.append(image)
    return overlay.side_by_side(shown, gap=3, background=GAP)


def draw(
    image: Frame,
    answer: Answer,
    *,
    index: int,
    size: tuple[int, int],
    colour: Colour,
    filled: bool,
) -> Frame:
    """Draw what an answer says about frame `index` on a thumbnail of it.

    Args:
        image: The thumbnail.
        answer: Its coordinates are pixels of the original.
        index: Which frame of the media this is.
        size: (width, height) of the original.
        colour: Of everything drawn.
        filled: Tint masks; otherwise outline them.
    """
    across, down = image.shape[1] / size[0], image.shape[0] / size[1]
    line = 2 if filled or image.shape[1] > FRAME_WIDTH else 1
    if (mask := _mask(answer, index)) is not None:
        small = shrink(mask, image.shape[:2])
        image = (
            overlay.tint(image, small, colour=colour)
            if filled
            else overlay.outline(image, small, colour=colour, width=line)
        )
    track = answer.box_track or ()
    tracked = track[index] if index < len(track) else None
    boxes = (*(answer.boxes or () if index == 0 else ()), *([tracked] if tracked else ()))
    for box in boxes:
        scaled = (box.left * across, box.top * down, box.right * across, box.bottom * down)
        image = overlay.rectangle(image, scaled, colour=colour, width=line)
    for point in answer.points or () if index == 0 else ():
        place = (point.x * across, point.y * down)
        image = overlay.dot(image, place, colour=colour, radius=2 + line)
    return image


def _mask(answer: Answer, index: int) -> BoolArray | None:
    if answer.masks is not None:
        return answer.masks[index].to_array() if index < len(answer.masks) else None
    if answer.soft_masks is not None and index < len(answer.soft_masks):
        return answer.soft_masks[index].to_array() >= np.float32(0.5)
    return None


def shrink(mask: BoolArray, shape: tuple[int, ...]) -> BoolArray:
    """Shrink a mask to a thumbnail's height × width; small objects keep at least one pixel."""
    if mask.shape == shape:
        return mask
    levels = Image.fromarray(mask.astype(np.uint8) * 255)
    cover = np.asarray(levels.resize((shape[1], shape[0]), Image.Resampling.BOX))
    half = cover >= 128
    return half if half.any() else cover > 0


def describe_answer(answer: Answer) -> str:
    """An answer in words: `2 boxes`, `mask of 12.5 % of the image`, `choice B`."""
    parts = ["no target"] if answer.no_target else []
    if answer.masks is not None:
        parts.append(_say_masks(answer.masks))
    elif answer.soft_masks is not None:
        parts.append(f"soft masks of {len(answer.soft_masks)} frame(s)")
    if answer.boxes is not None:
        parts.append(_count(len(answer.boxes), "box", "boxes"))
    if answer.points is not None:
        parts.append(_count(len(answer.points), "point", "points"))
    if answer.box_track is not None:
        seen = sum(box is not None for box in answer.box_track)
        parts.append(f"a box in {seen} of {len(answer.box_track)} frames")
    if answer.boxes_3d is not None:
        parts.append(_count(len(answer.boxes_3d), "3D box", "3D boxes"))
    if answer.count is not None:
        parts.append(f"count {answer.count}")
    if answer.choice is not None:
        parts.append(f"choice {answer.choice}")
    if answer.number is not None:
        parts.append(f"number {answer.number:g}")
    if answer.interval is not None:
        parts.append(f"{answer.interval.start:.1f} s to {answer.interval.end:.1f} s")
    if answer.text is not None:
        parts.append(f"“{answer.text}”")
    return ", ".join(parts)


def _say_masks(masks: Sequence[Rle]) -> str:
    if len(masks) == 1:
        share = 100 * masks[0].area / (masks[0].height * masks[0].width)
        return f"mask of {share:.1f} % of the image" if share else "empty mask"
    seen = sum(mask.area > 0 for mask in masks)
    return f"masks in {seen} of {len(masks)} frames"


def _count(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"

"""Refuse rotated boxes: CVAT's export in COCO's form has their sides before the rotation.

Readers of COCO's annotations and results call it with each record; the message has a command that
replaces each rotated box by the upright box around it.
"""

from collections.abc import Mapping

from harness.errors import DataError
from harness.foreign_lines import command

AROUND = (
    "map(if .attributes.rotation then (.attributes.rotation * 0.017453292519943295) as $turn "
    "| ($turn | cos | fabs) as $cos | ($turn | sin | fabs) as $sin | .bbox as [$x, $y, $w, $h] "
    "| ($w * $cos + $h * $sin) as $width | ($w * $sin + $h * $cos) as $height "
    "| .bbox = [$x + ($w - $width) / 2, $y + ($h - $height) / 2, $width, $height] "
    "| del(.attributes.rotation) else . end)"
)
"""jq program that replaces each rotated box by the upright box around it, with the same centre."""


def refuse_rotated(
    record: Mapping[str, object], where: str, name: str = "FILE", under: str = ".annotations"
) -> None:
    """Raise DataError if the box of an annotation is given before its rotation.

    Args:
        record: The annotation; a polygon or a mask in it is rotated.
        where: The record's file and number, for messages.
        name: The name of its file.
        under: The jq path of the list of annotations in the file; "" if the file is the list.
    """
    attributes = record.get("attributes")
    degrees = attributes.get("rotation") if isinstance(attributes, Mapping) else None
    if not isinstance(degrees, (int, float)) or not degrees % 180 or record.get("segmentation"):
        return
    conversion = command(f"{under} |= {AROUND}" if under else AROUND, name)
    raise DataError(
        f"{where}: 'bbox'",
        expected="the box around the object",
        found=f"its sides before a rotation by {degrees:g} degrees",
        fix=f"{conversion} writes the boxes around rotated ones.",
    )

"""Superpixels: small regions of one colour, the unit in which saliency is computed.

The method is SLIC (Achanta, Shaji, Smith, Lucchi, Fua, Süsstrunk: "SLIC Superpixels Compared to
State-of-the-art Superpixel Methods", TPAMI 2012): k-means in Lab colour and place, where a pixel
looks only at the nine centres around it. Islands are left as they are: saliency averages over
regions and does not need connected ones.
"""

from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from harness.media import Frame

Floats = NDArray[np.float64]
Labels = NDArray[np.int32]

COMPACTNESS = 20.0  # Lab distance that weighs as much as one cell of the grid; SLIC's m
ITERATIONS = 5
NEIGHBOURS = tuple((row, column) for row in (-1, 0, 1) for column in (-1, 0, 1))


@dataclass(frozen=True, slots=True)
class Superpixels:
    """A partition of an image into `count` regions, none of them empty."""

    labels: Labels
    """height × width, from 0 to count - 1."""
    colours: Floats
    """count × 3, mean CIELAB (L from 0 to 100)."""
    centres: Floats
    """count × 2, mean (x, y) divided by the image's longest side."""

    @property
    def count(self) -> int:
        """Number of regions."""
        return len(self.colours)

    def mean(self, field: NDArray[np.floating]) -> Floats:
        """The mean over each region of a height × width field; count values."""
        flat = self.labels.ravel()
        total = np.bincount(flat, field.ravel().astype(np.float64), self.count)
        return total / np.bincount(flat, minlength=self.count)

    def paint(self, values: Floats) -> NDArray[np.float32]:
        """The height × width field that has each region's value."""
        return values.astype(np.float32)[self.labels]

    def border(self) -> NDArray[np.bool_]:
        """Mask of the regions that touch the image's border; `count` values."""
        edge = (self.labels[0], self.labels[-1], self.labels[:, 0], self.labels[:, -1])
        touching = np.zeros(self.count, dtype=np.bool_)
        touching[np.concatenate(edge)] = True
        return touching

    def adjacent(self) -> NDArray[np.bool_]:
        """Adjacency: True where two different regions share an edge; count × count, symmetric."""
        near = np.zeros((self.count, self.count), dtype=np.bool_)
        near[self.labels[:, :-1], self.labels[:, 1:]] = True
        near[self.labels[:-1], self.labels[1:]] = True
        near |= near.T
        np.fill_diagonal(near, val=False)
        return near


def superpixels(image: Frame, count: int) -> Superpixels:
    """Partition an RGB image into about `count` regions, at least one."""
    lab = cv2.cvtColor(image.astype(np.float32) / 255, cv2.COLOR_RGB2LAB)
    height, width = lab.shape[:2]
    cell = max(1.0, (height * width / count) ** 0.5)
    rows, columns = max(1, round(height / cell)), max(1, round(width / cell))
    y, x = np.mgrid[:height, :width].astype(np.float32)
    features = np.dstack([lab, x * (COMPACTNESS / cell), y * (COMPACTNESS / cell)])
    home = ((y * rows).astype(np.int32) // height, (x * columns).astype(np.int32) // width)
    labels = home[0] * columns + home[1]
    for _ in range(ITERATIONS):
        labels = _assign_pixels(features, _centres(features, labels, rows * columns), home, columns)
    _, labels = np.unique(labels, return_inverse=True)
    labels = labels.reshape(height, width).astype(np.int32)
    means = _centres(features, labels, int(labels.max()) + 1)
    place = means[:, 3:] * (cell / COMPACTNESS / max(height, width))
    return Superpixels(labels, means[:, :3], place)


def _centres(features: NDArray[np.float32], labels: Labels, count: int) -> Floats:
    """Mean feature of each label; a label without pixels gets a centre that none is near to."""
    flat = labels.ravel()
    sizes = np.bincount(flat, minlength=count)
    sums = [np.bincount(flat, features[..., i].ravel(), count) for i in range(features.shape[2])]
    means = np.stack(sums, axis=1) / np.maximum(sizes, 1)[:, None]
    means[sizes == 0] = 1e6
    return means


def _assign_pixels(
    features: NDArray[np.float32],
    centres: Floats,
    home: tuple[Labels, Labels],
    columns: int,
) -> Labels:
    """The nearest of the nine centres around each pixel's cell; the first of equals."""
    rows = len(centres) // columns
    table = np.ascontiguousarray(centres.T, dtype=np.float32)
    planes = np.ascontiguousarray(np.moveaxis(features, 2, 0))
    best = np.full(features.shape[:2], np.inf, dtype=np.float32)
    labels = np.zeros(features.shape[:2], dtype=np.int32)
    for down, right in NEIGHBOURS:
        label = np.clip(home[0] + down, 0, rows - 1) * columns
        label += np.clip(home[1] + right, 0, columns - 1)
        # Plane by plane: to add up five numbers a pixel takes numpy several times as long.
        distance = np.zeros(labels.shape, dtype=np.float32)
        for plane, own in zip(planes, table, strict=True):
            distance += np.square(plane - own.take(label))
        nearer = distance < best
        best[nearer] = distance[nearer]
        labels[nearer] = label[nearer]
    return labels

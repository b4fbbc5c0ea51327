"""Partition an image into superpixels, small regions of one colour; salience is computed on them.

The method is SLIC (Achanta, Shaji, Smith, Lucchi, Fua, Süsstrunk: "SLIC Superpixels Compared to
State-of-the-art Superpixel Methods", TPAMI 2012): k-means in CIELAB colour and position, where a
pixel is compared with the nine centres around it only. Regions are not made connected, because
salience averages over regions and does not need that.
"""

from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from harness.media import Frame

Floats = NDArray[np.float64]
Labels = NDArray[np.intp]

COMPACTNESS = 20.0  # CIELAB distance that weighs as much as one cell of the grid; SLIC's m
ITERATIONS = 5  # of k-means
NEIGHBOURS = tuple((row, column) for row in (-1, 0, 1) for column in (-1, 0, 1))
"""Offsets (down, right) of the nine cells around a pixel's own."""


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
        """Return the mean of a height × width field over each region; `count` values."""
        flat = self.labels.ravel()
        total = np.bincount(flat, field.ravel().astype(np.float64), self.count)
        return total / np.bincount(flat, minlength=self.count)

    def paint(self, values: Floats) -> NDArray[np.float32]:
        """Return the height × width field of the regions' values."""
        return values.astype(np.float32)[self.labels]

    def border(self) -> NDArray[np.bool_]:
        """Return True for each region that touches the image's border; `count` values."""
        edge = (self.labels[0], self.labels[-1], self.labels[:, 0], self.labels[:, -1])
        touching = np.zeros(self.count, dtype=np.bool_)
        touching[np.concatenate(edge)] = True
        return touching

    def adjacent(self) -> NDArray[np.bool_]:
        """Return True where two different regions share an edge; count × count, symmetric."""
        adjacency = np.zeros((self.count, self.count), dtype=np.bool_)
        adjacency[self.labels[:, :-1], self.labels[:, 1:]] = True
        adjacency[self.labels[:-1], self.labels[1:]] = True
        adjacency |= adjacency.T
        np.fill_diagonal(adjacency, val=False)
        return adjacency


def superpixels(image: Frame, n_regions: int) -> Superpixels:
    """Partition an RGB image into about `n_regions` regions, at least one."""
    lab = cv2.cvtColor(image.astype(np.float32) / 255, cv2.COLOR_RGB2LAB)
    height, width = lab.shape[:2]
    cell = max(1.0, (height * width / n_regions) ** 0.5)
    rows, columns = max(1, round(height / cell)), max(1, round(width / cell))
    y, x = np.mgrid[:height, :width].astype(np.float32)
    # Features come first: with them last, numpy takes several times as long.
    planes = np.stack([*cv2.split(lab), x * (COMPACTNESS / cell), y * (COMPACTNESS / cell)])
    values = planes.reshape(len(planes), -1).astype(np.float64)
    down, right = np.array(NEIGHBOURS).T[:, :, None]
    home_row = (y[:, 0] * rows).astype(np.intp) // height
    home_column = (x[0] * columns).astype(np.intp) // width
    near_rows = np.clip(home_row + down, 0, rows - 1)
    near_columns = np.clip(home_column + right, 0, columns - 1)
    labels = home_row[:, None] * columns + home_column
    for _ in range(ITERATIONS):
        centres = _centres(values, labels, rows * columns).reshape(-1, rows, columns)
        labels = _assign_pixels(planes, centres.astype(np.float32), near_rows, near_columns)
    is_used = np.bincount(labels.ravel()) > 0
    labels = (np.cumsum(is_used) - 1)[labels]  # renumbered, without empty regions
    means = _centres(values, labels, int(labels.max()) + 1).T
    centres_in_image = means[:, 3:] * (cell / COMPACTNESS / max(height, width))
    return Superpixels(labels, means[:, :3], centres_in_image)


def _centres(values: Floats, labels: Labels, n_labels: int) -> Floats:
    """Return the mean of each feature (features × pixels) over each label: features × `n_labels`.

    A label without pixels gets a centre that is far from every pixel.
    """
    flat = labels.ravel()
    sizes = np.bincount(flat, minlength=n_labels)
    sums = np.stack([np.bincount(flat, plane, n_labels) for plane in values])
    means = sums / np.maximum(sizes, 1)
    means[:, sizes == 0] = 1e6
    return means


def _assign_pixels(
    planes: NDArray[np.float32],
    centres: NDArray[np.float32],
    near_rows: NDArray[np.intp],
    near_columns: NDArray[np.intp],
) -> Labels:
    """Return the label of the nearest of the nine centres around each pixel's cell.

    Args:
        planes: Features × height × width.
        centres: Features × rows × columns of cells.
        near_rows: 9 × height; the row of cells of each of the nine, for each row of pixels.
        near_columns: 9 × width; likewise. Of equally near centres the first of the nine counts.
    """
    height, width = planes.shape[1:]
    best = np.full((height, width), np.inf, dtype=np.float32)
    nearest = np.zeros((height, width), dtype=np.uint8)
    for number, (rows, columns) in enumerate(zip(near_rows, near_columns, strict=True)):
        # Copying whole rows of centres is several times faster than indexing by pixel.
        difference = centres[:, :, columns].take(rows, axis=1)
        difference -= planes
        difference *= difference
        distance = difference[0]
        for plane in difference[1:]:
            distance += plane
        # `number` ascends, so the maximum is the last that was nearer than all before it.
        np.maximum(nearest, (distance < best).view(np.uint8) * np.uint8(number), out=nearest)
        np.minimum(best, distance, out=best)
    row = near_rows[nearest, np.arange(height)[:, None]]
    column = near_columns[nearest, np.arange(width)]
    return np.asarray(row * centres.shape[2] + column)

// COCO's run-lengths: column by column, alternating 0 and 1, six bits a character.
import type { Rle } from "./board";

const known = new WeakMap<Rle, number[]>();

export function runs(rle: Rle): number[] {
  let found = known.get(rle);
  if (found) return found;
  found = [];
  const { counts } = rle;
  for (let at = 0; at < counts.length; ) {
    let value = 0;
    let shift = 0;
    for (let more = true; more && at < counts.length; at += 1, shift += 5) {
      const bits = counts.charCodeAt(at) - 48;
      value |= (bits & 31) << shift;
      more = (bits & 32) !== 0;
      if (!more && bits & 16) value |= -1 << (shift + 5);
    }
    found.push(found.length > 2 ? value + found[found.length - 2] : value);
  }
  known.set(rle, found);
  return found;
}

/** Height × width, row by row. */
export function decode(rle: Rle): Uint8Array {
  const [height, width] = rle.size;
  const mask = new Uint8Array(height * width);
  let at = 0;
  runs(rle).forEach((length, place) => {
    if (place % 2) {
      for (let pixel = at; pixel < at + length; pixel += 1) {
        mask[(pixel % height) * width + Math.floor(pixel / height)] = 1;
      }
    }
    at += length;
  });
  return mask;
}

/** Shared pixels over all pixels of two masks; 1 where both are empty. */
export function iou(one: Rle | undefined, other: Rle | undefined): number {
  if (!one || !other) return 0;
  const [a, b] = [runs(one), runs(other)];
  let [i, j, left, right, both, any] = [0, 0, a[0] ?? 0, b[0] ?? 0, 0, 0];
  while (i < a.length && j < b.length) {
    const step = Math.min(left, right);
    if (i % 2 && j % 2) both += step;
    if (i % 2 || j % 2) any += step;
    left -= step;
    right -= step;
    if (left === 0) left = a[(i += 1)] ?? 0;
    if (right === 0) right = b[(j += 1)] ?? 0;
  }
  return any ? both / any : 1;
}

export const area = (rle: Rle): number => runs(rle).reduce((sum, length, place) => sum + (place % 2 ? length : 0), 0);

/** The border between a mask and its outside, as straight lines in pixels of the mask. */
export function border(mask: Uint8Array, width: number, height: number): Path2D {
  const path = new Path2D();
  const at = (x: number, y: number) => (x < 0 || y < 0 || x >= width || y >= height ? 0 : mask[y * width + x]);
  for (let y = 0; y <= height; y += 1) {
    for (let x = 0, from = -1; x <= width; x += 1) {
      const edge = x < width && at(x, y) !== at(x, y - 1);
      if (edge && from < 0) from = x;
      if (!edge && from >= 0) {
        path.moveTo(from, y);
        path.lineTo(x, y);
        from = -1;
      }
    }
  }
  for (let x = 0; x <= width; x += 1) {
    for (let y = 0, from = -1; y <= height; y += 1) {
      const edge = y < height && at(x, y) !== at(x - 1, y);
      if (edge && from < 0) from = y;
      if (!edge && from >= 0) {
        path.moveTo(x, from);
        path.lineTo(x, y);
        from = -1;
      }
    }
  }
  return path;
}

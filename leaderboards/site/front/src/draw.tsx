// One medium with what was found in it: tints and outlines from run-lengths, boxes, points.
import { useEffect, useRef, useState } from "preact/hooks";
import type { Answer, Medium, Prediction, Rle } from "./board";
import { border, decode } from "./rle";

export type Layer = "errors" | "prediction" | "truth" | "image";
export const LAYERS: [Layer, string][] = [
  ["errors", "Errors"],
  ["prediction", "Prediction"],
  ["truth", "Ground truth"],
  ["image", "Image"],
];

/** Okabe and Ito's colours, which stay apart for the colour-blind. */
export const HIT = [0, 158, 115];
export const FALSE = [213, 94, 0];
export const MISSED = [86, 180, 233];
/** Outline of the ground truth where the colours say what was hit and what was missed. */
const TRUTH = [20, 20, 20];

const COLOURS = /colou?rs?\b|\b(black|white|gr[ae]y|red|orange|yellow|green|blue|purple|violet|pink|brown|beige|golden|silver)\b/i;

/** How overlays are drawn at first: where a question names colours, the image keeps its own. */
export function firstLook(question: string): Look {
  const asked = COLOURS.test(question);
  return { layer: "errors", opacity: asked ? 0.2 : 0.5, outline: true, places: true, grey: !asked };
}

export type Look = { layer: Layer; opacity: number; outline: boolean; places: boolean; grey: boolean };

type Loaded = { image?: HTMLImageElement; failed?: boolean };
const images = new Map<string, Promise<HTMLImageElement>>();

function imageOf(file: string): Promise<HTMLImageElement> {
  let found = images.get(file);
  if (!found) {
    found = new Promise((done, failed) => {
      const image = new Image();
      image.onload = () => done(image);
      image.onerror = failed;
      image.src = `media/${encodeURIComponent(file)}`;
    });
    if (images.size > 64) images.delete(images.keys().next().value!);
    images.set(file, found);
  }
  return found;
}

function useImage(file: string | null): Loaded {
  const [loaded, set] = useState<Loaded>({});
  useEffect(() => {
    let here = true;
    set({});
    if (file) imageOf(file).then((image) => here && set({ image }), () => here && set({ failed: true }));
    return () => void (here = false);
  }, [file]);
  return loaded;
}

const rgb = (colour: number[]): string => `rgb(${colour.join()})`;

function tint(masks: [Uint8Array | null, Uint8Array | null], size: [number, number], look: Look): HTMLCanvasElement {
  const [height, width] = size;
  const canvas = document.createElement("canvas");
  canvas.width = width;
  canvas.height = height;
  const pen = canvas.getContext("2d")!;
  const data = pen.createImageData(width, height);
  const pixels = new Uint32Array(data.data.buffer);
  const alpha = Math.round(look.opacity * 255);
  const [hit, wrong, missed] = [HIT, FALSE, MISSED].map(([r, g, b]) => ((alpha << 24) | (b << 16) | (g << 8) | r) >>> 0);
  const truth = look.layer === "prediction" ? null : masks[0];
  const found = look.layer === "truth" ? null : masks[1];
  for (let at = 0; at < pixels.length; at += 1) {
    const t = truth ? truth[at] : 0;
    if (found && found[at]) pixels[at] = t ? hit : wrong;
    else if (t) pixels[at] = look.layer === "truth" ? hit : missed;
  }
  pen.putImageData(data, 0, 0);
  return canvas;
}

function stroke(pen: CanvasRenderingContext2D, path: Path2D, colour: string, width: number, dash: number[] = []): void {
  pen.lineJoin = "round";
  pen.setLineDash([]);
  pen.strokeStyle = "rgba(255,255,255,.7)";
  pen.lineWidth = width * 2;
  pen.stroke(path);
  pen.setLineDash(dash);
  pen.strokeStyle = colour;
  pen.lineWidth = width;
  pen.stroke(path);
}

function boxes(answer: Answer | undefined, frame: number): number[][] {
  const track = answer?.box_track?.[frame];
  return [...(frame === 0 ? answer?.boxes ?? [] : []), ...(track ? [track] : [])];
}

function rectangles(list: number[][]): Path2D {
  const path = new Path2D();
  for (const [left, top, right, bottom] of list) path.rect(left, top, right - left, bottom - top);
  return path;
}

function dots(pen: CanvasRenderingContext2D, list: number[][], colour: string, radius: number, hollow = false): void {
  pen.setLineDash([]);
  for (const [x, y] of list) {
    pen.beginPath();
    pen.arc(x, y, radius, 0, 2 * Math.PI);
    pen.lineWidth = radius / 2.5;
    pen.fillStyle = hollow ? "rgba(255,255,255,.9)" : colour;
    pen.strokeStyle = hollow ? colour : "white";
    pen.fill();
    pen.stroke();
  }
}

export type Drawn = {
  medium: Medium;
  truth?: Answer;
  prediction?: Prediction;
  /** Place among the frames that the file holds. */
  shown: number;
  look: Look;
  label: string;
  /** Greatest height in pixels, if not most of the window's. */
  high?: number;
};

/** The medium, as wide as its place allows. */
export function Picture({ medium, truth, prediction, shown, look, label, high }: Drawn) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const { image, failed } = useImage(medium.file);
  const [room, setRoom] = useState(0);
  useEffect(() => {
    const element = canvas.current?.parentElement;
    if (!element) return;
    const observer = new ResizeObserver(() => setRoom(element.clientWidth));
    observer.observe(element);
    setRoom(element.clientWidth);
    return () => observer.disconnect();
  }, []);
  useEffect(() => {
    const element = canvas.current;
    if (!element || !room) return;
    const frame = medium.shown ? medium.shown[shown] ?? 0 : 0;
    // As wide as there is room, but no taller than most of the window, and pixels not grown beyond 6.
    const most = high ?? Math.max(220, 0.62 * innerHeight);
    const wide = Math.max(1, Math.min(room, (most * medium.width) / medium.height, medium.width * 6));
    const ratio = devicePixelRatio || 1;
    element.width = Math.round(wide * ratio);
    element.height = Math.round((wide * ratio * medium.height) / medium.width);
    element.style.width = `${Math.round(wide)}px`;
    const pen = element.getContext("2d")!;
    if (image) {
      if (medium.shown && medium.cell) {
        const [w, h] = medium.cell;
        const columns = medium.columns ?? 1;
        const [x, y] = [(shown % columns) * w, Math.floor(shown / columns) * h];
        // Half a pixel in, or the neighbouring frames would shine through at the edges.
        pen.drawImage(image, x + 0.5, y + 0.5, w - 1, h - 1, 0, 0, element.width, element.height);
      } else pen.drawImage(image, 0, 0, element.width, element.height);
    } else {
      pen.fillStyle = "#8883";
      pen.fillRect(0, 0, element.width, element.height);
    }
    if (look.grey && look.layer !== "image" && (truth?.masks || prediction?.answer?.masks)) {
      // Colours of the image would mix with those of the overlay.
      pen.globalCompositeOperation = "saturation";
      pen.fillStyle = "rgba(0,0,0,.8)";
      pen.fillRect(0, 0, element.width, element.height);
      pen.globalCompositeOperation = "source-over";
    }
    const scale = element.width / medium.width;
    const line = (1.6 * ratio) / scale;
    const answer = prediction?.answer;
    const pair = [truth?.masks?.[frame], answer?.masks?.[frame]] as (Rle | undefined)[];
    const masks = pair.map((rle) => (rle ? decode(rle) : null)) as [Uint8Array | null, Uint8Array | null];
    const size = pair.find(Boolean)?.size;
    if (size && look.layer !== "image") {
      pen.imageSmoothingEnabled = false;
      pen.drawImage(tint(masks, size, look), 0, 0, element.width, element.height);
      pen.imageSmoothingEnabled = true;
    }
    pen.scale(scale, scale);
    if (size && look.outline && look.layer !== "image") {
      const [fromTruth, fromAnswer] = masks.map((mask) => (mask ? border(mask, size[1], size[0]) : null));
      if (fromAnswer && look.layer !== "truth") stroke(pen, fromAnswer, rgb(FALSE), line);
      if (fromTruth && look.layer !== "prediction") stroke(pen, fromTruth, rgb(look.layer === "errors" ? TRUTH : HIT), line, [3 * line, 2 * line]);
    }
    if (look.places && look.layer !== "image") {
      if (look.layer !== "prediction") {
        stroke(pen, rectangles(boxes(truth, frame)), rgb(HIT), line, [4 * line, 2 * line]);
        dots(pen, frame === 0 ? truth?.points ?? [] : [], rgb(HIT), 3 * line);
      }
      if (look.layer !== "truth") {
        stroke(pen, rectangles(boxes(answer, frame)), rgb(FALSE), line);
        dots(pen, frame === 0 ? answer?.points ?? [] : [], rgb(FALSE), 3 * line);
        for (const parsed of prediction?.parsed ?? []) {
          if ((parsed.frame ?? 0) !== frame) continue;
          const objects = parsed.objects ?? [];
          stroke(pen, rectangles(objects.flatMap((one) => (one.box ? [one.box] : []))), rgb([230, 159, 0]), line, [line, 2 * line]);
          dots(pen, objects.flatMap((one) => one.positive ?? []), rgb([230, 159, 0]), 2.6 * line);
          dots(pen, objects.flatMap((one) => one.negative ?? []), rgb([230, 159, 0]), 2.6 * line, true);
        }
      }
    }
  });
  return (
    <div class="picture">
      <canvas ref={canvas} role="img" aria-label={label} />
      {failed && <p class="quiet">The image is not there.</p>}
    </div>
  );
}

export const isPlace = (answer: Answer | undefined): boolean =>
  Boolean(answer && (answer.masks || answer.boxes || answer.points || answer.box_track));

/** What the colours of an overlay mean. */
export function Legend({ look, masks }: { look: Look; masks: boolean }) {
  if (look.layer === "image") return null;
  const entries: [string, string][] =
    look.layer === "errors" && masks
      ? [["hit", "hit"], ["wrong", "false positive"], ["missed", "missed"], ...(look.outline ? [["truth", "ground truth"] as [string, string]] : [])]
      : [...(look.layer !== "prediction" ? [["hit", "ground truth"] as [string, string]] : []), ...(look.layer !== "truth" ? [["wrong", "prediction"] as [string, string]] : [])];
  return (
    <p class="legend">
      {entries.map(([kind, text]) => <span key={kind}><i class={`swatch ${kind}`} />{text}</span>)}
      {look.places && look.layer !== "truth" && <span><i class="swatch parsed" />named in the response</span>}
    </p>
  );
}

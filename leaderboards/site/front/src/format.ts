// Numbers as leaderboards/formatting.py writes them.
import type { Answer } from "./board";

export const NOTHING = "–";

export function number(value: number | null | undefined): string {
  if (value === null || value === undefined) return NOTHING;
  return Math.abs(value) < 100 ? value.toFixed(3) : value.toFixed(1);
}

/** A measured number on the scale and with the decimals of the printed one that it stands beside. */
export function beside(value: number, printed: string | null, unit: string): string {
  return unit === "percent" ? (100 * value).toFixed(printed === null ? 1 : (printed.split(".")[1]?.length ?? 0)) : number(value);
}

export function signed(value: number | null | undefined): string {
  if (value === null || value === undefined) return NOTHING;
  const text = number(Math.abs(value));
  return (value < 0 && /[1-9]/.test(text) ? "−" : "+") + text;
}

export const span = (pair: [number, number] | null | undefined): string =>
  pair ? `${number(pair[0])} to ${number(pair[1])}` : NOTHING;
export const signedSpan = (pair: [number, number] | null | undefined): string =>
  pair ? `${signed(pair[0])} to ${signed(pair[1])}` : NOTHING;

export function percent(share: number): string {
  return share === 1 ? "100 %" : `${Math.min(share * 100, 99.9).toFixed(1)} %`;
}

export const pValue = (p: number | null | undefined): string =>
  p === null || p === undefined ? "" : p < 0.001 ? "p < 0.001" : `p = ${p.toFixed(3)}`;

export function duration(seconds: number | null | undefined): string {
  if (seconds === null || seconds === undefined) return NOTHING;
  if (seconds < 60) return `${seconds.toFixed(1)} s`;
  const minutes = Math.floor(Math.round(seconds) / 60);
  const pad = (value: number) => String(value).padStart(2, "0");
  if (minutes < 60) return `${minutes} min ${pad(Math.round(seconds) % 60)} s`;
  return `${Math.floor(minutes / 60)} h ${pad(minutes % 60)} min`;
}

export const count = (value: number): string => value.toLocaleString("en");
export const plural = (value: number, noun: string): string => `${count(value)} ${noun}${value === 1 ? "" : "s"}`;
export const arrow = (better: string | undefined): string => (better === "lower" ? "↓" : "↑");

/** A number in few figures, for tokens, seconds and losses. */
export function brief(value: number | null | undefined): string {
  if (value === null || value === undefined) return NOTHING;
  const size = Math.abs(value);
  if (size >= 1e6) return `${(value / 1e6).toPrecision(3)} M`;
  if (size >= 1e4) return `${(value / 1e3).toPrecision(3)} k`;
  if (size >= 100 || Number.isInteger(value)) return count(Math.round(value));
  return String(Number(value.toPrecision(3)));
}

/** An answer in words. */
export function words(answer: Answer): string {
  const parts: string[] = [];
  if (answer.no_target) parts.push("no target");
  if (answer.masks) parts.push(answer.masks.length > 1 ? `masks in ${plural(answer.masks.length, "frame")}` : "mask");
  if (answer.boxes) parts.push(plural(answer.boxes.length, answer.boxes.length === 1 ? "box" : "boxe"));
  if (answer.points) parts.push(plural(answer.points.length, "point"));
  if (answer.box_track) parts.push(`a box in ${answer.box_track.filter(Boolean).length} of ${answer.box_track.length} frames`);
  if (answer.boxes_3d) parts.push(plural(answer.boxes_3d.length, "3D boxes"));
  if (answer.count !== undefined) parts.push(`count ${answer.count}`);
  if (answer.choice !== undefined) parts.push(`choice ${answer.choice}`);
  if (answer.number !== undefined) parts.push(`number ${brief(answer.number)}`);
  if (answer.interval) parts.push(`${answer.interval[0].toFixed(1)} s to ${answer.interval[1].toFixed(1)} s`);
  if (answer.text !== undefined) parts.push(`“${answer.text}”`);
  return parts.join(", ");
}

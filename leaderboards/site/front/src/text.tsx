// Responses: tags marked, turns and what was injected between them, DT-R1's plan and twin.
import type { JSX } from "preact";

const LONGEST = 6000;
const TAG = /(<\/?[a-zA-Z][\w.:-]*>)/;

const cut = (text: string): string =>
  text.length > LONGEST ? `${text.slice(0, LONGEST)} … (${(text.length - LONGEST).toLocaleString("en")} more characters)` : text;

/** A response as it came, its tags in colour, the text between them by its tag. */
export function Response({ text }: { text: string }) {
  const open: string[] = [];
  const parts: JSX.Element[] = [];
  cut(text)
    .split(TAG)
    .forEach((part, place) => {
      if (!part) return;
      if (!TAG.test(part)) {
        parts.push(<span key={place} class={open.length ? `in ${kind(open.at(-1)!)}` : undefined}>{part}</span>);
        return;
      }
      const name = part.replace(/[</>]/g, "");
      if (part[1] === "/") open.splice(open.lastIndexOf(name) < 0 ? open.length : open.lastIndexOf(name));
      parts.push(<b key={place} class={`tag ${kind(name)}`}>{part}</b>);
      if (part[1] !== "/") open.push(name);
    });
  return <pre class="response" tabIndex={0}>{text ? parts : <span class="quiet">empty</span>}</pre>;
}

const kind = (name: string): string => `of-${name.toLowerCase().replace(/[^a-z]+/g, "-")}`;

type Block = { tag: string; text: string; injected: boolean };
const TAGGED = /<([a-z][a-z._]*)>([\s\S]*?)<\/\1>/g;
const MOST = 200;

/** As leaderboards/transcripts.py takes a response apart. */
export function blocksOf(text: string, spans: [number, boolean][]): Block[] {
  const blocks: Block[] = [];
  const plain = (part: string, injected: boolean) => part.trim() && blocks.push({ tag: "", text: part.trim(), injected });
  let start = 0;
  for (const [length, injected] of [...spans, [text.length, false] as [number, boolean]]) {
    const part = text.slice(start, start + length);
    start += length;
    let place = 0;
    for (const found of part.matchAll(TAGGED)) {
      plain(part.slice(place, found.index), injected);
      blocks.push({ tag: found[1], text: found[2].trim(), injected });
      place = found.index + found[0].length;
    }
    plain(part.slice(place), injected);
  }
  return blocks.slice(0, MOST);
}

export function Transcript({ text, spans }: { text: string; spans: [number, boolean][] }) {
  // Python counts characters, JavaScript halves of those beyond the basic plane.
  const characters = [...text];
  const exact: [number, boolean][] = [];
  let start = 0;
  for (const [length, injected] of spans) {
    exact.push([characters.slice(start, start + length).join("").length, injected]);
    start += length;
  }
  return <Blocks blocks={blocksOf(text, exact)} />;
}

export function Blocks({ blocks }: { blocks: Block[] }) {
  return (
    <div class="transcript">
      {blocks.map((block, place) => <BlockView key={place} block={block} />)}
    </div>
  );
}

function BlockView({ block }: { block: Block }) {
  const value = /^(dt_plan|dt\.plan|dt_rep|dt\.rep)$/.test(block.tag) ? parsed(block.text) : undefined;
  const plan = /plan$/.test(block.tag) ? planOf(value) : null;
  const twin = /rep$/.test(block.tag) ? twinOf(value) : null;
  const text = <pre tabIndex={0}>{cut(block.text)}</pre>;
  return (
    <section class={`block ${kind(block.tag || "text")}${block.injected ? " injected" : ""}`}>
      <p class="tagname">{block.tag || "text"}{block.injected && ", injected"}</p>
      {plan && <Plan plan={plan} />}
      {twin && <Twin twin={twin} />}
      {plan || twin ? <details><summary>JSON</summary>{text}</details> : text}
    </section>
  );
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

type PlanOf = Record<string, string[]>;

function planOf(value: unknown): PlanOf | null {
  if (!value || typeof value !== "object" || Array.isArray(value)) return null;
  const entries = Object.entries(value as object);
  const whole = entries.every(([, needed]) => Array.isArray(needed) && needed.every((one) => typeof one === "string"));
  return whole && entries.length > 0 && entries.length <= 40 ? Object.fromEntries(entries) : null;
}

/** Nodes by the number of steps before them; those of a cycle stand in the last layer. */
function layersOf(plan: PlanOf): string[][] {
  const names = [...new Set([...Object.keys(plan), ...Object.values(plan).flat()])];
  const placed = new Map<string, number>();
  for (let layer = 0; placed.size < names.length; layer += 1) {
    const left = names.filter((name) => !placed.has(name));
    const free = left.filter((name) => (plan[name] ?? []).every((one) => placed.has(one)));
    for (const name of free.length ? free : left) placed.set(name, layer);
  }
  const layers: string[][] = [];
  for (const [name, layer] of placed) (layers[layer] ??= []).push(name);
  return layers;
}

const HIGH = 26;
const GAP = 40;

function Plan({ plan }: { plan: PlanOf }) {
  const layers = layersOf(plan);
  const widths = layers.map((layer) => Math.max(...layer.map((name) => name.length)) * 7.4 + 18);
  const lefts = widths.map((_, place) => widths.slice(0, place).reduce((sum, width) => sum + width, 0) + place * GAP + 1);
  const tallest = Math.max(...layers.map((layer) => layer.length));
  const at = new Map<string, [number, number, number]>();
  layers.forEach((layer, column) => {
    const top = ((tallest - layer.length) * (HIGH + 12)) / 2;
    layer.forEach((name, row) => at.set(name, [lefts[column], top + row * (HIGH + 12) + 1, widths[column]]));
  });
  const [wide, high] = [lefts.at(-1)! + widths.at(-1)! + 1, tallest * (HIGH + 12)];
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Plan">
      <svg class="plan" width={wide} height={high} viewBox={`0 0 ${wide} ${high}`} role="img" aria-label={`Plan: ${Object.entries(plan).map(([name, needed]) => (needed.length ? `${name} after ${needed.join(", ")}` : name)).join("; ")}`}>
        {Object.entries(plan).flatMap(([name, needed]) =>
          needed.map((before) => {
            const [from, to] = [at.get(before)!, at.get(name)!];
            const [x1, y1, x2, y2] = [from[0] + from[2], from[1] + HIGH / 2, to[0], to[1] + HIGH / 2];
            return <path key={`${before} ${name}`} d={`M${x1},${y1} C${x1 + GAP / 2},${y1} ${x2 - GAP / 2},${y2} ${x2},${y2}`} />;
          }),
        )}
        {[...at].map(([name, [x, y, width]]) => (
          <g key={name}>
            <rect x={x} y={y} width={width} height={HIGH} rx="4" />
            <text x={x + width / 2} y={y + 17} text-anchor="middle">{name}</text>
          </g>
        ))}
      </svg>
    </div>
  );
}

type TwinOf = { header: string[]; rows: string[][] };
const show = (value: unknown): string => (typeof value === "string" ? value : JSON.stringify(value) ?? "");

function twinOf(value: unknown): TwinOf | null {
  const instances = (value as { instances?: unknown } | undefined)?.instances;
  if (!Array.isArray(instances)) return null;
  const entries = instances
    .slice(0, 40)
    .filter((one): one is Record<string, unknown> => Boolean(one) && typeof one === "object")
    .map((one) => {
      const { frames, ...own } = one;
      const { frame: _, ...seen } = (Array.isArray(frames) ? frames.find((each) => each && typeof each === "object") : null) ?? {};
      return { ...own, ...seen } as Record<string, unknown>;
    });
  const header = [...new Set(entries.flatMap((entry) => Object.keys(entry)))].slice(0, 8);
  return header.length ? { header, rows: entries.map((entry) => header.map((key) => (key in entry ? show(entry[key]).slice(0, 80) : ""))) } : null;
}

function Twin({ twin }: { twin: TwinOf }) {
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Digital twin">
      <table class="twin">
        <thead><tr>{twin.header.map((name) => <th key={name} scope="col">{name}</th>)}</tr></thead>
        <tbody>{twin.rows.map((row, place) => <tr key={place}>{row.map((cell, at) => <td key={at}>{cell}</td>)}</tr>)}</tbody>
      </table>
    </div>
  );
}

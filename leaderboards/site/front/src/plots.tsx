// Observable Plot in a Preact page; its inline style sheet would break the page's policy.
import { areaY, dot, line, link, plot, pointer, ruleX, ruleY, text, tip, type PlotOptions } from "@observablehq/plot";
import { useEffect, useRef, useState } from "preact/hooks";
import type { Both, Curve, Row, Series } from "./board";
import { isPublished, valueOf } from "./board";
import { brief, count, duration, number, signed } from "./format";
import { go, href, route, setQuery } from "./route";

export { areaY, dot, line, link, ruleX, ruleY, text };

/** The box with a point's values under the pointer. */
export const TIP = { fill: "var(--paper)", stroke: "var(--quiet)", fontSize: 11, lineHeight: 1.25 };

/** Draws options for a width; a press calls `onPick` with the nearest of `points`, in data. */
export function Chart(props: {
  make: (width: number) => PlotOptions;
  label: string;
  points?: { x: number; y: number; pick: () => void }[];
  max?: number;
}) {
  const { make, label, points, max = 720 } = props;
  const box = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(0);
  useEffect(() => {
    const observer = new ResizeObserver(() => setWidth(box.current?.clientWidth ?? 0));
    observer.observe(box.current!);
    return () => observer.disconnect();
  }, []);
  useEffect(() => {
    if (!width || !box.current) return;
    // After the rows beside it: thousands of points take longer than they.
    const waiting = setTimeout(() => requestAnimationFrame(() => requestAnimationFrame(draw)), 0);
    return () => clearTimeout(waiting);
  });
  const draw = () => {
    if (!box.current) return;
    const made = plot({ ...make(Math.min(width, max)), width: Math.min(width, max), style: { background: "none" } });
    for (const style of made.querySelectorAll("style")) style.remove();
    for (const part of made.querySelectorAll("[aria-label], [aria-description]")) {
      part.removeAttribute("aria-label");
      part.removeAttribute("aria-description");
    }
    made.setAttribute("role", "img");
    made.setAttribute("aria-label", label);
    if (points?.length) {
      made.classList.add("pickable");
      made.addEventListener("click", (event) => {
        const [sx, sy] = [(made as any).scale("x"), (made as any).scale("y")];
        const frame = made.getBoundingClientRect();
        const [px, py] = [(event as MouseEvent).clientX - frame.left, (event as MouseEvent).clientY - frame.top];
        const away = (one: { x: number; y: number }) => Math.hypot(sx.apply(one.x) - px, sy.apply(one.y) - py);
        const nearest = points.reduce((best, one) => (away(one) < away(best) ? one : best));
        if (away(nearest) < 24) nearest.pick();
      });
    }
    box.current.replaceChildren(made);
  };
  return <div class="chart" ref={box} />;
}

const COSTS: [string, string, (row: Row) => number | null][] = [
  ["tokens", "completion tokens a sample", (row) => per(row, row.usage?.completion_tokens)],
  ["seconds", "seconds a sample", (row) => per(row, row.seconds)],
  ["frames", "frames a sample", (row) => per(row, row.usage?.frames)],
];

function per(row: Row, total: number | null | undefined): number | null {
  return total && row.n_total ? total / row.n_total : null;
}

/** Accuracy against what it costs; the line joins rows that nothing beats at both. */
export function Costs({ both }: { both: Both }) {
  const { table, site } = both;
  return (
    <div class="costs">
      {COSTS.map(([name, label, costOf]) => {
        const rows = table.rows
          .filter((row) => !isPublished(row))
          .map((row) => ({ row, x: costOf(row), y: valueOf(table, row) }))
          .filter((one): one is Point => one.x !== null && one.y !== null);
        if (!rows.length) return <p key={name} class="quiet">No row has recorded {label}.</p>;
        if (rows.length === 1) return <p key={name} class="quiet">Only {rows[0].row.name} has recorded {label}: {brief(rows[0].x)}.</p>;
        const sign = table.better === "higher" ? 1 : -1;
        const front = rows
          .filter((one) => !rows.some((other) => other.x <= one.x && sign * other.y >= sign * one.y && (other.x < one.x || sign * other.y > sign * one.y)))
          .sort((a, b) => a.x - b.x);
        const [low, high] = [Math.min(...rows.map((one) => one.y)), Math.max(...rows.map((one) => one.y))];
        const pad = 0.08 * (high - low || 0.5);
        const [least, most] = [Math.min(...rows.map((one) => one.x)), Math.max(...rows.map((one) => one.x))];
        const logs = most / least > 20;
        const share = (x: number) => (logs ? Math.log(x / least) / Math.log(most / least) : x / most);
        const margin = LETTER * Math.max(...rows.map((one) => short(one.row.name).length)) + 12;
        return (
          <figure key={name}>
            <figcaption>
              {table.headline} against <b>{label}</b>
            </figcaption>
            <Chart
              label={`${table.headline} against ${label}: ${rows.map((one) => `${one.row.name} ${number(one.y)} at ${brief(one.x)}`).join("; ")}`}
              points={rows.map((one) => ({ x: one.x, y: one.y, pick: () => go(href(["task", site.key, "run", one.row.name])) }))}
              make={(width) => ({
                height: Math.min(340, 0.62 * width),
                marginLeft: 48,
                marginRight: margin,
                x: { label: `${label} →`, type: logs ? "log" : "linear", zero: !logs, nice: true, ticks: 5, tickFormat: brief },
                y: { label: `↑ ${table.headline}`, grid: true, domain: [low - pad, high + pad], ticks: 6 },
                insetRight: 6,
                marks: [
                  line(front, { x: "x", y: "y", curve: "step-after", stroke: "var(--accent)", strokeOpacity: 0.45, strokeWidth: 1.5 }),
                  dot(rows, { x: "x", y: "y", r: 4.5, fill: (one) => (front.includes(one) ? "var(--accent)" : "var(--paper)"), stroke: "var(--accent)", title: (one) => `${one.row.name}: ${number(one.y)} at ${brief(one.x)}`, tip: TIP }),
                  text(labelled(rows, (x) => share(x) * (width - 48 - margin), (Math.min(340, 0.62 * width) - 50) / (high - low + 2 * pad)), { x: "x", y: "at", text: (one) => short(one.row.name), dx: 9, textAnchor: "start", fill: "currentColor", stroke: "var(--paper)", strokeWidth: 3, fontSize: 11 }),
                ],
              })}
            />
          </figure>
        );
      })}
      <p class="hint">Filled: on the Pareto front, no row is at least as good for less. Press a point to open its run.</p>
    </div>
  );
}

/** A name for a chart; what tells models apart stands at the end as often as at the start. */
const short = (name: string): string => (name.length > 22 ? `${name.slice(0, 10)}…${name.slice(-11)}` : name);

const LETTER = 6.3;
const LINE = 12;

interface Point {
  row: Row;
  x: number;
  y: number;
}

/** Where the label of each point stands, in data: beside it, or above labels that it would cover. */
function labelled(points: Point[], across: (x: number) => number, up: number): (Point & { at: number })[] {
  const placed: { left: number; right: number; at: number }[] = [];
  return [...points]
    .sort((a, b) => a.y - b.y)
    .map((point) => {
      const left = across(point.x);
      const right = left + 9 + LETTER * short(point.row.name).length;
      let at = up * point.y;
      for (let covered; (covered = placed.find((one) => one.left < right && left < one.right && Math.abs(one.at - at) < LINE)); ) at = covered.at + LINE + 0.01;
      placed.push({ left, right, at });
      return { ...point, at: at / up };
    });
}

/** The headline of one model over commits, with its levels. */
export function History({ both, series }: { both: Both; series: Series }) {
  const { table, site } = both;
  const points = series.points.map((point, at) => ({ ...point, at }));
  const known = points.filter((point) => point.value !== null);
  const starts = [0, ...series.steps.map((step) => step.at), points.length];
  const levels = starts.slice(0, -1).map((from, place) => {
    const members = known.filter((point) => point.at >= from && point.at < starts[place + 1]);
    return { from: from - 0.35, to: starts[place + 1] - 0.65, mean: members.reduce((sum, one) => sum + one.value!, 0) / (members.length || 1) };
  });
  return (
    <section class="series">
      <h3>{series.spec}</h3>
      <Chart
        label={`${table.headline} of ${series.model} over ${points.length} commits: ${known.map((one) => number(one.value)).join(", ")}`}
        points={known.map((one) => ({ x: one.at, y: one.value!, pick: () => go(href(["task", site.key, "run", table.rows[one.row].name])) }))}
        max={1100}
        make={() => ({
          height: 280,
          marginLeft: 48,
          marginBottom: 48,
          x: { label: "commit →", domain: [-0.5, points.length - 0.5], ticks: points.map((one) => one.at), tickFormat: (at: number) => (points[at]?.commit ?? "?").slice(0, 7) + (points[at]?.dirty ? "*" : ""), tickRotate: points.length > 8 ? -40 : 0 },
          y: { label: `↑ ${table.headline}`, grid: true, nice: true },
          marks: [
            ruleX(series.steps, { x: (step) => step.at - 0.5, stroke: "var(--bad)", strokeDasharray: "3,3" }),
            link(levels, { x1: "from", x2: "to", y1: "mean", y2: "mean", stroke: "var(--accent)", strokeOpacity: 0.35, strokeWidth: 6 }),
            ruleX(known.filter((one) => one.interval), { x: "at", y1: (one) => one.interval![0], y2: (one) => one.interval![1], stroke: "var(--accent)" }),
            dot(known, { x: "at", y: "value", r: 4, fill: "var(--accent)", title: (one) => `${(one.commit ?? "?").slice(0, 10)}: ${number(one.value)}`, tip: TIP }),
          ],
        })}
      />
      {series.steps.length === 0 ? (
        <p class="quiet">No step is shown over {points.length} runs.</p>
      ) : (
        <ul class="steps">
          {series.steps.map((step) => {
            const [before, after] = [table.rows[points[step.since].row], table.rows[points[step.at].row]];
            return (
              <li key={step.at} class={step.worse ? "worse" : "better"}>
                <b>{signed(step.difference)}</b> at <code>{(points[step.at].commit ?? "?").slice(0, 10)}</code>, against{" "}
                <code>{(points[step.since].commit ?? "?").slice(0, 10)}</code> (p = {step.p_value.toPrecision(2)}).{" "}
                <a href={href(["task", site.key, "samples", before.name, after.name])}>Which samples changed</a>
              </li>
            );
          })}
        </ul>
      )}
      <p class="hint">
        Runs in the order in which they ended, the first {new Date(points[0].ended * 1000).toISOString().slice(0, 10)}. A * marks a
        changed checkout. A step is where a run differs from the first of its level by the paired test, its level divided by the{" "}
        {points.length - 1} comparisons.
      </p>
    </section>
  );
}

/** Okabe and Ito's colours, which stay apart for the colour-blind. */
export const COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8c6d00", "#777777"];
const LEADING = ["reward", "loss", "kl"]; // what is looked for first
const FIRST = /reward|loss|length|entropy|accuracy|eval|kl/i;
const MANY = 9; // charts before the others are asked for
const FEW = 20; // numbers, such as evaluations, that are not smoothed

export type Named = { name: string; curve: Curve };
type Place = { run: string; step: number; value: number; smooth: number };

/** Each value with the mean of those before it, whose weights fall by `factor` a value (debiased). */
function smoothed(run: Named, name: string, factor: number): Place[] {
  if ((run.curve[name] ?? []).filter((value) => value !== null).length < FEW) factor = 0;
  let [sum, weight] = [0, 0];
  const found: Place[] = [];
  (run.curve.step ?? []).forEach((step, at) => {
    const value = run.curve[name]?.[at];
    if (step === null || value === null || value === undefined) return;
    [sum, weight] = [factor * sum + (1 - factor) * value, factor * weight + (1 - factor)];
    found.push({ run: run.name, step, value, smooth: sum / weight });
  });
  return found;
}

/** The lines on which each lies as far as both go, and its place among them: the longest is drawn, the others as dashes on it. */
function covering(lines: Place[][]): Map<string, { at: number; names: string[] }> {
  const groups: Place[][][] = [];
  const covers = (long: Place[], short: Place[]) => short.every((place, at) => place.step === long[at].step && place.smooth === long[at].smooth);
  for (const places of [...lines].sort((a, b) => b.length - a.length)) {
    const group = groups.find(([longest]) => covers(longest, places));
    if (group) group.push(places);
    else groups.push([places]);
  }
  const named = groups.map((group) => group.map(([first]) => first.run));
  return new Map(named.flatMap((names) => names.map((name, at) => [name, { at, names }])));
}

const DASH = 9; // pixels

/** Numbers of trainings by step, one chart a number; a pinned training stands out in all of them. */
export function Curves({ runs }: { runs: Named[] }) {
  const { query } = route.value;
  const names = [...new Set(runs.flatMap((run) => Object.keys(run.curve)))].filter(
    (name) => name !== "step" && runs.some((run) => (run.curve[name] ?? []).filter((value) => value !== null).length > 1),
  );
  const first = [...new Set([...LEADING, ...names.filter((name) => FIRST.test(name))])].filter((name) => names.includes(name));
  const all = query.all === "1";
  const shown = all ? [...new Set([...first, ...names])] : (first.length ? first : names).slice(0, MANY);
  const factor = Math.min(99, Math.max(0, Number(query.smooth ?? 0) || 0)) / 100;
  const pinned = (query.pin ?? "").split("~").filter((name) => runs.some((run) => run.name === name));
  const pin = (name: string) => setQuery({ pin: (pinned.includes(name) ? pinned.filter((one) => one !== name) : [...pinned, name]).join("~") });
  const colour = (name: string) => COLOURS[runs.findIndex((run) => run.name === name) % COLOURS.length];
  const faded = (name: string) => pinned.length > 0 && !pinned.includes(name);
  return (
    <>
      <div class="tools">
        <label class="range">
          Smoothing
          <input type="range" min="0" max="99" step="1" value={factor * 100} onInput={(event) => setQuery({ smooth: event.currentTarget.value === "0" ? "" : event.currentTarget.value })} />
          <output>{factor.toFixed(2)}</output>
        </label>
        {runs.length > 1 &&
          runs.map((run) => (
            <button key={run.name} type="button" class="chip" aria-pressed={pinned.includes(run.name)} title="Pin: the others fade" onClick={() => pin(run.name)}>
              <i class="swatch" style={{ background: colour(run.name) }} />
              {run.name}
            </button>
          ))}
      </div>
      <div class="curves">
        {shown.map((name) => {
          const lines = runs.map((run) => smoothed(run, name, factor)).filter((one) => one.length);
          // What is pinned is drawn last, on top.
          const rows = lines.sort((a, b) => Number(!faded(a[0].run)) - Number(!faded(b[0].run))).flat();
          const opacity = (row: Place) => (faded(row.run) ? 0.18 : 1);
          const equal = covering(lines);
          const below = (row: Place) => equal.get(row.run)!.at === 0;
          const hidden = [...new Set([...equal.values()].map((one) => one.names))].filter((names) => names.length > 1);
          const common = { x: "step", z: "run", stroke: (row: Place) => colour(row.run) };
          return (
            <figure key={name}>
              <figcaption>
                {name}
                {hidden.map((names) => <small key={names[0]} class="quiet" title={names.join(", ")}> {names.length === runs.length ? "all" : names.length} equal</small>)}
              </figcaption>
              <Chart
                label={`${name} by step: ${lines.map((one) => `${one[0].run} from ${brief(one[0].value)} to ${brief(one.at(-1)!.value)}`).join("; ")}`}
                max={560}
                make={() => ({
                  height: 190,
                  marginLeft: 48,
                  marginBottom: 28,
                  x: { label: null, ticks: 4 },
                  y: { label: null, ticks: 4, grid: true, nice: true, tickFormat: brief },
                  marks: [
                    factor > 0 ? line(rows, { ...common, y: "value", strokeWidth: 1, strokeOpacity: (row: Place) => 0.2 * opacity(row) }) : null,
                    line(rows.filter(below), { ...common, y: "smooth", strokeWidth: 1.6, strokeOpacity: opacity }),
                    ...lines.filter(([place]) => !below(place)).map((places) => {
                      const { at, names } = equal.get(places[0].run)!;
                      return line(places, { ...common, y: "smooth", strokeWidth: 1.8, strokeOpacity: opacity, strokeDasharray: `${DASH} ${DASH * (names.length - 1)}`, strokeDashoffset: -DASH * at });
                    }),
                    tip(rows, pointer({ x: "step", y: "smooth", title: (row: Place) => `${runs.length > 1 ? `${equal.get(row.run)!.names.join(", ")}\n` : ""}step ${count(row.step)}: ${brief(row.value)}${factor ? ` (smoothed ${brief(row.smooth)})` : ""}`, ...TIP })),
                  ],
                })}
              />
            </figure>
          );
        })}
      </div>
      {(all || shown.length < names.length) && (
        <button type="button" class="plain" onClick={() => setQuery({ all: all ? "" : "1" })}>
          {all ? "Show fewer" : `Show all ${names.length} numbers`}
        </button>
      )}
    </>
  );
}

export { duration };

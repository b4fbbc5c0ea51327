// Observable Plot in a Preact page; its inline style sheet would break the page's policy.
import { areaY, dot, line, link, plot, ruleX, ruleY, text, type PlotOptions } from "@observablehq/plot";
import { useEffect, useRef, useState } from "preact/hooks";
import type { Both, Row, Series } from "./board";
import { isPublished, valueOf } from "./board";
import { brief, duration, number, signed } from "./format";
import { go, href } from "./route";

export { areaY, dot, line, link, ruleX, ruleY, text };

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
          .filter((one): one is { row: Row; x: number; y: number } => one.x !== null && one.y !== null);
        if (!rows.length) return <p key={name} class="quiet">No row has recorded {label}.</p>;
        const sign = table.better === "higher" ? 1 : -1;
        const front = rows
          .filter((one) => !rows.some((other) => other.x <= one.x && sign * other.y >= sign * one.y && (other.x < one.x || sign * other.y > sign * one.y)))
          .sort((a, b) => a.x - b.x);
        const [low, high] = [Math.min(...rows.map((one) => one.y)), Math.max(...rows.map((one) => one.y))];
        const pad = 0.08 * (high - low || 0.5);
        const logs = Math.max(...rows.map((one) => one.x)) / Math.min(...rows.map((one) => one.x)) > 20;
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
                marginRight: 96,
                x: { label: `${label} →`, type: logs ? "log" : "linear", zero: !logs, nice: true, ticks: 5, tickFormat: brief },
                y: { label: `↑ ${table.headline}`, grid: true, domain: [low - pad, high + pad], ticks: 6 },
                insetRight: 6,
                marks: [
                  line(front, { x: "x", y: "y", curve: "step-after", stroke: "var(--accent)", strokeOpacity: 0.45, strokeWidth: 1.5 }),
                  dot(rows, { x: "x", y: "y", r: 4.5, fill: (one) => (front.includes(one) ? "var(--accent)" : "var(--paper)"), stroke: "var(--accent)", title: (one) => `${one.row.name}: ${number(one.y)} at ${brief(one.x)}` }),
                  text(rows, { x: "x", y: "y", text: (one) => short(one.row.name), dx: 9, textAnchor: "start", fill: "currentColor", fontSize: 11 }),
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

const short = (name: string): string => (name.length > 22 ? `${name.slice(0, 20)}…` : name);

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
            dot(known, { x: "at", y: "value", r: 4, fill: "var(--accent)", title: (one) => `${one.commit ?? "?"}: ${number(one.value)}` }),
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

/** A training's numbers by step, one small chart a number. */
export function Curves({ curve }: { curve: Record<string, (number | null)[]> }) {
  const steps = curve.step ?? [];
  const names = Object.keys(curve).filter((name) => name !== "step" && curve[name].filter((value) => value !== null).length > 1);
  const [all, setAll] = useState(false);
  const first = names.filter((name) => /reward|loss|length|entropy|accuracy|eval|kl/i.test(name));
  const shown = all ? names : (first.length ? first : names).slice(0, 9);
  return (
    <>
      <div class="curves">
        {shown.map((name) => {
          const rows = steps.map((step, at) => ({ step, value: curve[name][at] })).filter((row) => row.value !== null);
          return (
            <figure key={name}>
              <figcaption>{name}</figcaption>
              <Chart
                label={`${name} by step, from ${brief(rows[0].value)} to ${brief(rows.at(-1)!.value)}`}
                max={420}
                make={() => ({
                  height: 150,
                  marginLeft: 48,
                  marginBottom: 28,
                  x: { label: null, ticks: 4 },
                  y: { label: null, ticks: 4, grid: true, nice: true, tickFormat: brief },
                  marks: [line(rows, { x: "step", y: "value", stroke: "var(--accent)", strokeWidth: 1.4 })],
                })}
              />
            </figure>
          );
        })}
      </div>
      {shown.length < names.length && (
        <button type="button" class="plain" onClick={() => setAll(true)}>
          Show all {names.length} numbers
        </button>
      )}
    </>
  );
}

export { duration };

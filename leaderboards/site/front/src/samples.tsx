// The samples of one run, or of two side by side, sorted by who lost most.
import { useLayoutEffect, useMemo, useRef } from "preact/hooks";
import { dot, link } from "@observablehq/plot";
import { columnsOf, runOf, tableOf, theIndex, valueOf, type Both, type Columns, type Row, type Pairs, type RunColumn } from "./board";
import { chunk } from "./chunks";
import { count, number, pValue, plural, signed, signedSpan } from "./format";
import { Chart, TIP } from "./plots";
import { go, href, route, setQuery } from "./route";
import { SampleView } from "./sample";
import { Missing } from "./task";
import { Choice, Crumbs, Loading, Search, SortHead, Thumb, VirtualRows, sorted, type Rows } from "./ui";

const SAME = 1e-9;
const WORDS: Record<string, string> = { p: "parse", m: "model", i: "infrastructure", "-": "no answer yet" };

type Side = { name: string; row: Row; run: string; column: RunColumn };

export function SamplesPage({ name, runs }: { name: string; runs: string[] }) {
  const both = tableOf(name);
  if (!both) return <Missing what={`table ${name}`} />;
  const found = runs.map((run) => runOf(both, run));
  const lost = found.findIndex((one) => !one?.run);
  if (lost >= 0) return <Missing what={`run ${runs[lost]} in ${both.site.title}`} both={both} />;
  const loaded = columnsOf(both.site);
  if (!loaded.value) return loaded.failed ? <Missing what={`samples of ${name}`} /> : <Loading />;
  const columns = loaded.value;
  const sides = found.map((one): Side => ({ name: one!.row.name, row: one!.row, run: one!.run!, column: columns.runs[one!.run!] }));
  return <Samples both={both} columns={columns} sides={sides} />;
}

/** How much the second side lost against the first, or the first's score alone, so that the worst come first. */
function lossOf(sides: Side[], better: string): (at: number) => number | null {
  const sign = better === "higher" ? 1 : -1;
  return (at) => {
    const values = sides.map((side) => side.column.score[at]);
    if (values.some((value) => value === null || value === undefined)) return null;
    return sides.length === 2 ? sign * (values[1]! - values[0]!) : sign * values[0]!;
  };
}

function Samples({ both, columns, sides }: { both: Both; columns: Columns; sides: Side[] }) {
  const { table, site } = both;
  const query = route.value.query;
  const two = sides.length === 2;
  const gain = useMemo(() => lossOf(sides, table.better), [columns, sides.map((side) => side.run).join()]);
  const fallback = two ? "difference" : "score0";
  const sort = query.sort ?? fallback;
  const wanted = Object.entries(query).filter(([key]) => key.startsWith("c."));
  const shown = useMemo(() => {
    const words = (query.q ?? "").toLowerCase().split(/\s+/).filter(Boolean);
    const cut = sides.map((side) => new Set(side.column.cut));
    const checks = wanted.map(([key, value]) => {
      const category = columns.categories[key.slice(2)];
      const place = category?.values.indexOf(value) ?? -1;
      return (at: number) => category?.at[at] === place;
    });
    const fits = (at: number) => {
      if (words.length) {
        const text = `${columns.id[at]} ${columns.question[at]}`.toLowerCase();
        if (!words.every((word) => text.includes(word))) return false;
      }
      if (!checks.every((check) => check(at))) return false;
      const kind = query.failure;
      if (!kind) return true;
      if (kind === "worse") return (gain(at) ?? 0) < -SAME;
      if (kind === "better") return (gain(at) ?? 0) > SAME;
      if (kind === "cut") return cut.some((places) => places.has(at));
      if (kind === "failed") return sides.some((side) => !".-".includes(side.column.failure[at]));
      return sides.some((side) => WORDS[side.column.failure[at]] === kind);
    };
    const kept = columns.id.map((_, at) => at).filter(fits);
    return sorted(kept, sort, (at, key) => {
      if (key === "id") return columns.id[at];
      if (key === "question") return columns.question[at];
      if (key === "difference") return gain(at);
      if (key === "tokens") return Math.max(...sides.map((side) => side.column.tokens[at] ?? 0));
      return sides[Number(key.slice(5))]?.column.score[at];
    });
  }, [columns, sides.map((side) => side.run).join(), query.q, query.failure, sort, wanted.join("~")]);
  const at = query.at ? columns.id.indexOf(query.at) : -1;
  const handle = useRef<Rows | null>(null);
  const open = (place: number) => {
    if (place < 0 || place >= shown.length) return;
    setQuery({ at: columns.id[shown[place]] });
    handle.current?.scrollTo(place);
  };
  useLayoutEffect(() => {
    const move = (event: KeyboardEvent) => {
      if (event.ctrlKey || event.metaKey || event.altKey || /INPUT|SELECT|TEXTAREA/.test((event.target as Element).tagName)) return;
      const here = shown.indexOf(at);
      if (event.key === "j" || event.key === "ArrowDown") open(here + 1);
      else if (event.key === "k" || event.key === "ArrowUp") open(Math.max(0, here - 1));
      else if (event.key === "Escape" && at >= 0) setQuery({ at: "" });
      else if (event.key === "Enter" && at >= 0 && !(event.target as Element).closest("a,button,summary")) go(pageOf(at));
      else return;
      event.preventDefault();
    };
    addEventListener("keydown", move);
    return () => removeEventListener("keydown", move);
  });
  const names = sides.map((side) => side.name);
  const pageOf = (place: number) => href(["task", site.key, "sample", columns.id[place]], { a: names[0], ...(two ? { b: names[1] } : {}) });
  const tally = useMemo(() => {
    let [better, worse] = [0, 0];
    if (two) for (const one of shown) {
      const value = gain(one);
      if (value !== null && value > SAME) better += 1;
      if (value !== null && value < -SAME) worse += 1;
    }
    return { better, worse };
  }, [shown]);
  const runs = table.rows.filter((_, place) => site.runs[place]);
  const change = (side: number, name: string) => {
    const next = [...names];
    if (name) next[side] = name;
    else next.splice(side, 1);
    const { at: _, ...rest } = query;
    go(href(["task", site.key, "samples", ...next], { ...rest, sort: "" }));
  };
  return (
    <main class={at >= 0 ? "work open" : "work"}>
      <div class="worktop">
        <Crumbs parts={[[theIndex()!.board.title, href([])], [site.title, href(["task", site.key])], [two ? "Compare" : "Samples"]]} />
        <h1 class="hidden">
          {names.join(" and ")} on {site.title}
        </h1>
        <div class="tools" role="search">
          {[0, 1].map((side) => (
            <label key={side} class={`choice side side${side}`}>
              <span>{side ? "B" : "A"}</span>
              <select value={names[side] ?? ""} onChange={(event) => change(side, event.currentTarget.value)}>
                {side === 1 && <option value="">alone</option>}
                {runs.map((row) => (
                  <option key={row.name} value={row.name} disabled={row.name === names[1 - side]}>
                    {row.name}
                  </option>
                ))}
              </select>
            </label>
          ))}
          {two && (
            <button type="button" class="plain" title="Exchange A and B" onClick={() => go(href(["task", site.key, "samples", names[1], names[0]], { ...query, sort: "" }))}>
              ⇄<span class="hidden">Exchange A and B</span>
            </button>
          )}
          <Search label="Filter questions and ids" />
          <Choice
            label="Show"
            name="failure"
            options={[
              ["", "all samples"],
              ...(two ? ([["worse", "B is worse"], ["better", "B is better"]] as [string, string][]) : []),
              ["failed", "failures"],
              ["parse", "parse failures"],
              ["model", "model failures"],
              ["cut", "truncated responses"],
            ]}
          />
          {Object.entries(columns.categories).map(([category, { values }]) => (
            <Choice key={category} label={category} name={`c.${category}`} options={[["", "all"], ...values.map((value): [string, string] => [value, value || "–"])]} />
          ))}
        </div>
        <p class="tally" role="status">
          {two && `${count(tally.worse + tally.better) || "none"} of `}
          <b>{plural(shown.length, "sample")}</b>
          {two && " changed"}
          {shown.length < columns.id.length && ` (of ${count(columns.id.length)})`}
          {two && (
            <>
              {": "}
              <span class="down">{count(tally.worse)} worse</span>, <span class="up">{count(tally.better)} better</span> in{" "}
              <span class="side1">{names[1]}</span> than in <span class="side0">{names[0]}</span>
            </>
          )}
        </p>
        {two && <Verdict both={both} sides={sides} />}
      </div>
      <div class="split">
        <VirtualRows
          count={shown.length}
          height={58}
          label={`Samples of ${names.join(" and ")}`}
          handle={handle}
          head={
            <div class={two ? "row two" : "row"} role="row">
              <div role="columnheader"><span class="hidden">Image</span></div>
              <SortHead as="div" name="id" fallback={fallback}>Sample</SortHead>
              <SortHead as="div" name="question" fallback={fallback} class="question">Question</SortHead>
              {sides.map((side, place) => (
                <SortHead as="div" key={side.run} name={`score${place}`} fallback={fallback} class={`num side${place}`} title={side.name}>
                  {two ? "AB"[place] : table.headline}
                </SortHead>
              ))}
              {two && <SortHead as="div" name="difference" fallback={fallback} class="num">B − A</SortHead>}
            </div>
          }
          row={(place, style) => {
            const one = shown[place];
            const values = sides.map((side) => side.column.score[one]);
            const difference = two && values.every((value) => value !== null) ? values[1]! - values[0]! : null;
            const sign = gain(one);
            return (
              <div
                key={columns.id[one]}
                class={`row${two ? " two" : ""}${one === at ? " selected" : ""}`}
                style={style}
                role="row"
                aria-rowindex={place + 2}
                aria-selected={one === at}
                onClick={(event) => {
                  if (!(event.target as Element).closest("a")) open(place);
                }}
              >
                <div role="cell"><Thumb site={site} at={one} medium={columns.mediums[columns.media[one]?.[0]]} /></div>
                <div role="cell" class="id"><a href={pageOf(one)}>{columns.id[one]}</a></div>
                <div role="cell" class="question">{columns.question[one] || <span class="quiet">–</span>}</div>
                {sides.map((side, place) => (
                  <div role="cell" key={side.run} class="num">
                    {number(values[place])}
                    <Flag letter={side.column.failure[one]} cut={side.column.cut.includes(one)} />
                  </div>
                ))}
                {two && (
                  <div role="cell" class={`num delta ${sign !== null && sign < -SAME ? "down" : sign !== null && sign > SAME ? "up" : ""}`}>
                    {signed(difference)}
                  </div>
                )}
              </div>
            );
          }}
        />
        <aside aria-label={at >= 0 ? `Sample ${columns.id[at]}` : "Summary"}>
          {at >= 0 ? (
            <>
              <div class="panehead">
                <h2><a href={pageOf(at)}>{columns.id[at]}</a></h2>
                <span class="quiet">{shown.indexOf(at) >= 0 ? `${shown.indexOf(at) + 1} of ${shown.length}` : "filtered out"}</span>
                <button type="button" class="plain" onClick={() => open(shown.indexOf(at) - 1)} aria-label="Previous sample" title="Previous (k)">↑</button>
                <button type="button" class="plain" onClick={() => open(shown.indexOf(at) + 1)} aria-label="Next sample" title="Next (j)">↓</button>
                <button type="button" class="plain" onClick={() => setQuery({ at: "" })} aria-label="Close" title="Close (Esc)">✕</button>
              </div>
              <SampleView both={both} columns={columns} at={at} runs={sides.map(({ name, run }) => ({ name, run }))} />
            </>
          ) : (
            <Summary both={both} columns={columns} sides={sides} shown={shown} onOpen={(one) => open(shown.indexOf(one))} />
          )}
        </aside>
      </div>
    </main>
  );
}

/** The sentence on both runs over all samples, whatever the list shows. */
function Verdict({ both: { site, table }, sides }: { both: Both; sides: Side[] }) {
  const pairs = chunk<Pairs>(`${site.id}/pairs`);
  if (!pairs.value) return pairs.failed ? null : <p class="verdictline quiet">…</p>;
  const found = pairs.value[sides.map((side) => side.run.slice(1)).join("-")];
  if (!found) return <p class="verdictline quiet">These two runs are not compared here: harness diff does it.</p>;
  const kind = found.verdict.startsWith("B is worse") ? "down" : found.verdict.startsWith("B is better") ? "up" : "";
  return (
    <>
      <p class="verdictline">
        <b class={kind}>{found.verdict}</b>
        <span class="quiet">
          {table.headline} of all {plural(site.n, "sample")}: B − A {signed(found.difference)}
          {found.interval && ` (95 % interval ${signedSpan(found.interval)})`}
          {found.p_value !== null &&
            `, ${pValue(found.p_value)} (p is for this comparison alone: multiply it by the number of comparisons made)`}
        </span>
      </p>
      <p class="changes">
        <span class="quiet">A → B</span>
        {found.changed.map((line) => <span>{line}</span>)}
        {!found.changed.length && <span class="quiet">the same prompt and settings</span>}
      </p>
    </>
  );
}

export function Flag({ letter, cut }: { letter: string; cut: boolean }) {
  return (
    <>
      {letter && letter !== "." && <small class="flag">{WORDS[letter] ?? letter}</small>}
      {cut && <small class="flag">truncated</small>}
    </>
  );
}

/** Two runs: every sample as a point. One run: how its scores are spread. */
function Summary(props: { both: Both; columns: Columns; sides: Side[]; shown: number[]; onOpen: (at: number) => void }) {
  const { both, sides, shown, onOpen } = props;
  const { table } = both;
  if (sides.length === 1) {
    const values = shown.map((at) => sides[0].column.score[at]).filter((value): value is number => value !== null);
    if (!values.length) return <p class="quiet">No sample has a score of its own.</p>;
    const [low, high] = [Math.min(0, ...values), Math.max(1, ...values)];
    const bins = Array.from({ length: 20 }, () => 0);
    for (const value of values) bins[Math.min(19, Math.floor((20 * (value - low)) / (high - low)))] += 1;
    const most = Math.max(...bins);
    return (
      <section>
        <h2>{table.headline} by sample</h2>
        <div class="bins" role="img" aria-label={`${table.headline} of ${count(values.length)} samples in 20 bins: ${bins.join(", ")}`}>
          {bins.map((bin, place) => (
            <span key={place} style={{ height: `${(100 * bin) / most}%` }} title={`${number(low + (place * (high - low)) / 20)} to ${number(low + ((place + 1) * (high - low)) / 20)}: ${bin}`} />
          ))}
        </div>
        <p class="ends"><span>{number(low)}</span><span>{number(high)}</span></p>
        <p class="hint">Choose a sample to see it. Keys: j and k move, Enter opens the page, / filters, Esc closes.</p>
      </section>
    );
  }
  const points = shown
    .map((at) => ({ at, x: sides[0].column.score[at], y: sides[1].column.score[at] }))
    .filter((one): one is { at: number; x: number; y: number } => one.x !== null && one.y !== null);
  const distinct = new Set(points.flatMap((one) => [one.x, one.y]));
  const sign = table.better === "higher" ? 1 : -1;
  // Points move only where most of them lie on one another.
  const places = new Set(points.map((one) => `${one.x},${one.y}`));
  const jitter = distinct.size < 12 && 2 * places.size < points.length ? 0.05 : 0;
  const noise = (at: number, salt: number) => jitter * (((Math.imul(at + 1, 2654435761 + salt * 40503) >>> 8) % 1000) / 500 - 1);
  const colour = (one: { x: number; y: number }) => (Math.abs(one.y - one.x) < SAME ? "var(--quiet)" : sign * (one.y - one.x) > 0 ? "var(--up)" : "var(--bad)");
  const placed = points.map((one) => ({ ...one, x: one.x + noise(one.at, 0), y: one.y + noise(one.at, 1), colour: colour(one) }));
  const ends = [Math.min(0, ...distinct), Math.max(1, ...distinct)];
  const [a, b] = sides;
  return (
    <section>
      <h2>Every sample, A against B</h2>
      <Chart
        label={`${table.headline} of ${b.name} against ${a.name} over ${count(points.length)} samples`}
        max={460}
        points={placed.map((one) => ({ x: one.x, y: one.y, pick: () => onOpen(one.at) }))}
        make={(width) => ({
          height: width,
          marginLeft: 44,
          x: { label: `A: ${a.name} →`, domain: [ends[0] - jitter, ends[1] + jitter], ticks: 5 },
          y: { label: `↑ B: ${b.name}`, domain: [ends[0] - jitter, ends[1] + jitter], ticks: 5 },
          marks: [
            link([0], { x1: ends[0], y1: ends[0], x2: ends[1], y2: ends[1], stroke: "var(--rule)", strokeWidth: 1.5 }),
            dot(placed, { x: "x", y: "y", r: placed.length > 1000 ? 2 : 3.2, fill: "colour", fillOpacity: placed.length > 1000 ? 0.35 : 0.55, title: (one) => `${props.columns.id[one.at]}\nA ${number(a.column.score[one.at])}, B ${number(b.column.score[one.at])}`, tip: TIP }),
          ],
        })}
      />
      {[...distinct].every((one) => one === 0 || one === 1) && (
        <table class="quad">
          <tbody>
            {[[1, 1, "both right"], [1, 0, "only A right"], [0, 1, "only B right"], [0, 0, "both wrong"]].map(([x, y, text]) => (
              <tr key={text}><th scope="row">{text}</th><td class="num">{count(points.filter((one) => one.x === x && one.y === y).length)}</td></tr>
            ))}
          </tbody>
        </table>
      )}
      <p class="hint">
        {sign > 0 ? "Below" : "Above"} the line B lost. {jitter > 0 && "Points that lie on one another are moved apart. "}Press a point to see its sample. {table.headline}: A {number(valueOf(table, a.row))}, B {number(valueOf(table, b.row))}.
      </p>
    </section>
  );
}

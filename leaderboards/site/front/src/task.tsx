// One table: ranking, breakdowns, cost, history.
import { isPublished, tableOf, theIndex, valueOf, type Both, type Row } from "./board";
import { arrow, count, duration, number, pValue, percent, signed, signedSpan, span } from "./format";
import { Costs, History } from "./plots";
import { go, href, route, setQuery } from "./route";
import { Strip } from "./strip";
import { AxisEnds, Badges, Crumbs, Hide, Interval, RefusedRows, Reported, Scroll, Search, SortHead, Switch, axisOf, hiddenIn, isOn, sorted, sourceOf } from "./ui";

const VIEWS: [string, string][] = [
  ["", "Ranking"],
  ["breakdown", "Breakdown"],
  ["cost", "Cost"],
  ["history", "History"],
];

export function TaskPage({ name }: { name: string }) {
  const both = tableOf(name);
  if (!both) return <Missing what={`table ${name}`} />;
  const { table, site } = both;
  const view = route.value.query.view ?? "";
  const measured = table.rows.filter((row) => !isPublished(row));
  return (
    <main>
      <Crumbs parts={[[theIndex()!.board.title, href([])], [site.title]]} />
      <header class="title">
        <h1>{site.title}</h1>
        <p>{site.facts}</p>
        <p class="about">
          <b>
            {table.headline} {arrow(table.better)}
          </b>{" "}
          {site.about}
        </p>
      </header>
      <nav class="tabs" aria-label="Views">
        {VIEWS.map(([value, text]) => (
          <a key={value} href={href(["task", name], value ? { view: value } : {})} aria-current={view === value ? "page" : undefined}>
            {text}
          </a>
        ))}
        {measured[0] && <a href={href(["task", name, "samples", measured[0].name])}>Samples</a>}
      </nav>
      {view === "breakdown" ? <Breakdowns both={both} /> : view === "cost" ? <Costs both={both} /> : view === "history" ? <Histories both={both} /> : (
        <>
          <Ranking both={both} />
          <Strip both={both} />
        </>
      )}
      <Notes both={both} />
    </main>
  );
}

/** Says what a link names and the board lacks; `both` is the table that it would be in. */
export function Missing({ what, both }: { what: string; both?: Both }) {
  const table: [string, string?][] = both ? [[both.site.title, href(["task", both.site.key])]] : [];
  return (
    <main>
      <Crumbs parts={[[theIndex()!.board.title, href([])], ...table, ["not found"]]} />
      <p class="empty">This board has no {what}. It may have been built from other runs.{both && <> Its runs are in <a href={table[0][1]}>the ranking</a>.</>}</p>
    </main>
  );
}

function Notes({ both: { table, site } }: { both: Both }) {
  const notes = [...table.notes, ...(site.note ? [site.note] : [])];
  return notes.length ? (
    <section class="notes" aria-label="Notes">
      <h2>Notes</h2>
      {notes.map((note) => (
        <p key={note} class="note">
          {note}
        </p>
      ))}
    </section>
  ) : null;
}

const EXTRA: [string, string, (row: Row) => number | null | undefined, (value: number) => string][] = [
  ["@answered", "Answered", (row) => row.answered, percent],
  ["@failures", "Failures", (row) => row.n_failed, count],
  ["@tokens", "Tokens", (row) => row.usage?.completion_tokens, count],
  ["@frames", "Frames", (row) => row.usage?.frames, count],
  ["@seconds", "Time", (row) => row.seconds, duration],
];
const RARE = ["@frames", "@seconds", "@tokens"]; // hidden until asked for
const METRICS = 2; // beside the headline that are shown until others are asked for

function Ranking({ both }: { both: Both }) {
  const { table, site } = both;
  const query = route.value.query;
  const first = table.rows.find((row) => !isPublished(row));
  const metrics = [...new Set([table.headline, ...Object.keys(first?.metrics ?? {})])];
  const usual = [...RARE, ...metrics.slice(METRICS + 1)].sort().join("~");
  const hidden = hiddenIn("hide", usual);
  const picked = (query.pick ?? "").split("~").filter(Boolean);
  const words = (query.q ?? "").toLowerCase().split(/\s+/).filter(Boolean);
  const published = isOn("published");
  const rows = table.rows.filter(
    (row) => (published || !isPublished(row)) && words.every((word) => `${row.name} ${row.model_spec ?? ""}`.toLowerCase().includes(word)),
  );
  const sort = query.sort ?? "";
  const list = sort
    ? sorted(rows, sort, (row, name) =>
        name === "rank" ? row.rank : name === "model" ? row.name : name === "best" ? row.to_best?.difference : name.startsWith("@") ? EXTRA.find(([key]) => key === name)?.[2](row) : row.metrics[name],
      )
    : rows;
  const parts = [list.filter((row) => !isPublished(row)), list.filter(isPublished)];
  const axis = axisOf(list.map((row) => valueOf(table, row)), list.map((row) => row.intervals?.[table.headline]));
  const best = first ? valueOf(table, first) : null;
  const extra = EXTRA.filter(([name]) => !hidden.has(name));
  const others = metrics.slice(1).filter((name) => !hidden.has(name));
  const wide = 6 + others.length + extra.length;
  const pick = (name: string) => setQuery({ pick: (picked.includes(name) ? picked.filter((one) => one !== name) : [...picked, name].slice(-2)).join("~") });
  const body = (part: Row[]) =>
    part.length > 0 && (
      <tbody>
        {isPublished(part[0]) && <Reported span={wide} />}
        {part.map((row) => (
          <tr key={`${row.kind}${row.name}`} class={isPublished(row) ? "published" : row.rank === 1 ? "first" : undefined}>
            <td class="pick">
              {!isPublished(row) && (
                <input type="checkbox" aria-label={`Compare ${row.name}`} checked={picked.includes(row.name)} onChange={() => pick(row.name)} />
              )}
            </td>
            <td class="num">{row.rank ?? "–"}</td>
            <th scope="row" class="model">
              {isPublished(row) ? row.name : <a href={href(["task", site.key, "run", row.name])}>{row.name}</a>} <Badges row={row} />
              {isPublished(row) ? <small>{sourceOf(row)}</small> : row.model_spec !== row.model && <code class="spec">{row.model_spec}</code>}
              {row.rescored !== undefined && <small class="trace">{trace(row)}</small>}
              {row.published?.text && <small class={`verdict ${row.published.verdict ?? ""}`}>{row.published.text}</small>}
              {row.progress && <small>{row.progress.answered} of {row.progress.total} answered</small>}
            </th>
            <td class="num headline">{number(valueOf(table, row))}</td>
            <td class="bar">
              {axis && <Interval axis={axis} value={valueOf(table, row)} interval={row.intervals?.[table.headline]} best={best} hollow={isPublished(row) || row.kind === "running"} />}
              {row.intervals?.[table.headline] && <small>{span(row.intervals[table.headline])}</small>}
            </td>
            <ToBest row={row} best={first} siteKey={site.key} />
            {others.map((name) => (
              <td key={name} class="num">{number(row.metrics[name])}</td>
            ))}
            {extra.map(([name, , of, show]) => {
              const value = of(row);
              return (
                <td key={name} class={name === "@failures" && value ? "num failed" : "num"}>
                  {name === "@failures" && value ? (
                    <a href={href(["task", site.key, "samples", row.name], { failure: "failed" })}>{count(value)}</a>
                  ) : value === null || value === undefined ? "–" : show(value)}
                </td>
              );
            })}
          </tr>
        ))}
      </tbody>
    );
  return (
    <>
      <div class="tools" role="search">
        <Search label="Filter models" />
        <Hide label="Columns" name="hide" fallback={usual} options={[...metrics.slice(1).map((name): [string, string] => [name, name]), ...EXTRA.map(([name, text]): [string, string] => [name, text])]} />
        {table.rows.some(isPublished) && <Switch label="Reported in papers" name="published" />}
        <span class="push" />
        <button
          type="button"
          class="main"
          disabled={picked.length !== 2}
          onClick={() => {
            const order = table.rows.filter((row) => picked.includes(row.name)).map((row) => row.name);
            go(href(["task", site.key, "samples", ...order]));
          }}
        >
          {picked.length === 2 ? "Compare two" : "Mark two to compare"}
        </button>
      </div>
      <Scroll label={`Ranking for ${site.title}`}>
        <table class="ranking">
          <thead>
            <tr>
              <th scope="col" class="pick">
                <span class="hidden">Compare</span>
              </th>
              <SortHead name="rank" class="num">Rank</SortHead>
              <SortHead name="model" class="model">Model</SortHead>
              <SortHead name={table.headline} first={table.better === "lower" ? "up" : "down"} class="num" title={first?.about?.[table.headline]}>
                {table.headline} {arrow(table.better)}
              </SortHead>
              <th scope="col" class="bar">
                95 % interval <AxisEnds axis={axis} />
              </th>
              <SortHead name="best" first="down" class="num">To best</SortHead>
              {others.map((name) => (
                <SortHead key={name} name={name} first={first?.better?.[name] === "lower" ? "up" : "down"} class="num" title={first?.about?.[name]}>
                  {name} {arrow(first?.better?.[name])}
                </SortHead>
              ))}
              {extra.map(([name, text]) => (
                <SortHead key={name} name={name} first="down" class="num">{text}</SortHead>
              ))}
            </tr>
          </thead>
          {body(parts[0])}
          <RefusedRows refused={theIndex()!.board.refused.filter((one) => one.task === table.task)} span={wide} before={2} />
          {body(parts[1])}
        </table>
      </Scroll>
      {list.length === 0 && <p class="empty">No row fits the filter.</p>}
      <p class="hint">
        {theIndex()!.site.rule} Bars show each row's own interval; they may overlap although the paired comparison shows a difference, which stands
        out in colour.
      </p>
    </>
  );
}

/** Where a row's number comes from, in a line. */
function trace(row: Row): string {
  const weights = [...new Set(Object.values(row.weights ?? {}).map((hash) => hash.slice(0, 8)))];
  const parts = [row.rescored ? "re-scored ✓" : "not re-scored", row.commit && `commit ${row.commit.slice(0, 8)}${row.dirty ? "*" : ""}`, weights.length > 0 && `weights ${weights.join(" ")}`];
  return parts.filter(Boolean).join(" · ");
}

function ToBest({ row, best, siteKey }: { row: Row; best: Row | undefined; siteKey: string }) {
  const versus = row.to_best;
  if (!versus || !best || versus.difference === null) return <td class="num none">–</td>;
  const interval = versus.interval;
  const worse = interval !== null && (versus.better === "higher" ? interval[1] < 0 : interval[0] > 0);
  return (
    <td class={worse ? "num shown" : "num"}>
      <a href={href(["task", siteKey, "samples", best.name, row.name])} title={`Compare ${row.name} with ${best.name}, sample by sample`}>
        {signed(versus.difference)}
      </a>
      {interval && <small>{signedSpan(interval)}</small>}
      {versus.p_value !== null && <small>{pValue(versus.p_value)}</small>}
    </td>
  );
}

/** Numbers of every model by each value of a category, as heat maps. */
function Breakdowns({ both: { table, site } }: { both: Both }) {
  const rows = table.rows.filter((row) => row.breakdowns && Object.keys(row.breakdowns).length);
  const categories = [...new Set(rows.flatMap((row) => Object.keys(row.breakdowns!)))];
  if (!categories.length) return <p class="empty">This task has no categories.</p>;
  return (
    <>
      {categories.map((category) => {
        const values = [...new Set(rows.flatMap((row) => Object.keys(row.breakdowns![category] ?? {})))];
        const numberOf = (row: Row, value: string) => row.breakdowns![category]?.[value]?.metrics[table.headline] ?? null;
        const known = rows.flatMap((row) => values.map((value) => numberOf(row, value))).filter((one): one is number => one !== null);
        const [low, high] = [Math.min(...known), Math.max(...known)];
        const size = (value: string) => rows.map((row) => row.breakdowns![category]?.[value]?.n).find((n) => n !== undefined) ?? 0;
        return (
          <section key={category} class="breakdown">
            <h2>
              {table.headline} by {category}
            </h2>
            <Scroll label={`${table.headline} by ${category}`}>
              <table class="heat">
                <thead>
                  <tr>
                    <th scope="col" class="model">Model</th>
                    {values.map((value) => (
                      <th key={value} scope="col" class="num">
                        {value || "–"}
                        <small class={size(value) < 10 ? "few" : undefined}>n = {count(size(value))}</small>
                      </th>
                    ))}
                  </tr>
                </thead>
                <tbody>
                  {rows.map((row) => (
                    <tr key={row.name}>
                      <th scope="row" class="model">{row.name}</th>
                      {values.map((value) => {
                        const one = numberOf(row, value);
                        const share = one === null || high === low ? 0 : (one - low) / (high - low);
                        const heat = table.better === "higher" ? share : 1 - share;
                        return (
                          <td key={value} class={size(value) < 10 ? "num few" : "num"} style={one === null ? undefined : { "--heat": `${(heat * 62).toFixed(0)}%` } as never}>
                            {one === null ? "–" : <a href={href(["task", site.key, "samples", row.name], { [`c.${category}`]: value })}>{number(one)}</a>}
                          </td>
                        );
                      })}
                    </tr>
                  ))}
                </tbody>
              </table>
            </Scroll>
          </section>
        );
      })}
      <p class="hint">Darker is better, on one scale a category. Fewer than 10 samples stand in italics: such a number says little. A number opens its samples.</p>
    </>
  );
}

function Histories({ both }: { both: Both }) {
  if (!both.site.history.length) {
    return <p class="empty">History needs runs of one model at two commits or more. Add their folders with --runs.</p>;
  }
  return (
    <>
      {both.site.history.map((series) => (
        <History key={series.spec} both={both} series={series} />
      ))}
    </>
  );
}

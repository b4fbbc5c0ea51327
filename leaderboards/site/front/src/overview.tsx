// Every model's headline number in every table.
import { isPublished, theIndex, valueOf, type Grid, type Row, type SiteTable, type Table } from "./board";
import { arrow, beside, number, plural } from "./format";
import { href, route } from "./route";
import { Strip } from "./strip";
import { Badges, Choice, Hide, RefusedRows, Reported, Scroll, Search, SortHead, Switch, hiddenIn, isOn, sorted, sourceOf } from "./ui";

type Line = { name: string; rows: (Row | undefined)[]; published: boolean };

function lines(tables: Table[], published: boolean): Line[] {
  const found = new Map<string, Line>();
  tables.forEach((table, place) => {
    for (const row of table.rows) {
      if (isPublished(row) && !published) continue;
      const key = `${isPublished(row) ? "published" : ""} ${row.name}`;
      let line = found.get(key);
      if (!line) found.set(key, (line = { name: row.name, rows: [], published: isPublished(row) }));
      line.rows[place] ??= row;
    }
  });
  return [...found.values()];
}

export function Overview() {
  const { board, site } = theIndex()!;
  const query = route.value.query;
  const words = (query.q ?? "").toLowerCase().split(/\s+/).filter(Boolean);
  const hidden = hiddenIn("hide");
  const group = query.group ?? "";
  const all = board.tables.map((table, place) => ({ table, site: site.tables[place], place }));
  const groups = [...new Set(board.tables.map((table) => table.task))];
  const shown = all.filter(({ table, site }) => !hidden.has(site.key) && (!group || table.task === group));
  const anyPublished = board.tables.some((table) => table.rows.some(isPublished));
  const found = lines(board.tables, isOn("published")).filter(
    (line) =>
      words.every((word) => `${line.name} ${line.rows.map((row) => row?.model_spec ?? "").join(" ")}`.toLowerCase().includes(word)) &&
      shown.some(({ place }) => line.rows[place]),
  );
  const list = query.sort
    ? sorted(found, query.sort, (line, name) => {
        if (name === "model") return line.name;
        const one = all.find(({ site }) => site.key === name);
        return one && line.rows[one.place] ? valueOf(one.table, line.rows[one.place]!) : null;
      })
    : found;
  const parts = [list.filter((line) => !line.published), list.filter((line) => line.published)];
  const every = lines(board.tables, true);
  const counted = (part: Line[], published: boolean) => `${part.length} of ${every.filter((line) => line.published === published).length}`;
  const spans: { task: string; count: number }[] = [];
  for (const { table } of shown) {
    if (spans.at(-1)?.task === table.task) spans.at(-1)!.count += 1;
    else spans.push({ task: table.task, count: 1 });
  }
  return (
    <main>
      <header class="title">
        <h1>{board.title}</h1>
        <p>{site.summary}</p>
        {site.trainings > 0 && <p><a href={href(["trainings"])}>Curves of {plural(site.trainings, "training")}</a></p>}
      </header>
      <div class="tools" role="search">
        <Search label="Filter models" />
        {groups.length > 1 && <Choice label="Task" name="group" options={[["", "all tasks"], ...groups.map((one): [string, string] => [one, one])]} />}
        <Hide label="Columns" name="hide" options={site.tables.map((one): [string, string] => [one.key, one.title])} />
        {anyPublished && <Switch label="Reported in papers" name="published" />}
        <span class="quiet push">
          {counted(parts[0], false)} models measured
          {anyPublished && `, ${counted(parts[1], true)} rows of papers`}
          {board.refused.length > 0 && `, ${plural(board.refused.length, "run")} refused`}
        </span>
      </div>
      <Scroll label="Overview">
        <table class="overview">
          <thead>
            <tr class="groups">
              <td />
              {spans.map(({ task, count }) => (
                <th key={task} scope="colgroup" colSpan={count}>
                  {task}
                </th>
              ))}
            </tr>
            <tr>
              <SortHead name="model" class="model">
                Model
              </SortHead>
              {shown.map(({ table, site }) => (
                <SortHead key={site.key} name={site.key} first={table.better === "lower" ? "up" : "down"} class="num" title={site.about} before={<a href={href(["task", site.key])}>{table.split}{table.subset && ` (${table.subset})`}</a>}>
                  <small>
                    {table.headline} {arrow(table.better)}
                  </small>
                  <small>{table.protocol}</small>
                </SortHead>
              ))}
            </tr>
          </thead>
          <Lines part={parts[0]} shown={shown} />
          <RefusedRows refused={board.refused} span={Math.max(2, shown.length + 1)} />
          <Lines part={parts[1]} shown={shown} />
        </table>
      </Scroll>
      {list.length === 0 && <p class="empty">{board.tables.length ? "No model fits the filter." : "No run stands on this board."}</p>}
      <p class="hint">
        ↑: higher is better; ↓: lower. Bold: rank 1 in its table, shared where no difference is shown. Columns are different quantities and are not averaged. A bar
        shows a number as a share of the largest in its column.
      </p>
      {board.grid && <GridView grid={board.grid} />}
      {shown.map(({ table, site }) => (
        <Strip key={site.key} both={{ table, site }} title={site.title} />
      ))}
    </main>
  );
}

/** Rows that were measured, or rows of papers. */
function Lines({ part, shown }: { part: Line[]; shown: { table: Table; site: SiteTable; place: number }[] }) {
  return part.length ? (
    <tbody>
      {part[0].published && <Reported span={shown.length + 1} />}
      {part.map((line) => (
        <tr key={line.name} class={line.published ? "published" : undefined}>
          <th scope="row" class="model">
            {line.name} <Marks rows={line.rows} />
          </th>
          {shown.map(({ table, site, place }) => (
            <Cell key={site.key} table={table} siteKey={site.key} row={line.rows[place]} />
          ))}
        </tr>
      ))}
    </tbody>
  ) : null;
}

/** The table of a paper: what it prints, and what was measured here. */
function GridView({ grid }: { grid: Grid }) {
  const columns = grid.rows[0]?.[1].map((cell) => cell.column + (cell.unit === "percent" ? ", %" : "")) ?? [];
  return (
    <section>
      <h2>{grid.heading}</h2>
      <Scroll label={grid.heading}>
        <table class="grid">
          <thead>
            <tr>
              <th scope="col" class="model">Row</th>
              {columns.map((column) => <th key={column} scope="col" class="num">{column}</th>)}
            </tr>
          </thead>
          <tbody>
            {grid.rows.map(([name, cells]) => (
              <tr key={name}>
                <th scope="row" class="model">{name}</th>
                {cells.map((cell) => (
                  <td key={cell.column} class="num" title={[cell.defect, cell.reproduction?.text].filter(Boolean).join("; ")}>
                    {(cell.printed !== null || cell.value === null) && <span class="quiet">{cell.printed ?? "–"}</span>}
                    {cell.printed !== null && cell.value !== null && " → "}
                    {cell.value !== null && <b class={`verdict ${cell.reproduction?.verdict ?? ""}`}>{beside(cell.value, cell.printed, cell.unit)}</b>}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </Scroll>
      <p class="hint">
        {grid.rows.some(([, cells]) => cells.some((cell) => cell.printed !== null)) ? (
          <><span class="quiet">Grey</span>: printed in the paper. <b>Bold</b>, after the arrow or alone: measured here; the pointer on it shows the verdict. –: neither.</>
        ) : (
          <><b>Bold</b>: measured here. –: not measured.</>
        )}
      </p>
    </section>
  );
}

/** The marks that any of a model's rows has, each once. */
function Marks({ rows }: { rows: (Row | undefined)[] }) {
  const known = rows.filter((row): row is Row => Boolean(row));
  const merged: Row = {
    name: "",
    rank: null,
    metrics: {},
    kind: known.every(isPublished) ? "published" : known.some((row) => row.kind === "running") ? "running" : "measured",
    source: known[0]?.source,
    trained_on: known.find((row) => row.trained_on)?.trained_on,
    deviations: known.flatMap((row) => row.deviations ?? []),
    transductive: known.some((row) => row.transductive),
    badges: [...new Set(known.flatMap((row) => row.badges ?? []))],
    answered: Math.min(1, ...known.map((row) => row.answered ?? 1)),
  };
  return <Badges row={merged} />;
}

const ends = new WeakMap<Table, [number, number]>();

function share(table: Table, value: number): number {
  let found = ends.get(table);
  if (!found) {
    const values = table.rows.map((row) => valueOf(table, row)).filter((one): one is number => one !== null);
    ends.set(table, (found = [Math.min(0, ...values), Math.max(...values)]));
  }
  const [low, high] = found;
  return high > low ? (value - low) / (high - low) : 0;
}

function Cell({ table, siteKey, row }: { table: Table; siteKey: string; row: Row | undefined }) {
  const value = row ? valueOf(table, row) : null;
  if (!row || value === null) return <td class="num none">–</td>;
  const text = number(value);
  const bar = <i class="bar" style={{ width: `${(100 * share(table, value)).toFixed(1)}%` }} />;
  if (isPublished(row)) {
    return (
      <td class="num" title={`printed ${Object.values(row.source?.printed ?? {}).join(", ")}; ${sourceOf(row)}`}>
        {text}
        {bar}
      </td>
    );
  }
  // The first of one row is first among nothing.
  const several = table.rows.filter((one) => !isPublished(one)).length > 1;
  return (
    <td class={row.rank === 1 && several ? "num first" : "num"}>
      <a href={href(["task", siteKey, "run", row.name])}>{text}</a>
      {bar}
    </td>
  );
}

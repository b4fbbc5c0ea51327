// One run: its numbers, what failed and why, configuration, environment, training.
import { useState } from "preact/hooks";
import { columnsOf, runOf, tableOf, theIndex, valueOf, type Both, type Columns, type Row, type RunPage as Page } from "./board";
import { chunk } from "./chunks";
import { arrow, brief, count, duration, number, percent, plural, span } from "./format";
import { Curves } from "./plots";
import { href } from "./route";
import { Missing } from "./task";
import { Blocks, Response } from "./text";
import { Badges, Crumbs, Interval, Scroll, Thumb, axisOf } from "./ui";

export function RunPage({ name, run }: { name: string; run: string }) {
  const both = tableOf(name);
  if (!both) return <Missing what={`table ${name}`} />;
  const found = runOf(both, run);
  if (!found) return <Missing what={`run ${run} in ${both.site.title}`} both={both} />;
  const { table, site } = both;
  const { row } = found;
  const page = found.run ? chunk<Page>(`${site.id}/${found.run}`).value : undefined;
  const columns = found.run ? columnsOf(site).value : undefined;
  const place = table.rows.indexOf(row);
  const rival = table.rows.find((_, at) => at !== place && site.runs[at]);
  return (
    <main class="runpage">
      <Crumbs parts={[[theIndex()!.board.title, href([])], [site.title, href(["task", name])], [run]]} />
      <header class="title">
        <h1>{run} <Badges row={row} /></h1>
        {row.model_spec && <p><code class="spec">{row.model_spec}</code></p>}
        <p>{site.facts}</p>
      </header>
      <dl class="figures">
        <div class="lead">
          <dt>{table.headline} {arrow(table.better)}</dt>
          <dd>{number(valueOf(table, row))}<small>{span(row.intervals?.[table.headline])}</small></dd>
        </div>
        <div><dt>Rank</dt><dd>{row.rank ?? "–"}<small>of {plural(table.rows.filter((one) => one.kind !== "published").length, "row")}</small></dd></div>
        {row.n_total !== undefined && <div><dt>Answered</dt><dd>{percent((row.n_scored ?? 0) / row.n_total)}<small>{count(row.n_scored ?? 0)} of {count(row.n_total)}</small></dd></div>}
        {row.seconds ? <div><dt>Time</dt><dd>{duration(row.seconds)}<small>{brief(row.seconds / (row.n_total || 1))} s a sample</small></dd></div> : null}
        {row.usage && row.usage.completion_tokens > 0 && <div><dt>Tokens</dt><dd>{brief(row.usage.completion_tokens)}<small>{brief(row.usage.completion_tokens / (row.n_total || 1))} a sample</small></dd></div>}
      </dl>
      {found.run && (
        <p class="doors">
          <a class="main" href={href(["task", name, "samples", run])}>See its samples</a>
          {rival && <a href={href(["task", name, "samples", ...(table.rows.indexOf(rival) < place ? [rival.name, run] : [run, rival.name])])}>Compare with {rival.name}</a>}
        </p>
      )}
      {row.published?.text && <p class={`note verdict ${row.published.verdict ?? ""}`}>{row.published.text}. Known differences: {row.published.differences.join("; ") || "none"}.</p>}
      {row.deviations?.length ? (
        <section>
          <h2>Differences from the paper</h2>
          <ul>{row.deviations.map(({ setting, used, paper, of }) => <li key={setting}>{setting}: {used}; the {of}: {paper}</li>)}</ul>
        </section>
      ) : null}
      {columns && found.run && <Failures both={both} columns={columns} run={found.run} row={row} />}
      <Metrics both={both} row={row} />
      {page && <Training row={row} page={page} />}
      {page && <Record row={row} page={page} />}
    </main>
  );
}

function Metrics({ both: { table }, row }: { both: Both; row: Row }) {
  const names = Object.keys(row.metrics);
  const intervals = names.map((name) => row.intervals?.[name]);
  const shares = names.filter((name) => {
    const value = row.metrics[name];
    return value !== null && value >= 0 && value <= 1;
  });
  const axis = axisOf(shares.map((name) => row.metrics[name]), shares.map((name) => row.intervals?.[name]));
  return (
    <section>
      <h2>Numbers</h2>
      <Scroll label="Numbers">
        <table class="numbers">
          <thead><tr><th scope="col">Metric</th><th scope="col" class="num">Value</th><th scope="col" class="bar">95 % interval</th><th scope="col">What it is</th></tr></thead>
          <tbody>
            {names.map((name, at) => (
              <tr key={name}>
                <th scope="row">{name}{"\u00a0"}{arrow(row.better?.[name])}{name === table.headline && <small>headline</small>}</th>
                <td class="num">{number(row.metrics[name])}</td>
                <td class="bar">
                  {axis && shares.includes(name) && <Interval axis={axis} value={row.metrics[name]} interval={intervals[at]} best={null} />}
                  {intervals[at] && <small>{span(intervals[at])}</small>}
                </td>
                <td class="about">{row.about?.[name]}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </Scroll>
    </section>
  );
}

const KINDS: [string, string, string][] = [["p", "parse", "The response could not be read."], ["m", "model", "The model failed or ran out of tokens."], ["i", "infrastructure", "Not the model's doing."]];
const SHOWN = 6;

/** The failures of each kind and the lowest scores, as pictures with their scores. */
function Failures({ both, columns, run, row }: { both: Both; columns: Columns; run: string; row: Row }) {
  const { table, site } = both;
  const column = columns.runs[run];
  if (!column) return null;
  const worst = columns.id
    .map((_, at) => at)
    .filter((at) => column.score[at] !== null && column.failure[at] === ".")
    .sort((a, b) => (table.better === "higher" ? 1 : -1) * (column.score[a]! - column.score[b]!))
    .slice(0, 2 * SHOWN);
  const list = (query: Record<string, string>) => href(["task", site.key, "samples", row.name], query);
  const causes = [
    ...KINDS.map(([letter, name, about]) => ({
      title: `${name} failures`,
      about,
      places: [...column.failure].flatMap((one, at) => (one === letter ? [at] : [])),
      more: list({ failure: name }),
    })),
    { title: "truncated responses", about: "The response ran into the limit of tokens.", places: column.cut, more: list({ failure: "cut" }) },
  ];
  const none = causes.filter((cause) => !cause.places.length).map((cause) => cause.title);
  return (
    <section>
      <h2>What went wrong</h2>
      {none.length > 0 && <p class="quiet">No {none.join(", no ")}.</p>}
      {causes.filter((cause) => cause.places.length).map(({ title, about, places, more }) => (
        <section key={title} class="cause">
          <h3><b>{count(places.length)}</b> of {count(columns.id.length)}: {title}</h3>
          <p class="quiet">{about} {places.length > SHOWN && <a href={more}>All {count(places.length)}</a>}</p>
          <Pictures both={both} columns={columns} run={run} row={row} places={places.slice(0, SHOWN)} />
        </section>
      ))}
      {worst.length > 0 && (
        <section class="cause">
          <h3>Lowest scores</h3>
          <p class="quiet">{table.headline} of single samples that have an answer. <a href={list({})}>All samples</a></p>
          <Pictures both={both} columns={columns} run={run} row={row} places={worst} />
        </section>
      )}
    </section>
  );
}

function Pictures({ both: { site }, columns, run, row, places }: { both: Both; columns: Columns; run: string; row: Row; places: number[] }) {
  return (
    <div class="worst">
      {places.map((at) => (
        <a key={at} href={href(["task", site.key, "sample", columns.id[at]], { a: row.name })} title={columns.id[at]}>
          <Thumb site={site} at={at} medium={columns.mediums[columns.media[at]?.[0]]} />
          <b>{number(columns.runs[run].score[at])}</b>
          <span>{columns.question[at] || columns.id[at]}</span>
        </a>
      ))}
    </div>
  );
}

function Training({ row, page }: { row: Row; page: Page }) {
  const made = row.training;
  if (!made) return null;
  return (
    <section>
      <h2>Training</h2>
      <dl class="facts">
        <div><dt>Method</dt><dd><code>{made.method}</code></dd></div>
        {made.tasks.length > 0 && <div><dt>On</dt><dd>{made.tasks.join(", ")}</dd></div>}
        {made.steps !== null && <div><dt>Steps</dt><dd>{count(made.steps)}</dd></div>}
        <div><dt>Seed</dt><dd>{made.seed}</dd></div>
        {made.folder && <div><dt>Folder</dt><dd>{made.link ? <a href={made.link}>{made.folder}</a> : made.folder}</dd></div>}
      </dl>
      {theIndex()!.site.trainings > 1 && <p><a href={href(["trainings"], made.folder ? { pin: made.folder } : {})}>Beside other trainings</a></p>}
      {page.curve ? <Curves runs={[{ name: made.folder ?? "", curve: page.curve }]} /> : <p class="quiet">The training's folder is not there any more: no curves.</p>}
      {page.rollouts && <Rollouts groups={page.rollouts} />}
    </section>
  );
}

/** Rollouts of a training: each response with its reward components. */
function Rollouts({ groups }: { groups: NonNullable<Page["rollouts"]> }) {
  const [at, setAt] = useState(0);
  const group = groups[at];
  const names = [...new Set(group.rollouts.flatMap((one) => Object.keys(one.terms)))].sort((a, b) => Number(a === "total") - Number(b === "total"));
  return (
    <section class="rollouts">
      <h3>Rollouts</h3>
      <label class="choice">
        <span>Step</span>
        <select value={at} onChange={(event) => setAt(Number(event.currentTarget.value))}>
          {groups.map((one, place) => <option key={place} value={place}>{one.step}: {one.sample}</option>)}
        </select>
      </label>
      <Scroll label="Reward components">
        <table class="terms">
          <thead><tr><th scope="col">Rollout</th>{names.map((name) => <th key={name} scope="col" class="num">{name}</th>)}<th scope="col" class="num">advantage</th><th scope="col" class="num">tokens</th></tr></thead>
          <tbody>
            {group.rollouts.map((one, place) => (
              <tr key={place}>
                <th scope="row">{place + 1}{one.cut && <small class="flag">truncated</small>}</th>
                {names.map((name) => <td key={name} class="num">{name in one.terms ? number(one.terms[name]) : "–"}</td>)}
                <td class={one.advantage && one.advantage < 0 ? "num down" : "num up"}>{one.advantage === null ? "–" : number(one.advantage)}</td>
                <td class="num">{count(one.tokens)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </Scroll>
      {group.rollouts.map((one, place) => (
        <details key={`${at} ${place}`} open={place === 0}>
          <summary>Response {place + 1}{one.unread && <small class="flag"> {one.unread}</small>}</summary>
          {one.blocks.length ? <Blocks blocks={one.blocks} /> : <Response text={one.text} />}
          {one.second !== null && <><h4>Second pass</h4><Response text={one.second} /></>}
        </details>
      ))}
    </section>
  );
}

function Record({ row, page }: { row: Row; page: Page }) {
  const { manifest, timing } = page;
  const made = manifest.provenance ?? {};
  const stages = Object.entries(timing.stages ?? {}).sort(([, a], [, b]) => b - a);
  const most = Math.max(1e-9, ...stages.map(([, seconds]) => seconds));
  const facts: [string, unknown][] = [
    ["Commit", made.commit && `${made.commit}${made.dirty ? " with changes" : ""}`],
    ["Device", made.device],
    ["Python", made.python],
    ["Platform", made.platform],
    ["Seed", manifest.seed],
    ["Task", `${manifest.task?.spec}, version ${manifest.task?.version}`],
    ["Subset", manifest.subset ?? "all of the split"],
    ["Data", row.data],
    ["Configuration", row.config_hash],
    ["Weights", Object.entries(row.weights ?? {}).map(([part, hash]) => `${part} ${hash}`).join(", ")],
    ["Recomputed", row.rescored === undefined ? null : row.rescored ? "from the run's scores when this board was built" : "no"],
    ["harness", manifest.harness],
    ["Peak memory", row.process_peak_bytes ? `${(row.process_peak_bytes / 2 ** 30).toFixed(1)} GiB a process` : null],
    ["Peak GPU memory", row.process_gpu_peak_bytes ? `${(row.process_gpu_peak_bytes / 2 ** 30).toFixed(1)} GiB` : null],
  ];
  return (
    <section>
      <h2>Record</h2>
      <div class="record">
        <dl class="facts">{facts.filter(([, value]) => value !== null && value !== undefined && value !== "").map(([name, value]) => <div key={name}><dt>{name}</dt><dd>{String(value)}</dd></div>)}</dl>
        {stages.length > 0 && (
          <div class="stages">
            <h3>Seconds by stage</h3>
            {stages.map(([name, seconds]) => <p key={name}><span>{name}</span><i style={{ width: `${(60 * seconds) / most}%` }} /><b>{brief(seconds)}</b></p>)}
          </div>
        )}
      </div>
      <details><summary>Model</summary><pre tabIndex={0}>{JSON.stringify(manifest.model, null, 1)}</pre></details>
      <details><summary>Packages</summary><dl class="packages">{Object.entries(made.packages ?? {}).map(([name, version]) => <div key={name}><dt>{name}</dt><dd>{String(version)}</dd></div>)}</dl></details>
    </section>
  );
}

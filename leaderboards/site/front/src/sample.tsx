// One sample: its medium with overlays, the question, and what each run was asked and answered.
import { useEffect, useLayoutEffect, useState } from "preact/hooks";
import { columnsOf, predictionOf, responsesOf, runOf, tableOf, targetOf, textOf, theIndex, type Answer, type Both, type Columns, type Prediction, type Request } from "./board";
import { LAYERS, Legend, Picture, firstLook, isPlace, type Layer, type Look } from "./draw";
import { brief, count, number, plural, words } from "./format";
import { iou } from "./rle";
import { go, href, route, setQuery } from "./route";
import { Missing } from "./task";
import { Response, Transcript } from "./text";
import { Crumbs, Loading } from "./ui";

/** A group without a name: the hash of its medium. */
const HASH = /^[0-9a-f]{12,}$/;

type Chosen = { name: string; run: string };

export function SamplePage({ name, id }: { name: string; id: string }) {
  const both = tableOf(name);
  if (!both) return <Missing what={`table ${name}`} />;
  const { site, table } = both;
  const loaded = columnsOf(site);
  if (!loaded.value) return loaded.failed ? <Missing what={`samples of ${name}`} /> : <Loading />;
  const at = loaded.value.id.indexOf(id);
  if (at < 0) return <Missing what={`sample ${id} in ${site.title}`} both={both} />;
  const query = route.value.query;
  const first = table.rows.findIndex((row, place) => site.runs[place] && row.kind !== "published");
  const wanted = [query.a ?? table.rows[first]?.name, query.b].filter((one): one is string => Boolean(one));
  const runs = wanted.flatMap((run) => {
    const found = runOf(both, run);
    return found?.run ? [{ name: run, run: found.run }] : [];
  });
  const near = (step: number) => loaded.value!.id[at + step];
  const link = (other: string) => href(["task", name, "sample", other], query);
  const measured = table.rows.filter((_, place) => site.runs[place]);
  return (
    <main class="samplepage">
      <Neighbours before={near(-1) === undefined ? "" : link(near(-1))} after={near(1) === undefined ? "" : link(near(1))} />
      <Crumbs
        parts={[
          [theIndex()!.board.title, href([])],
          [site.title, href(["task", name])],
          ["Samples", href(["task", name, "samples", ...runs.map((run) => run.name)], { at: id })],
          [id],
        ]}
      />
      <header class="title sampletitle">
        <h1>{id}</h1>
        <nav aria-label="Neighbours">
          {near(-1) !== undefined && <a href={link(near(-1))}>← {near(-1)}</a>}
          {near(1) !== undefined && <a href={link(near(1))}>{near(1)} →</a>}
        </nav>
      </header>
      <SampleView both={both} columns={loaded.value} at={at} runs={runs} wide />
      <section>
        <h2>All runs on this sample</h2>
        <div class="chips">
          {measured.map((row) => {
            const column = loaded.value!.runs[site.runs[table.rows.indexOf(row)]!];
            return (
              <a key={row.name} class="chip" href={href(["task", name, "sample", id], { ...query, a: row.name, b: query.a && query.a !== row.name ? query.a : "" })}>
                {row.name} <b>{number(column?.score[at])}</b>
              </a>
            );
          })}
        </div>
      </section>
    </main>
  );
}

/** The keys k and j, as in the list. */
function Neighbours({ before, after }: { before: string; after: string }) {
  useLayoutEffect(() => {
    const press = (event: KeyboardEvent) => {
      if (event.ctrlKey || event.metaKey || event.altKey || /INPUT|SELECT|TEXTAREA/.test((event.target as Element).tagName)) return;
      const target = event.key === "j" ? after : event.key === "k" ? before : "";
      if (target) go(target);
    };
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  });
  return null;
}

function lookNow(question: string): Look {
  const { query } = route.value;
  const first = firstLook(question);
  return {
    layer: (query.layer as Layer) || first.layer,
    opacity: query.opacity ? Number(query.opacity) / 100 : first.opacity,
    outline: query.outline !== "0",
    places: query.places !== "0",
    grey: query.grey ? query.grey === "1" : first.grey,
  };
}

export function SampleView(props: { both: Both; columns: Columns; at: number; runs: Chosen[]; wide?: boolean }) {
  const { both, columns, at, runs, wide } = props;
  const { site, table } = both;
  const target = targetOf(site, at);
  const medium = columns.mediums[columns.media[at]?.[Number(route.value.query.medium ?? 0)] ?? columns.media[at]?.[0]];
  const found = runs.map((run) => ({ ...run, shown: predictionOf(site, run.run, columns, at), score: columns.runs[run.run]?.score[at] ?? null }));
  const look = lookNow(columns.question[at]);
  const held = medium?.shown?.length ?? 1;
  const frame = Math.min(Math.max(0, Number(route.value.query.frame ?? 0) || 0), held - 1);
  const truth = target?.answer;
  const drawable = isPlace(truth) || found.some((one) => isPlace(one.shown?.prediction.answer));
  return (
    <div class={wide ? `sampleview wide ${medium && found.length < 2 ? "beside" : ""}` : "sampleview"}>
      <p class="question">{columns.question[at]}</p>
      {target?.options && (
        <ol class="options">
          {target.options.map((option, place) => (
            <li key={place} class={truth?.choice === "ABCDEFGHIJ"[place] ? "right" : undefined}>{option}</li>
          ))}
        </ol>
      )}
      {medium && (
        <div class="seen">
          {drawable && <LookTools look={look} errors={Boolean(truth?.masks)} />}
          <div class={found.length > 1 ? "pictures two" : "pictures"}>
            {(found.length ? found : [null]).map((one, place) => (
              <figure key={one?.run ?? place}>
                <Picture
                  medium={medium}
                  truth={truth}
                  prediction={one?.shown?.prediction}
                  shown={frame}
                  look={drawable ? look : { ...look, layer: "image" }}
                  label={`${columns.id[at]}${one ? `, ${one.name}` : ""}: ${LAYERS.find(([name]) => name === look.layer)?.[1]}`}
                />
                {one && (
                  <figcaption>
                    <span class={`side${place}`}>{one.name}</span> <b>{number(one.score)}</b>
                  </figcaption>
                )}
              </figure>
            ))}
          </div>
          {held > 1 && <Scrubber medium={medium} frame={frame} truth={truth} found={found.map((one) => ({ name: one.name, answer: one.shown?.prediction.answer }))} />}
          {drawable && <Legend look={look} masks={Boolean(truth?.masks)} />}
        </div>
      )}
      <div class="said">
      {!medium && site.note && <p class="note">{site.note}</p>}
      <dl class="facts">
        {target?.words && <div><dt>Ground truth</dt><dd>{target.words}</dd></div>}
        {found.map((one, place) => (
          <div key={one.run}>
            <dt class={`side${place}`}>{one.name}</dt>
            <dd>{outcome(one.shown, table.headline)}</dd>
          </div>
        ))}
        {Object.entries(columns.categories).map(([name, { values, at: places }]) => (
          <div key={name}><dt>{name}</dt><dd>{values[places[at]] || "–"}</dd></div>
        ))}
        {columns.group[at] !== columns.id[at] && !HASH.test(columns.group[at]) && <div><dt>{(medium?.frames ?? 1) > 1 ? "Video" : "Image"}</dt><dd>{columns.group[at]}</dd></div>}
      </dl>
      <div class={found.length > 1 && wide ? "answers two" : "answers"}>
        {found.map((one) => one.shown === undefined ? <Loading key={one.run} /> : one.shown === null ? <NoResponse key={one.run} name={found.length > 1 ? one.name : ""} /> : <Details key={one.run} name={found.length > 1 ? one.name : ""} question={target?.text ?? columns.question[at]} {...one.shown} />)}
        </div>
      </div>
    </div>
  );
}

type Found = ReturnType<typeof predictionOf>;

function outcome(shown: Found, _headline: string) {
  if (shown === undefined) return "…";
  if (shown === null) return <span class="quiet">no prediction is kept</span>;
  const { prediction } = shown;
  if (prediction.failure) return <span class="failed">{prediction.failure[0]}: {prediction.failure[1]}</span>;
  return words(prediction.answer!);
}

function LookTools({ look, errors }: { look: Look; errors: boolean }) {
  useLayoutEffect(() => {
    const press = (event: KeyboardEvent) => {
      if (event.ctrlKey || event.metaKey || /INPUT|SELECT|TEXTAREA/.test((event.target as Element).tagName)) return;
      const place = LAYERS.findIndex(([name]) => name === look.layer);
      if (event.key === "o") setQuery({ layer: LAYERS[(place + 1) % LAYERS.length][0] });
    };
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  });
  return (
    <div class="looks">
      <div class="segments" role="group" aria-label="Overlay (o)">
        {LAYERS.map(([name, text]) => (
          <button key={name} type="button" aria-pressed={look.layer === name} onClick={() => setQuery({ layer: name === "errors" ? "" : name })}>
            {name === "errors" && !errors ? "Both" : text}
          </button>
        ))}
      </div>
      <label class="range">
        Opacity
        <input type="range" min="0" max="100" step="5" value={look.opacity * 100} onInput={(event) => setQuery({ opacity: event.currentTarget.value })} />
      </label>
      <label class="switch"><input type="checkbox" checked={look.outline} onChange={() => setQuery({ outline: look.outline ? "0" : "" })} /> <span>Outline</span></label>
      <label class="switch"><input type="checkbox" checked={look.places} onChange={() => setQuery({ places: look.places ? "0" : "" })} /> <span>Boxes and points</span></label>
      <label class="switch"><input type="checkbox" checked={look.grey} onChange={() => setQuery({ grey: look.grey ? "0" : "1" })} /> <span>Grey image</span></label>
    </div>
  );
}

/** Frames one by one; above them, how well each run's mask fits the ground truth's in every frame. */
function Scrubber(props: { medium: { shown?: number[]; times?: number[]; frames: number }; frame: number; truth?: Answer; found: { name: string; answer?: Answer }[] }) {
  const { medium, frame, truth, found } = props;
  const shown = medium.shown!;
  const [playing, play] = useState(false);
  const to = (next: number) => setQuery({ frame: next <= 0 ? "" : String(Math.min(next, shown.length - 1)) });
  useEffect(() => {
    if (!playing) return;
    const timer = setInterval(() => to((frame + 1) % shown.length), 125);
    return () => clearInterval(timer);
  });
  useLayoutEffect(() => {
    const press = (event: KeyboardEvent) => {
      if (event.ctrlKey || event.metaKey || /INPUT|SELECT|TEXTAREA/.test((event.target as Element).tagName)) return;
      if (event.key === "," || event.key === "ArrowLeft") to(frame - 1);
      else if (event.key === "." || event.key === "ArrowRight") to(frame + 1);
      else return;
      event.preventDefault();
    };
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  });
  const fits = found
    .filter((one) => one.answer?.masks && truth?.masks)
    .map((one) => ({ name: one.name, values: shown.map((at) => iou(one.answer!.masks![at], truth!.masks![at])) }));
  const label = `frame ${shown[frame]} (${shown[frame] + 1} of ${medium.frames})${medium.times ? `, ${medium.times[frame]} s` : ""}`;
  return (
    <div class="scrubber">
      <button type="button" class="plain" onClick={() => play(!playing)} aria-label={playing ? "Pause" : "Play"}>{playing ? "❚❚" : "▶"}</button>
      <div class="track">
        {fits.length > 0 && <small class="quiet">IoU of each frame</small>}
        {fits.map((fit, place) => (
          <div key={fit.name} class={`fit fit${place}`} role="img" aria-label={`IoU by frame of ${fit.name}: ${fit.values.map((value) => value.toFixed(2)).join(", ")}`}>
            {fit.values.map((value, at) => <i key={at} class={at === frame ? "now" : undefined} style={{ height: `${Math.max(4, 100 * value)}%` }} title={`frame ${shown[at]}: IoU ${value.toFixed(3)}`} onClick={() => to(at)} />)}
          </div>
        ))}
        <input type="range" min="0" max={shown.length - 1} step="1" value={frame} aria-label="Frame" aria-valuetext={label} onInput={(event) => to(Number(event.currentTarget.value))} />
      </div>
      <output>{label}</output>
    </div>
  );
}

/** What stands in the place of a response that the run's record lacks. */
function NoResponse({ name }: { name: string }) {
  return (
    <article class="details">
      {name && <h3>{name}</h3>}
      <p class="quiet">no response on record</p>
    </article>
  );
}

function Details({ name, question, prediction, texts }: { name: string; question: string; prediction: Prediction; texts: string[] }) {
  const calls = prediction.calls ?? [];
  const responses = responsesOf(prediction);
  const [prompt, completion, reasoning, frames] = prediction.usage;
  const whole = prediction.spans && calls.at(-1)?.response;
  return (
    <article class="details">
      {name && <h3>{name}</h3>}
      {whole ? (
        <section>
          <h4>Response of {prediction.spans!.filter(([, injected]) => !injected).length} turns</h4>
          <Transcript text={whole} spans={prediction.spans!} />
        </section>
      ) : (
        responses.map((response, place) => (
          <section key={place}>
            <h4>{responses.length > 1 ? `Response ${place + 1}` : "Response"}</h4>
            <Response text={response} />
          </section>
        ))
      )}
      {!whole && responses.length === 0 && <p class="quiet">no response on record</p>}
      {prediction.notes?.length ? <p class="note">{prediction.notes.join("; ")}</p> : null}
      {prediction.parsed?.some((one) => one.error) && <p class="note">{prediction.parsed.map((one) => one.error).filter(Boolean).join("; ")}</p>}
      {prediction.adaptation && <Adaptation adaptation={prediction.adaptation} />}
      {calls.length > 0 && <Requests calls={calls} texts={texts} question={question} />}
      {(prompt > 0 || completion > 0 || frames > 0) && (
        <p class="usage">
          {count(prompt)} prompt tokens · {count(completion)} completion tokens{reasoning ? ` · ${count(reasoning)} of them reasoning` : ""} · {plural(frames, "frame")}
        </p>
      )}
    </article>
  );
}

function Requests({ calls, texts, question }: { calls: NonNullable<Prediction["calls"]>; texts: string[]; question: string }) {
  // A request that equals an earlier call's is that call's number.
  const own = calls.flatMap((call, place) => (typeof call.request === "number" ? [] : [{ place, request: call.request as Request, key: call.key }]));
  return (
    <details class="requests">
      <summary>{own.length === 1 ? "Request" : `${own.length} requests`}{calls.length > own.length ? `, ${calls.length} calls` : ""}</summary>
      {own.map(({ place, request, key }) => (
        <section key={place}>
          {own.length > 1 && <h4>Call {place + 1}{key ? `, ${key}` : ""}</h4>}
          {request.system !== undefined && <pre class="system" tabIndex={0}>{textOf(texts, request.system, question)}</pre>}
          <pre tabIndex={0}>{textOf(texts, request.text, question)}</pre>
          {request.prefix && <p class="quiet">The response was begun with <code>{request.prefix}</code></p>}
          {(request.shown ?? []).map((shown, at) => (
            <p key={at} class="quiet">
              Shown: {shown.frames.length > 1 ? `frames ${shown.frames.join(", ")}` : `frame ${shown.frames[0]}`}
              {shown.canvas ? ` at ${shown.canvas.join(" × ")} pixels` : shown.resize ? ` at ${shown.resize.join(" × ")} pixels` : ""}
              {request.temperature !== undefined && `, temperature ${request.temperature}`}
            </p>
          ))}
        </section>
      ))}
    </details>
  );
}

/** Steps in which the network learned from the sample, with the reward of every rollout. */
function Adaptation({ adaptation }: { adaptation: NonNullable<Prediction["adaptation"]> }) {
  const rewards = adaptation.steps.flatMap((step) => step.rewards ?? []);
  const most = Math.max(1e-9, ...rewards.map(Math.abs));
  return (
    <section>
      <h4>{adaptation.method}: {plural(adaptation.steps.length, "step")} on this sample</h4>
      <div class="scroll" tabIndex={0} role="region" aria-label="Steps">
        <table class="steps">
          <thead>
            <tr>{["Step", "Rewards of the rollouts", "Label", "Agreement", "Parsed", "Entropy", "Loss", "Gradient", "Tokens"].map((head) => <th key={head} scope="col">{head}</th>)}</tr>
          </thead>
          <tbody>
            {adaptation.steps.map((step, place) => (
              <tr key={place} class={step.rolled_back ? "failed" : undefined}>
                <th scope="row">{place + 1}{step.rolled_back ? ", rolled back" : ""}</th>
                <td>
                  <span class="rewards" role="img" aria-label={(step.rewards ?? []).map(brief).join(", ")}>
                    {(step.rewards ?? []).map((reward, at) => <i key={at} class={at === step.label ? "label" : undefined} style={{ height: `${Math.max(3, (100 * Math.abs(reward)) / most)}%` }} title={`rollout ${at + 1}: ${brief(reward)}${at === step.label ? ", the pseudo-label" : ""}`} />)}
                  </span>
                </td>
                <td class="num">{step.label === null || step.label === undefined ? "–" : step.label + 1}</td>
                {[step.agreement, step.parsed, step.entropy, step.loss, step.grad_norm, step.tokens].map((value, at) => <td key={at} class="num">{brief(value)}</td>)}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

// The samples of a table on which its runs differ most, with the first run's answer drawn on them.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { columnsOf, predictionOf, targetOf, type Both, type Columns } from "./board";
import { Legend, Picture, firstLook, isPlace } from "./draw";
import { number, words } from "./format";
import { href } from "./route";

const SHOWN = 6;

/** Nothing is loaded before the strip comes near the window. */
export function Strip({ both, title }: { both: Both; title?: string }) {
  const box = useRef<HTMLElement>(null);
  const [near, setNear] = useState(false);
  useEffect(() => {
    if (!box.current) return; // a site without images has no strip
    const observer = new IntersectionObserver(([entry]) => entry.isIntersecting && setNear(true), { rootMargin: "200px" });
    observer.observe(box.current);
    return () => observer.disconnect();
  }, []);
  const best = both.table.rows.findIndex((row, place) => both.site.runs[place] && row.kind !== "published");
  if (best < 0 || !both.site.thumbs) return null;
  const several = both.site.runs.filter(Boolean).length > 1;
  return (
    <section class="strip" ref={box}>
      <h2>
        {title ? <a href={href(["task", both.site.key])}>{title}</a> : several ? "Where models differ most" : "Lowest scores"}
        {title && (
          <small>
            {several ? "samples on which the models differ most" : "samples with the lowest scores"}, with the answer and score of {both.table.rows[best].name}
            {several && ", and the lowest and highest score of all models"}
          </small>
        )}
      </h2>
      {near ? <Cards both={both} place={best} /> : <div class="cards" />}
    </section>
  );
}

/** Samples by how far apart the runs' scores are, one a medium: those alone on which they differ, if there are any. */
function widest(columns: Columns, better: string): number[] {
  const runs = Object.values(columns.runs);
  const ends = columns.id.map((_, at) => {
    const values = runs.map((run) => run.score[at]).filter((value): value is number => value !== null);
    return values.length ? [Math.min(...values), Math.max(...values)] : null;
  });
  const spread = ends.map((pair) => (pair ? pair[1] - pair[0] + 1e-3 * pair[1] : -1));
  const known = columns.id.map((_, at) => at).filter((at) => columns.mediums[columns.media[at]?.[0]]?.file);
  if (runs.length === 1) {
    const sign = better === "higher" ? 1 : -1;
    return known.filter((at) => ends[at]).sort((a, b) => sign * (ends[a]![0] - ends[b]![0])).slice(0, SHOWN);
  }
  const apart = known.filter((at) => ends[at] && ends[at][1] > ends[at][0]);
  const order = (apart.length ? apart : known).sort((a, b) => spread[b] - spread[a]);
  const seen = new Set<number>();
  return order.filter((at) => !seen.has(columns.media[at][0]) && seen.add(columns.media[at][0])).slice(0, SHOWN);
}

function Cards({ both, place }: { both: Both; place: number }) {
  const { site, table } = both;
  const columns = columnsOf(site).value;
  const chosen = useMemo(() => (columns ? widest(columns, table.better) : []), [columns]);
  if (!columns) return <div class="cards" />;
  const run = site.runs[place]!;
  const name = table.rows[place].name;
  const truths = chosen.map((at) => targetOf(site, at)?.answer);
  const answers = chosen.map((at) => predictionOf(site, run, columns, at)?.prediction.answer);
  const masks = truths.some((truth) => truth?.masks);
  return (
    <>
    <div class="cards">
      {chosen.map((at, shown) => {
        const [truth, answer] = [truths[shown], answers[shown]];
        const medium = columns.mediums[columns.media[at][0]];
        const values = Object.values(columns.runs).map((one) => one.score[at]).filter((value): value is number => value !== null);
        return (
          <a key={at} class="card" href={href(["task", site.key, "sample", columns.id[at]], { a: name })}>
            <Picture medium={medium} truth={truth} prediction={predictionOf(site, run, columns, at)?.prediction} shown={Math.floor((medium.shown?.length ?? 1) / 2)} look={{ ...firstLook(columns.question[at]), places: !truth?.masks }} label={`${columns.id[at]}, ${name}`} high={150} />
            <span class="caption">{columns.question[at]}</span>
            {truth && !isPlace(truth) && (
              <small>
                {answer ? words(answer) : "no answer"} · right: {words(truth)}
              </small>
            )}
            <small>
              <b>{number(columns.runs[run].score[at])}</b>
              {values.length > 1 && ` · all models ${number(Math.min(...values))}–${number(Math.max(...values))}`}
            </small>
          </a>
        );
      })}
    </div>
    {[...truths, ...answers].some((answer) => answer && isPlace(answer)) && <Legend look={{ ...firstLook(""), places: !masks }} masks={masks} />}
    </>
  );
}

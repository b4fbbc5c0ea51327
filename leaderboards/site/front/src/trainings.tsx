// The numbers of several trainings by step, in the same charts.
import { theIndex, type TrainingCurve } from "./board";
import { chunk } from "./chunks";
import { count } from "./format";
import { Curves } from "./plots";
import { href, route } from "./route";
import { Crumbs, Loading, Scroll, Search } from "./ui";

export function TrainingsPage() {
  const loaded = chunk<TrainingCurve[]>("trainings");
  const { board } = theIndex()!;
  if (!loaded.value) return loaded.failed ? <p class="empty">The curves are not there.</p> : <Loading />;
  const words = (route.value.query.q ?? "").toLowerCase().split(/\s+/).filter(Boolean);
  const shown = loaded.value.filter((one) => words.every((word) => `${one.name} ${one.method} ${one.tasks.join(" ")}`.toLowerCase().includes(word)));
  return (
    <main>
      <Crumbs parts={[...(board.tables.length ? [[board.title, href([])] as [string, string]] : []), ["Trainings"]]} />
      <header class="title">
        <h1>Trainings</h1>
        <p>Numbers by step. A name pins its training: the others fade.</p>
      </header>
      <div class="tools" role="search"><Search label="Filter trainings" /></div>
      {shown.length ? <Curves runs={shown} /> : <p class="empty">No training fits the filter.</p>}
      <section>
        <h2>Settings</h2>
        <Scroll label="Trainings">
          <table class="numbers">
            <thead><tr><th scope="col">Training</th><th scope="col">Method</th><th scope="col">On</th><th scope="col" class="num">Seed</th><th scope="col" class="num">Last step</th></tr></thead>
            <tbody>
              {shown.map((one) => (
                <tr key={one.name}>
                  <th scope="row" class="model">{one.name}</th>
                  <td><code>{one.method}</code></td>
                  <td>{one.tasks.join(", ") || "scenes of its own"}</td>
                  <td class="num">{one.seed}</td>
                  <td class="num">{count(Math.max(0, ...(one.curve.step ?? []).map((step) => step ?? 0)))}{!one.finished && <small>not finished</small>}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </Scroll>
      </section>
    </main>
  );
}

// The site: one classic script, which reads data chunks and draws the page that the hash names.
import { signal } from "@preact/signals";
import { render } from "preact";
import { useLayoutEffect } from "preact/hooks";
import { theIndex } from "./board";
import { reload } from "./chunks";
import { Overview } from "./overview";
import { route } from "./route";
import { RunPage } from "./run";
import { SamplePage } from "./sample";
import { SamplesPage } from "./samples";
import { TrainingsPage } from "./trainings";
import { Missing, TaskPage } from "./task";

const VERSION = 1;
const helping = signal(false);
const pulse = signal("");

function stored(name: string): string | null {
  try {
    return localStorage.getItem(name);
  } catch {
    return null; // no storage for pages from disk in some browsers
  }
}

const dark = matchMedia("(prefers-color-scheme: dark)");
const theme = signal(stored("theme") ?? "");
const isDark = () => (theme.value ? theme.value === "dark" : dark.matches);

function flipTheme(): void {
  theme.value = isDark() ? "light" : "dark";
  document.documentElement.dataset.theme = theme.value;
  try {
    localStorage.setItem("theme", theme.value);
  } catch {
    // it holds for this page
  }
}

function page() {
  const { parts } = route.value;
  const { board, site } = theIndex()!;
  const trainings = site.trainings > 0;
  if (!parts.length) return trainings && !board.tables.length && !board.refused.length ? <TrainingsPage /> : <Overview />;
  if (parts[0] === "trainings" && trainings) return <TrainingsPage />;
  const [kind, name, what, ...rest] = parts;
  if (kind === "task" && name) {
    if (!what) return <TaskPage name={name} />;
    if (what === "samples" && rest.length >= 1) return <SamplesPage name={name} runs={rest.slice(0, 2)} />;
    if (what === "run" && rest[0]) return <RunPage name={name} run={rest[0]} />;
    if (what === "sample" && rest[0]) return <SamplePage name={name} id={rest[0]} />;
  }
  return <Missing what={`page ${parts.join("/")}`} />;
}

const KEYS: [string, string][] = [
  ["/", "filter"],
  ["j k or ↓ ↑", "next and previous sample"],
  ["Enter", "open the sample's page"],
  ["Esc", "close"],
  ["o", "next overlay"],
  [", . or ← →", "previous and next frame"],
  ["?", "these keys"],
];

function App() {
  const all = theIndex();
  useLayoutEffect(() => {
    const press = (event: KeyboardEvent) => {
      const typing = /INPUT|SELECT|TEXTAREA/.test((event.target as Element).tagName);
      if (event.key === "Escape" && typing) (event.target as HTMLElement).blur();
      if (event.key === "Escape") helping.value = false;
      if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
      if (event.key === "?") helping.value = !helping.value;
      else if (event.key === "/") document.querySelector<HTMLInputElement>("[data-search]")?.focus();
      else return;
      event.preventDefault();
    };
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  }, []);
  if (!all) return <p class="quiet loading">Loading…</p>;
  if (all.site.version !== VERSION) return <p class="empty">These data are of version {all.site.version}; this page reads version {VERSION}. Write the site again.</p>;
  const path = route.value.parts.slice(0, 4).join("/");
  document.title = [...route.value.parts.slice(3, 5), route.value.parts[1], all.board.title].filter(Boolean).join(" · ");
  return (
    <>
      <a class="skip" href="#main" onClick={(event) => { event.preventDefault(); document.querySelector<HTMLElement>("main a, main button, main input")?.focus(); }}>Skip to the content</a>
      <div class="corner">
        {all.site.live && <span class="live" role="status">live{pulse.value && `: ${pulse.value}`}</span>}
        <button type="button" class="plain" onClick={() => (helping.value = true)} aria-label="Keys" title="Keys (?)">?</button>
        <button type="button" class="plain" id="theme" onClick={flipTheme} aria-label={`Switch to ${isDark() ? "light" : "dark"} colours`}>{isDark() ? "Light" : "Dark"}</button>
      </div>
      <div key={path} class="page">{page()}</div>
      <footer>
        <p>Made by harness {all.site.harness} from run records. <a href="board.json" download>board.json</a> · <a href="board.md">board.md</a> · <a href="licences.txt">licences</a></p>
      </footer>
      {helping.value && (
        <div class="help" role="dialog" aria-modal="true" aria-label="Keys">
          <div>
            <h2>Keys</h2>
            <dl>{KEYS.map(([key, about]) => <div key={key}><dt><kbd>{key}</kbd></dt><dd>{about}</dd></div>)}</dl>
            <button type="button" class="main" autofocus onClick={() => (helping.value = false)}>Close</button>
          </div>
        </div>
      )}
    </>
  );
}

function listen(): void {
  const events = new EventSource("events");
  events.onmessage = (event) => {
    const { changed, text } = JSON.parse(event.data) as { changed: string[]; text: string };
    pulse.value = text;
    reload(changed);
  };
  events.onerror = () => (pulse.value = "the server is gone");
}

if (theme.value) document.documentElement.dataset.theme = theme.value;
render(<App />, document.getElementById("app")!);
document.addEventListener("DOMContentLoaded", () => {
  if (theIndex()?.site.live) listen();
});

// Data chunks: scripts that call H(key, value). fetch is blocked from disk, scripts are not.
import { signal, type Signal } from "@preact/signals";

declare global {
  interface Window {
    H: (key: string, value: unknown) => void;
  }
}

export type Chunk<T> = { value?: T; failed?: boolean };

const KEPT = 48; // packed chunks; the oldest are forgotten
const store = new Map<string, Signal<Chunk<unknown>>>();
const packed: string[] = [];
let version = 0;

function cell(key: string): Signal<Chunk<unknown>> {
  let found = store.get(key);
  if (!found) store.set(key, (found = signal<Chunk<unknown>>({})));
  return found;
}

async function unpack(text: string): Promise<unknown> {
  const bytes = Uint8Array.from(atob(text), (char) => char.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  return JSON.parse(await new Response(stream).text());
}

window.H = (key, value) => {
  asked.add(key);
  given.add(key);
  if (typeof value !== "string") {
    cell(key).value = { value };
    return;
  }
  unpack(value).then(
    (made) => {
      cell(key).value = { value: made };
      packed.push(key);
      if (packed.length > KEPT) forget(packed.shift()!);
    },
    () => (cell(key).value = { failed: true }),
  );
};

const asked = new Set<string>();
const given = new Set<string>(); // keys that a script has called H with since they were asked for

function forget(key: string): void {
  asked.delete(key);
  store.delete(key);
}

/** The key whose file holds a chunk: a written site has a run's first predictions in the run's file. */
function fileOf(key: string): string {
  const index = cell("index").peek().value as { site?: { live?: boolean } } | undefined;
  return index?.site?.live ? key : key.replace(/(\/r\d+)-0$/, "$1");
}

function load(key: string): void {
  asked.add(key);
  given.delete(key);
  const failed = () => (cell(key).value = { ...cell(key).peek(), failed: true });
  const script = document.createElement("script");
  script.src = `data/${fileOf(key).split("/").map(encodeURIComponent).join("/")}.js${version ? `?v=${version}` : ""}`;
  script.onload = () => {
    script.remove();
    if (!given.has(key)) failed(); // a run without predictions has no first chunk
  };
  script.onerror = () => {
    script.remove();
    failed();
  };
  document.head.append(script);
}

/** The chunk as it is now; asks for it the first time. Reading it subscribes to it. */
export function chunk<T>(key: string): Chunk<T> {
  if (!asked.has(key)) load(key);
  return cell(key).value as Chunk<T>;
}

/** Asks again for chunks that a running evaluation has changed; "*" stands for any ending. */
export function reload(changed: string[]): void {
  if (!changed.length) return;
  version += 1;
  const fits = (key: string) => changed.some((one) => (one.endsWith("*") ? key.startsWith(one.slice(0, -1)) : key === one));
  for (const key of [...asked]) if (fits(key)) load(key);
}

/** The index comes with the page. */
export function index<T>(): Chunk<T> {
  asked.add("index");
  return cell("index").value as Chunk<T>;
}

// The shapes of docs/design/site.md.
import { chunk, index, type Chunk } from "./chunks";

export type Pair = [number, number] | null;
export type Rle = { size: [number, number]; counts: string };

export type Row = {
  kind?: "measured" | "published" | "running";
  name: string;
  rank: number | null;
  ranked_by?: string | null;
  to_best?: { difference: number | null; interval: Pair; p_value: number | null; better: string } | null;
  metrics: Record<string, number | null>;
  intervals?: Record<string, Pair>;
  better?: Record<string, "higher" | "lower">;
  about?: Record<string, string>;
  breakdowns?: Record<string, Record<string, { n: number; metrics: Record<string, number | null> }>>;
  model?: string;
  model_spec?: string;
  n_total?: number;
  n_scored?: number;
  n_failed?: number;
  answered?: number;
  failures?: Record<string, number>;
  usage?: Record<string, number>;
  seconds?: number | null;
  seed?: number | null;
  commit?: string | null;
  dirty?: boolean | null;
  device?: string | null;
  data?: string;
  config_hash?: string;
  ceiling?: number | null;
  deviations?: { setting: string; used: string; paper: string; of: string }[];
  trained_on?: unknown;
  transductive?: boolean;
  adaptation?: string | null;
  training?: { method: string; tasks: string[]; seed: number; steps: number | null; folder: string | null; link: string | null } | null;
  process_peak_bytes?: number | null;
  process_gpu_peak_bytes?: number | null;
  source?: {
    paper?: string;
    title?: string;
    table?: string;
    row?: string;
    backbone?: string;
    protocol?: string;
    protocol_is?: string;
    subset?: string;
    defect?: string;
    note?: string;
    printed?: Record<string, string>;
  };
  /** False: the protocol is not known to be the table's. */
  comparable?: boolean;
  published?: { text: string; verdict: string; differences: string[] } | null;
  weights?: Record<string, string>;
  rescored?: boolean;
  progress?: { answered: number; total: number; failed: number } | null;
  badges?: string[];
};

export type Point = { row: number; commit: string | null; dirty: boolean | null; ended: number; value: number | null; interval: Pair };
export type Series = {
  spec: string;
  model: string;
  points: Point[];
  steps: { at: number; since: number; difference: number; interval: Pair; p_value: number; worse: boolean }[];
};

export type Table = {
  title: string;
  task: string;
  split: string;
  protocol: string;
  subset: string | null;
  headline: string;
  better: "higher" | "lower";
  ceiling: number | null;
  notes: string[];
  rows: Row[];
};

export type SiteTable = {
  id: string;
  key: string;
  title: string;
  facts: string;
  about: string;
  n: number;
  runs: (string | null)[];
  history: Series[];
  note: string;
  thumbs: boolean;
};

export type Cell = { column: string; printed: string | null; unit: string; defect: string; value: number | null; model: string | null; reproduction: Row["published"] };
/** The table of a paper, the printed beside the measured number. */
export type Grid = { heading: string; rows: [string, Cell[]][] };

/** A run whose record cannot be believed; it is counted nowhere. */
export type Refused = { run: string; model: string; task: string; reason: string };

export type Index = {
  board: { title: string; level: number; tables: Table[]; refused: Refused[]; grid?: Grid };
  site: {
    version: number;
    harness: string;
    live: boolean;
    summary: string;
    rule: string;
    /** How many trainings the chunk `trainings` has. */
    trainings: number;
    chunk: number;
    thumbs: { size: number; columns: number; each: number };
    tables: SiteTable[];
  };
};

/** What a row (B) differs by from another (A), by `2-5`: the places of A and B. */
export type Pairs = Record<string, { verdict: string; difference: number | null; interval: Pair; p_value: number | null; changed: string[] }>;

export type Curve = Record<string, (number | null)[]>;
export type TrainingCurve = { name: string; method: string; tasks: string[]; seed: number; finished: boolean; curve: Curve };

export type Medium = {
  file: string | null;
  width: number;
  height: number;
  frames: number;
  cell?: [number, number];
  shown?: number[];
  times?: number[];
  columns?: number;
};

export type RunColumn = { score: (number | null)[]; failure: string; cut: number[]; tokens: number[] };

export type Columns = {
  id: string[];
  question: string[];
  group: string[];
  unit: number[] | null;
  categories: Record<string, { values: string[]; at: number[] }>;
  media: number[][];
  mediums: Medium[];
  runs: Record<string, RunColumn>;
  note: string;
};

export type Answer = {
  masks?: Rle[];
  boxes?: number[][];
  box_scores?: number[];
  points?: number[][];
  box_track?: (number[] | null)[];
  boxes_3d?: number[][];
  count?: number;
  choice?: string;
  number?: number;
  interval?: [number, number];
  text?: string;
  no_target?: boolean;
};

export type Target = { text: string; options?: string[]; objects?: string[]; answer?: Answer; words?: string };

export type Shown = { medium?: number | string; frames: number[]; times?: number[]; resize?: number[]; canvas?: number[] };
export type Request = { text: number; system?: number; shown?: Shown[]; prefix?: string; temperature?: number };
export type Call = { request: Request | number; key?: string; response?: string };
export type Step = {
  label?: number | null;
  agreement?: number | null;
  parsed?: number | null;
  rewards?: number[];
  tokens?: number | null;
  characters?: number | null;
  entropy?: number | null;
  loss?: number | null;
  grad_norm?: number | null;
  rolled_back?: boolean;
};
export type Prediction = {
  answer?: Answer;
  failure?: [string, string];
  calls?: Call[];
  responses?: (number | string)[];
  parsed?: {
    form: string;
    frame?: number | null;
    phrase?: string;
    error?: string;
    objects?: { box?: number[]; positive?: number[][]; negative?: number[][]; phrase?: string }[];
  }[];
  usage: [number, number, number, number];
  notes?: string[];
  adaptation?: { method: string; steps: Step[] };
  spans?: [number, boolean][];
};
export type PredictionChunk = { texts: string[]; samples: (Prediction | null)[] };

export type RunPage = {
  manifest: Record<string, any>;
  timing: { wall_seconds?: number; samples_per_second?: number; attempts?: number; stages?: Record<string, number> };
  curve?: Curve;
  rollouts?: {
    step: number;
    task: string;
    sample: string;
    rollouts: {
      text: string;
      second: string | null;
      terms: Record<string, number>;
      advantage: number | null;
      tokens: number;
      cut: boolean;
      unread: string;
      blocks: { tag: string; text: string; injected: boolean }[];
    }[];
  }[];
};

/** A table of the board with what the site says of it. */
export type Both = { table: Table; site: SiteTable };

export const QUESTION = "\ufffc";

export function theIndex(): Index | undefined {
  return index<Index>().value;
}

/** A table by its key, or by a key of earlier versions, which had fewer of its words in the same order. */
function placeOf(tables: SiteTable[], key: string): number {
  const exact = tables.findIndex((table) => table.key === key);
  const words = key.split(".");
  if (exact >= 0 || words.length < 3) return exact;
  const version = (own: string[]) => Number(own[3].slice(1));
  const whole = (own: string[]) => Number(own[4] === "all");
  const found = tables
    .map((table, place) => ({ place, own: table.key.split(".") }))
    .filter(({ own }) => words.slice(0, 3).join() === own.slice(0, 3).join() && own.reduce((at, word) => at + Number(word === words[at]), 0) === words.length)
    // Without a subset it was the whole split; without a version, the only one that there was.
    .sort((a, b) => whole(b.own) - whole(a.own) || version(b.own) - version(a.own));
  return found[0]?.place ?? -1;
}

export function tableOf(key: string): Both | undefined {
  const all = theIndex();
  const place = all ? placeOf(all.site.tables, key) : -1;
  return all && place >= 0 ? { table: all.board.tables[place], site: all.site.tables[place] } : undefined;
}

export function columnsOf(site: SiteTable): Chunk<Columns> {
  return chunk<Columns>(`${site.id}/samples`);
}

export function targetOf(site: SiteTable, at: number): Target | undefined {
  const size = theIndex()!.site.chunk;
  return chunk<Target[]>(`${site.id}/target-${Math.floor(at / size)}`).value?.[at % size];
}

/** The prediction of a run for a sample: undefined while it loads, null where there is none. */
export function predictionOf(
  site: SiteTable,
  run: string,
  columns: Columns,
  at: number,
): { prediction: Prediction; texts: string[] } | null | undefined {
  if ((columns.runs[run]?.failure[at] ?? "-") === "-") return null;
  const size = theIndex()!.site.chunk;
  const found = chunk<PredictionChunk>(`${site.id}/${run}-${Math.floor(at / size)}`);
  if (found.failed) return null;
  const prediction = found.value?.samples[at % size];
  return found.value ? (prediction ? { prediction, texts: found.value.texts } : null) : undefined;
}

export function runOf({ table, site }: Both, name: string): { row: Row; run: string | null; place: number } | undefined {
  const place = table.rows.findIndex((row) => row.name === name && row.kind !== "published");
  return place < 0 ? undefined : { row: table.rows[place], run: site.runs[place], place };
}

export const isPublished = (row: Row): boolean => row.kind === "published";
export const valueOf = (table: Table, row: Row): number | null => row.metrics[table.headline] ?? null;

export function textOf(texts: string[], number: number | undefined, question: string): string {
  return number === undefined ? "" : (texts[number] ?? "").replaceAll(QUESTION, question);
}

/** The texts that the answer was read from. */
export function responsesOf(prediction: Prediction): string[] {
  const calls = prediction.calls ?? [];
  const named = prediction.responses ?? calls.map((_, place) => place);
  return named.map((one) => (typeof one === "number" ? calls[one]?.response ?? "" : one));
}

// Parts that several pages share.
import { Virtualizer, elementScroll, observeElementOffset, observeElementRect } from "@tanstack/virtual-core";
import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useReducer, useRef, useState } from "preact/hooks";
import { isPublished, theIndex, type Medium, type Pair, type Refused, type Row, type SiteTable } from "./board";
import { number } from "./format";
import { route, setQuery } from "./route";

export function Search({ label, name = "q" }: { label: string; name?: string }) {
  return (
    <input
      class="search"
      type="search"
      placeholder={label}
      aria-label={label}
      data-search
      value={route.value.query[name] ?? ""}
      onInput={(event) => setQuery({ [name]: event.currentTarget.value })}
    />
  );
}

export function Choice(props: { label: string; name: string; options: [string, string][]; fallback?: string }) {
  const { label, name, options, fallback = "" } = props;
  return (
    <label class="choice">
      <span>{label}</span>
      <select
        value={route.value.query[name] ?? fallback}
        onChange={(event) => setQuery({ [name]: event.currentTarget.value === fallback ? "" : event.currentTarget.value })}
      >
        {options.map(([value, text]) => (
          <option key={value} value={value}>
            {text}
          </option>
        ))}
      </select>
    </label>
  );
}

export function Switch({ label, name, on = true }: { label: string; name: string; on?: boolean }) {
  const given = route.value.query[name];
  const checked = given === undefined ? on : given === "1";
  return (
    <label class="switch">
      <input
        type="checkbox"
        checked={checked}
        onChange={() => setQuery({ [name]: checked === on ? (on ? "0" : "1") : "" })}
      />
      <span>{label}</span>
    </label>
  );
}

export const isOn = (name: string, fallback = true): boolean => {
  const given = route.value.query[name];
  return given === undefined ? fallback : given === "1";
};

/** A menu of check boxes; what is hidden stands in the query, separated by "~". */
export function Hide(props: { label: string; name: string; options: [string, string][]; fallback?: string }) {
  const { label, name, options, fallback = "" } = props;
  const hidden = hiddenIn(name, fallback);
  const box = useRef<HTMLDetailsElement>(null);
  useEffect(() => {
    const close = (event: Event) => {
      if (box.current && !box.current.contains(event.target as Node)) box.current.open = false;
    };
    addEventListener("pointerdown", close);
    return () => removeEventListener("pointerdown", close);
  }, []);
  const flip = (value: string) => {
    const left = new Set(hidden);
    if (!left.delete(value)) left.add(value);
    const text = [...left].sort().join("~") || NONE;
    setQuery({ [name]: text === (fallback || NONE) ? "" : text });
  };
  return (
    <details class="menu" ref={box}>
      <summary>
        {label}
        {hidden.size > 0 && <b> {options.length - options.filter(([value]) => hidden.has(value)).length} of {options.length}</b>}
      </summary>
      <div class="sheet">
        {options.map(([value, text]) => (
          <label key={value}>
            <input type="checkbox" checked={!hidden.has(value)} onChange={() => flip(value)} /> {text}
          </label>
        ))}
      </div>
    </details>
  );
}

const NONE = "none";

export const hiddenIn = (name: string, fallback = ""): Set<string> =>
  new Set((route.value.query[name] ?? fallback).split("~").filter((one) => one && one !== NONE));

/** A heading that sorts: the first click puts the better end first. */
export function SortHead(props: {
  name: string;
  first?: "up" | "down";
  fallback?: string;
  class?: string;
  title?: string;
  /** What stands above the button. */
  before?: ComponentChildren;
  children: ComponentChildren;
  as?: "th" | "div";
}) {
  const { name, first = "up", fallback = "", children, as = "th" } = props;
  const sort = route.value.query.sort ?? fallback;
  const up = sort === name;
  const down = sort === `-${name}`;
  const next = up ? `-${name}` : down ? name : first === "up" ? name : `-${name}`;
  const attributes = {
    class: props.class,
    title: props.title,
    "aria-sort": up ? "ascending" : down ? "descending" : "none",
  } as object;
  const button = (
    <button type="button" class="sort" onClick={() => setQuery({ sort: next === fallback ? "" : next })}>
      {children}
    </button>
  );
  return as === "th" ? (
    <th scope="col" {...attributes}>
      {props.before}
      {button}
    </th>
  ) : (
    <div role="columnheader" {...attributes}>
      {button}
    </div>
  );
}

export function sorted<T>(list: T[], sort: string, keyOf: (item: T, name: string) => number | string | null | undefined): T[] {
  const down = sort.startsWith("-");
  const name = down ? sort.slice(1) : sort;
  const keyed = list.map((item, place) => ({ item, place, key: keyOf(item, name) }));
  const missing = (key: unknown) => key === null || key === undefined;
  keyed.sort((a, b) => {
    // What has no value stays at the end whichever way the column runs.
    if (missing(a.key) || missing(b.key)) return Number(missing(a.key)) - Number(missing(b.key)) || a.place - b.place;
    const order =
      typeof a.key === "string" ? a.key.localeCompare(String(b.key), "en", { numeric: true }) : a.key! - (b.key as number);
    return (down ? -order : order) || a.place - b.place;
  });
  return keyed.map(({ item }) => item);
}

export type Axis = { low: number; high: number };

/** One axis for all rows: 0 to 1 where all numbers are shares, else what covers them. */
export function axisOf(values: (number | null)[], intervals: (Pair | undefined)[]): Axis | null {
  const ends = [...values, ...intervals.flatMap((pair) => pair ?? [])].filter((one): one is number => one !== null);
  if (!ends.length) return null;
  const [low, high] = [Math.min(...ends), Math.max(...ends)];
  if (low >= 0 && high <= 1) return { low: 0, high: 1 };
  const margin = (high - low || Math.abs(low) || 1) * 0.05;
  return { low: low - margin, high: high + margin };
}

const WIDE = 168;
const EDGE = 6;

export function Interval(props: { axis: Axis; value: number | null; interval: Pair | undefined; best: number | null; hollow?: boolean }) {
  const { axis, value, interval, best, hollow } = props;
  if (value === null) return null;
  const x = (one: number) => EDGE + ((one - axis.low) / (axis.high - axis.low)) * (WIDE - 2 * EDGE);
  return (
    <svg class={hollow ? "interval hollow" : "interval"} width={WIDE} height="18" aria-hidden="true">
      <line class="ground" x1={EDGE} x2={WIDE - EDGE} y1="9" y2="9" />
      {best !== null && <line class="best" x1={x(best)} x2={x(best)} y1="1" y2="17" />}
      {interval && (
        <>
          <line class="span" x1={x(interval[0])} x2={x(interval[1])} y1="9" y2="9" />
          {interval.map((end, place) => (
            <line key={place} class="end" x1={x(end)} x2={x(end)} y1="5.5" y2="12.5" />
          ))}
        </>
      )}
      <circle cx={x(value)} cy="9" r="3.5" />
    </svg>
  );
}

export function AxisEnds({ axis }: { axis: Axis | null }) {
  return axis && (
    <span class="axis" aria-hidden="true">
      <span>{number(axis.low)}</span>
      <span>{number(axis.high)}</span>
    </span>
  );
}

function isTrainedOn(row: Row): boolean {
  const found = row.trained_on as { images?: number; alike?: number; scans?: number } | null | undefined;
  return Boolean(found && (found.images || found.alike || found.scans));
}

const BADGES: [(row: Row) => boolean, string, string, string][] = [
  [isTrainedOn, "†", "trained", "Some of these samples were trained on."],
  [(row) => Boolean(row.deviations?.length), "‡", "differs", "Differs from the paper of its method; see the notes."],
  [(row) => Boolean(row.transductive), "§", "transductive", "Its weights learn from each test sample, without the target, before it is answered."],
  [(row) => row.answered !== undefined && row.answered < 0.9 && row.kind !== "running", "few answers", "few", "Fewer than 90 % of the samples have an answer."],
  [(row) => row.kind === "running", "running", "running", "Not finished: the mean over what is answered so far, without a rank."],
];

/** Marks with their meaning: † ‡ §, toy or classical parts, running. */
export function Badges({ row }: { row: Row }) {
  return (
    <>
      {BADGES.filter(([holds]) => holds(row)).map(([, text, name, title]) => (
        <span key={name} class={`badge ${name}`} title={title}>
          {text}
        </span>
      ))}
      {(row.badges ?? []).map((text) => (
        <span key={text} class="badge toy" title="A part of this model is a toy or classical.">
          {text}
        </span>
      ))}
      {isPublished(row) && (
        <span class="badge reported" title={sourceOf(row)}>
          reported{row.comparable === false && ", protocol not known to match"}
        </span>
      )}
    </>
  );
}

export function sourceOf(row: Row): string {
  const source = row.source ?? {};
  const protocol = source.protocol && `protocol ${source.protocol}${source.protocol_is ? ` (${source.protocol_is})` : ""}`;
  const parts = [source.title ?? source.paper, source.table && `table ${source.table}`, source.row, source.backbone, protocol, source.subset, source.defect];
  return parts.filter(Boolean).join(", ");
}

/** Below the measured rows of a table: what papers print, in no order with them. */
export function Reported({ span }: { span: number }) {
  return (
    <tr class="published part">
      <th scope="rowgroup" colSpan={span}>Reported in papers, not measured here: no rank, no paired test</th>
    </tr>
  );
}

/** Runs that are named and counted nowhere, each with the reason. */
export function RefusedRows({ refused, span, before = 0 }: { refused: Refused[]; span: number; before?: number }) {
  return refused.length ? (
    <tbody>
      {refused.map((one) => (
        <tr key={one.run + one.reason} class="refused">
          {before > 0 && <td colSpan={before}>–</td>}
          <th scope="row" class="model">
            {one.model || one.run} <span class="badge refused" title="Its record cannot be believed, so it is counted nowhere.">refused</span>
            <small>{one.task && `${one.task}, `}run {one.run}</small>
          </th>
          <td colSpan={span - before - 1}>{one.reason}</td>
        </tr>
      ))}
    </tbody>
  ) : null;
}

/** A sample's thumbnail, cut from its sheet. */
export function Thumb({ site, at, medium }: { site: SiteTable; at: number; medium: Medium | undefined }) {
  const { size, columns, each } = theIndex()!.site.thumbs;
  if (!site.thumbs || !medium?.file) return <span class="thumb none" />;
  const place = at % each;
  return (
    <span
      class={medium.frames > 1 ? "thumb video" : "thumb"}
      style={{
        backgroundImage: `url("media/${site.id}-${Math.floor(at / each)}.webp")`,
        backgroundPosition: `${(-(place % columns) * size) / 2}px ${(-Math.floor(place / columns) * size) / 2}px`,
        backgroundSize: `${(size * columns) / 2}px auto`,
      }}
    />
  );
}

export type Rows = { scrollTo: (place: number) => void };

/** Rows of one height of which only those in view are in the document. */
export function VirtualRows(props: {
  count: number;
  height: number;
  head: ComponentChildren;
  label: string;
  row: (place: number, style: Record<string, string>) => ComponentChildren;
  handle: { current: Rows | null };
}) {
  const { count, height } = props;
  const box = useRef<HTMLDivElement>(null);
  const [, again] = useReducer((tick: number) => tick + 1, 0);
  const [virtual] = useState(
    () =>
      new Virtualizer<HTMLDivElement, Element>({
        count,
        getScrollElement: () => box.current,
        estimateSize: () => height,
        overscan: 8,
        scrollToFn: elementScroll,
        observeElementRect,
        observeElementOffset,
        onChange: () => again(0),
      }),
  );
  virtual.setOptions({ ...virtual.options, count, estimateSize: () => height });
  useLayoutEffect(() => {
    const done = virtual._didMount();
    again(0);
    return done;
  }, []);
  useLayoutEffect(() => virtual._willUpdate());
  useLayoutEffect(() => {
    virtual.measure();
    again(0);
  }, [count, height]);
  props.handle.current = { scrollTo: (place) => virtual.scrollToIndex(place, { align: "auto" }) };
  return (
    <div class="rows" ref={box} tabIndex={0} role="table" aria-label={props.label} aria-rowcount={count + 1}>
      <div class="head" role="rowgroup">
        {props.head}
      </div>
      <div role="rowgroup" style={{ height: `${virtual.getTotalSize()}px`, position: "relative" }}>
        {virtual.getVirtualItems().map((item) =>
          item.index < count
            ? props.row(item.index, { transform: `translateY(${item.start}px)`, height: `${height}px` })
            : null,
        )}
      </div>
    </div>
  );
}

export function Crumbs({ parts }: { parts: [string, string?][] }) {
  return (
    <nav class="crumbs" aria-label="Where this page is">
      {parts.map(([text, link]) => (link ? <a href={link} key={text}>{text}</a> : <span key={text} aria-current="page">{text}</span>))}
    </nav>
  );
}

export function Scroll({ label, children }: { label: string; children: ComponentChildren }) {
  const box = useRef<HTMLDivElement>(null);
  const [more, setMore] = useState(false);
  const look = () => {
    const element = box.current;
    if (element) setMore(element.scrollLeft + element.clientWidth < element.scrollWidth - 2);
  };
  useEffect(() => {
    const observer = new ResizeObserver(look);
    observer.observe(box.current!);
    return () => observer.disconnect();
  }, []);
  useLayoutEffect(look);
  return (
    <div class={more ? "scroller more" : "scroller"}>
      <div class="scroll" ref={box} tabIndex={0} role="region" aria-label={label} onScroll={look}>
        {children}
      </div>
    </div>
  );
}

export const Loading = () => <p class="quiet loading">Loading…</p>;

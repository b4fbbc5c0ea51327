// Every state is a link: a path of parts and a query, both in the hash.
import { computed, signal } from "@preact/signals";

export type Query = Record<string, string>;

const hash = signal(location.hash);
addEventListener("hashchange", () => (hash.value = location.hash));

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text; // a link that was cut
  }
}

export const route = computed(() => {
  const [path, query = ""] = hash.value.replace(/^#/, "").split("?", 2);
  return {
    parts: path.split("/").filter(Boolean).map(decode),
    query: Object.fromEntries(new URLSearchParams(query)) as Query,
  };
});

export function href(parts: string[], query: Query = {}): string {
  const text = new URLSearchParams(Object.entries(query).filter(([, value]) => value !== "")).toString();
  return `#/${parts.map(encodeURIComponent).join("/")}${text ? `?${text}` : ""}`;
}

/** Changes the query in place, so that going back leaves the page and not a letter of a filter. */
export function setQuery(change: Query): void {
  const { parts, query } = route.peek();
  go(href(parts, { ...query, ...change }), true);
}

export function go(target: string, replace = false): void {
  if (replace) history.replaceState(null, "", target);
  else history.pushState(null, "", target);
  hash.value = location.hash;
}
addEventListener("popstate", () => (hash.value = location.hash));

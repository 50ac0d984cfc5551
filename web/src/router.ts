// Each view is a URL: #/jobs/17?tab=errors. Back, reload and a new tab lead to the same view, under any prefix.
import { useEffect, useMemo, useState } from "preact/hooks";

export interface Route {
  path: string[]; // decoded segments
  query: URLSearchParams;
}

export function parseRoute(hash: string): Route {
  const [path = "", query = ""] = hash.replace(/^#\/?/, "").split(/\?(.*)/s);
  return { path: path.split("/").filter(Boolean).map(decode), query: new URLSearchParams(query) };
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text; // an address that was cut off or typed
  }
}

export type RouteQuery = Record<string, string | number | undefined | null>;

export function link(path: (string | number | bigint)[], query: RouteQuery = {}): string {
  const text = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined && value !== null && value !== "") text.set(name, String(value));
  }
  const search = text.toString();
  return `#/${path.map((part) => encodeURIComponent(String(part))).join("/")}${search && `?${search}`}`;
}

export function navigate(hash: string, replace = false): void {
  if (replace) {
    history.replaceState(null, "", hash);
    dispatchEvent(new HashChangeEvent("hashchange"));
  } else {
    location.hash = hash;
  }
}

// The list of jobs that the viewer saw last, with its filters.
let jobList = "";
export const rememberJobList = (hash: string): void => void (jobList = hash);
export const lastJobList = (): string => jobList;

export function useRoute(): Route {
  const [hash, setHash] = useState(location.hash);
  useEffect(() => {
    const update = () => setHash(location.hash);
    addEventListener("hashchange", update);
    update(); // the address may have changed since the first render
    return () => removeEventListener("hashchange", update);
  }, []);
  return useMemo(() => parseRoute(hash), [hash]);
}

// Changes parameters of the present view; undefined removes one.
export function withQuery(route: Route, changes: RouteQuery): string {
  return link(route.path, { ...Object.fromEntries(route.query), ...changes });
}

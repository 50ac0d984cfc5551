// What the jobs page shows, as the address says it, and as the API asks for it.
import type { Query } from "../../api/client";
import { periodOf, WINDOWS, type Period } from "../../components/period";
import type { Route } from "../../router";

export const STATES = ["available", "running", "scheduled", "retryable", "waiting", "completed", "cancelled", "dead"] as const;

export interface Filter extends Period {
  states: string[];
  queue: string;
  kind: string;
  tag: string;
  q: string;
}

export function filterOf(route: Route): Filter {
  const get = (name: string) => route.query.get(name) ?? "";
  return {
    states: statesOf(route).filter(isState),
    queue: get("queue"),
    kind: get("kind"),
    tag: get("tag"),
    q: get("q"),
    ...periodOf(route, "within"),
  };
}

const statesOf = (route: Route): string[] => (route.query.get("state") ?? "").split(",").filter((state) => state !== "");
const isState = (state: string): boolean => (STATES as readonly string[]).includes(state);

// States of the address that do not exist.
export const unknownStates = (route: Route): string[] => statesOf(route).filter((state) => !isState(state));

function windowOf(filter: Filter, now: number): { from?: string; to?: string } {
  if (filter.within) return { from: new Date(now - WINDOWS[filter.within]!).toISOString() };
  return { from: filter.from || undefined, to: filter.to || undefined };
}

export const apiQuery = (filter: Filter, now = Date.now()): Query => ({
  state: filter.states.join(","),
  queue: filter.queue,
  kind: filter.kind,
  tag: filter.tag,
  q: filter.q,
  ...windowOf(filter, now),
});

// The same as the body of a bulk action. Its window ends now: jobs that arrive later are not meant.
export function bulkFilter(filter: Filter, now = Date.now()): Record<string, unknown> {
  const { from, to = new Date(now).toISOString() } = windowOf(filter, now);
  const out: Record<string, unknown> = { to };
  if (from) out.from = from;
  if (filter.states.length > 0) out.state = filter.states;
  for (const key of ["queue", "kind", "tag", "q"] as const) if (filter[key]) out[key] = filter[key];
  return out;
}

// Exact counts exist for a queue and a state, not for the other filters.
export const countedExactly = (filter: Filter): boolean =>
  !filter.kind && !filter.tag && !filter.q && !filter.within && !filter.from && !filter.to;

// The states of the address with `state` added or removed.
export function toggled(states: string[], state: string): string {
  return states.includes(state) ? states.filter((one) => one !== state).join(",") : [...states, state].join(",");
}

// Data of a page: read when the page opens, and again when an event concerns it. There is no polling.
import { useCallback, useEffect, useRef, useState } from "preact/hooks";

import { ApiError } from "./api/client";
import { listen, type ServerEvent } from "./api/events";

// A change is visible soon after it happened; while changes keep coming, they cause at most one read per COALESCE_MS.
const FIRST_MS = 40;
const COALESCE_MS = 250;
// For answers that cost the server more than a page of jobs: long lists, groups of dead jobs.
export const COSTLY_MS = 2_000;

const MANY_QUEUES = 100;
// Of a list of all queues: many of them are costly.
export const queuesCoalesceMs = (list?: { queues: unknown[] }): number =>
  (list?.queues.length ?? 0) > MANY_QUEUES ? COSTLY_MS : COALESCE_MS;

export interface Loaded<T> {
  data?: T; // the last good answer; stays while the next one is read or failed
  error?: ApiError;
  loading: boolean;
  reload: () => void;
}

// Reads with `read` whenever `key` changes, and when `concerns` returns true for an event. A "gap" concerns every page.
export function useData<T>(
  key: string,
  read: (signal: AbortSignal) => Promise<T>,
  concerns?: (event: ServerEvent) => boolean,
  coalesceMs: number | ((data?: T) => number) = COALESCE_MS,
): Loaded<T> {
  const [state, setState] = useState<{ key: string; data?: T; error?: ApiError; loading: boolean }>({ key, loading: true });
  const coalesce = typeof coalesceMs === "number" ? coalesceMs : coalesceMs(state.data);
  const latest = useRef({ read, concerns, coalesce, load: () => {} });
  const running = useRef<AbortController | undefined>(undefined);

  const again = useRef(false); // something changed while a read was under way
  const load = useCallback(() => {
    running.current?.abort();
    const abort = (running.current = new AbortController());
    again.current = false;
    setState((s) => (s.key === key ? { ...s, loading: true } : { key, loading: true }));
    const ended = () => {
      running.current = undefined;
      if (again.current) load();
    };
    latest.current.read(abort.signal).then(
      (data) => {
        if (abort.signal.aborted) return;
        setState({ key, data, loading: false });
        ended();
      },
      (error) => {
        if (abort.signal.aborted) return;
        ended();
        const known = error instanceof ApiError ? error : new ApiError(0, "unexpected", String(error));
        setState((s) => ({ ...s, key, error: known, loading: false }));
      },
    );
  }, [key]);

  latest.current = { read, concerns, coalesce, load };
  // The same function for every key: a caller that kept it reads what is shown now, not what was shown then.
  const reload = useCallback(() => latest.current.load(), []);

  useEffect(() => {
    load();
    return () => running.current?.abort();
  }, [load]);

  useEffect(() => {
    if (!concerns) return;
    let timer: ReturnType<typeof setTimeout> | undefined;
    let last = 0;
    const stop = listen((event) => {
      if (event.type !== "gap" && !latest.current.concerns?.(event)) return;
      const now = performance.now();
      const wait = event.type === "gap" ? FIRST_MS : Math.max(FIRST_MS, last + latest.current.coalesce - now);
      timer ??= setTimeout(() => {
        timer = undefined;
        last = performance.now();
        // A read that is under way ends first: a slow server must not keep the page from ever changing.
        if (running.current) again.current = true;
        else load();
      }, wait);
    });
    return () => {
      stop();
      clearTimeout(timer);
    };
  }, [load, concerns !== undefined]);

  return { data: state.key === key ? state.data : undefined, error: state.error, loading: state.loading, reload };
}

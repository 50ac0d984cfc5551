// Data of a page: read when the page opens, and again when an event concerns it. There is no polling.
import { useCallback, useEffect, useRef, useState } from "preact/hooks";

import { ApiError } from "./api/client";
import { listen, type ServerEvent } from "./api/events";

const COALESCE_MS = 250;

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
  coalesceMs = COALESCE_MS, // events cause at most one read in this time
): Loaded<T> {
  const [state, setState] = useState<{ key: string; data?: T; error?: ApiError; loading: boolean }>({ key, loading: true });
  const latest = useRef({ read, concerns });
  latest.current = { read, concerns };
  const running = useRef<AbortController | undefined>(undefined);

  const load = useCallback(() => {
    running.current?.abort();
    const abort = (running.current = new AbortController());
    setState((s) => (s.key === key ? { ...s, loading: true } : { key, loading: true }));
    latest.current.read(abort.signal).then(
      (data) => abort.signal.aborted || setState({ key, data, loading: false }),
      (error) => {
        if (abort.signal.aborted) return;
        const known = error instanceof ApiError ? error : new ApiError(0, "unexpected", String(error));
        setState((s) => ({ ...s, key, error: known, loading: false }));
      },
    );
  }, [key]);

  useEffect(() => {
    load();
    return () => running.current?.abort();
  }, [load]);

  useEffect(() => {
    if (!concerns) return;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const stop = listen((event) => {
      if (event.type !== "gap" && !latest.current.concerns?.(event)) return;
      timer ??= setTimeout(() => {
        timer = undefined;
        load();
      }, event.type === "gap" ? COALESCE_MS : coalesceMs);
    });
    return () => {
      stop();
      clearTimeout(timer);
    };
  }, [load, concerns !== undefined]);

  return { data: state.key === key ? state.data : undefined, error: state.error, loading: state.loading, reload: load };
}

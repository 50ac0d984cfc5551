// A log as it grows. Text only: nothing in a log can become markup.
import { useEffect, useState } from "preact/hooks";

import { ApiError, apiUrl } from "../api/client";
import { t } from "../texts";
import { Panel } from "./basics";

// More lines than this slow a browser down; the rest is in `mainspring jobs-host logs`.
const MAX_LOG_CHARS = 400_000;
const TAIL_BYTES = 65_536;
const RETRY_MS = [500, 1_000, 2_000, 5_000, 10_000];

// Follows the log of a job folder, or of one of its runs, by one stream.
export function LogPanel(props: { path: string; run?: string }) {
  const { path, run } = props;
  const [text, setText] = useState("");
  const [find, setFind] = useState("");
  const [error, setError] = useState("");
  const [lost, setLost] = useState(false);
  useEffect(() => {
    let current: AbortController | undefined;
    let timer: ReturnType<typeof setTimeout> | undefined;
    let failures = 0;
    let whole = false;
    setText("");
    setError("");
    setLost(false);
    // Reads the end of the log, and what follows, until the server ends the stream.
    const follow = async (signal: AbortSignal) => {
      const response = await fetch(apiUrl(`${path}/log`, { run, position: -TAIL_BYTES, follow: true }), {
        credentials: "same-origin", signal,
      });
      if (!response.ok || !response.body) {
        const body = await response.text();
        throw new ApiError(response.status, "http", response.status === 404 ? "" : body);
      }
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      let first = true;
      setLost(false);
      for (;;) {
        const { done, value } = await reader.read();
        if (done) return;
        failures = 0;
        const before = first;
        first = false;
        setText((old) => ((before ? "" : old) + value).slice(-MAX_LOG_CHARS));
      }
    };
    const connect = async () => {
      clearTimeout(timer);
      if (document.hidden || current || whole) return;
      const own = (current = new AbortController());
      try {
        await follow(own.signal);
        whole = run !== undefined; // a run's log ends; a folder's only with the server
      } catch (problem) {
        if (own.signal.aborted) return;
        if (problem instanceof ApiError && problem.status < 500) return setError(problem.message);
      }
      current = undefined;
      if (whole || own.signal.aborted) return;
      setLost(true);
      timer = setTimeout(connect, RETRY_MS[Math.min(failures++, RETRY_MS.length - 1)]);
    };
    const disconnect = () => {
      clearTimeout(timer);
      current?.abort();
      current = undefined;
    };
    // A browser opens few connections to a server: a hidden tab keeps none.
    const onVisibility = () => (document.hidden ? disconnect() : void connect());
    document.addEventListener("visibilitychange", onVisibility);
    void connect();
    return () => {
      document.removeEventListener("visibilitychange", onVisibility);
      disconnect();
    };
  }, [path, run]);
  const lines = find === "" ? text : text.split("\n").filter((line) => line.toLowerCase().includes(find.toLowerCase())).join("\n");
  return (
    <Panel
      title={run ? t.folders.logOf(run) : t.folders.log}
      actions={
        <label class="inline">
          {t.folders.find} <input value={find} onInput={(e) => setFind(e.currentTarget.value)} />
        </label>
      }
    >
      {error && <p class="field-error">{error}</p>}
      {lost && <p class="note" role="status">{t.layout.stream.lost}</p>}
      {lines === "" ? (
        <p class="note">{text === "" ? t.folders.logEmpty : t.folders.noLine}</p>
      ) : (
        <pre class="value log" tabIndex={0} role="log" aria-label={t.folders.log}>
          {lines}
        </pre>
      )}
    </Panel>
  );
}

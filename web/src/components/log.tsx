// A log as it grows. Text only: nothing in a log can become markup.
import { useEffect, useState } from "preact/hooks";

import { ApiError, apiUrl } from "../api/client";
import { t } from "../texts";
import { Panel } from "./basics";

// More lines than this slow a browser down; the rest is in `mainspring jobs-host logs`.
const MAX_LOG_CHARS = 400_000;
const TAIL_BYTES = 65_536;

// Follows the log of a job folder, or of one of its runs, by one stream.
export function LogPanel(props: { path: string; run?: string }) {
  const { path, run } = props;
  const [text, setText] = useState("");
  const [find, setFind] = useState("");
  const [error, setError] = useState("");
  useEffect(() => {
    const abort = new AbortController();
    setText("");
    setError("");
    const follow = async () => {
      const response = await fetch(apiUrl(`${path}/log`, { run, position: -TAIL_BYTES, follow: true }), {
        credentials: "same-origin", signal: abort.signal,
      });
      if (!response.ok || !response.body) {
        const body = await response.text();
        throw new ApiError(response.status, "http", response.status === 404 ? "" : body);
      }
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      for (;;) {
        const { done, value } = await reader.read();
        if (done) return;
        setText((old) => (old + value).slice(-MAX_LOG_CHARS));
      }
    };
    follow().catch((problem) => {
      if (!abort.signal.aborted) setError(problem instanceof ApiError ? problem.message : String(problem));
    });
    return () => abort.abort();
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

// A log as it grows. Text only: nothing in a log can become markup.
import { useEffect, useState } from "preact/hooks";

import { ApiError, apiUrl, get, type Schemas } from "../api/client";
import { retryMs } from "../api/events";
import { count } from "../format";
import { t } from "../texts";
import { Panel } from "./basics";

// More characters than this slow a browser down; `mainspring logs` prints the rest.
const MAX_LOG_CHARS = 400_000;
const TAIL_BYTES = 65_536;
// The server writes it into a stream in place of bytes that are not kept any more.
const ROLLED = /\[(\d+) bytes are not here: the log was rolled\]\r\n/g;

type LogState = "following" | "lost" | "none" | "ended";
interface Follower {
  append: (text: string) => void;
  set: (state: LogState) => void;
  start: (position: number) => void; // of the first text
}

// Where a log was read up to. It outlives a broken stream, so that the next one continues there.
class LogReader {
  private run: string | undefined;
  private failures = 0;
  private readonly decoder = new TextDecoder();

  constructor(
    private readonly path: string,
    run: string | undefined,
    private readonly to: Follower,
    private position: number,
  ) {
    this.run = run;
  }

  // Ends with the log. Throws if it was aborted, and for a refusal that a retry does not change.
  async follow(signal: AbortSignal): Promise<void> {
    for (;;) {
      try {
        if (await this.readOnce(signal)) return this.to.set("ended");
        await this.stream(signal);
      } catch (problem) {
        if (signal.aborted || (problem instanceof ApiError && isRefusal(problem))) throw problem;
        this.to.set("lost");
      }
      await pause(retryMs(this.failures++), signal);
    }
  }

  // True if the log has ended and all of it was read. A stream does not say why it ends.
  private async readOnce(signal: AbortSignal): Promise<boolean> {
    const answer = await get<Schemas["HostLog"]>(`${this.path}/log`, { run: this.run, position: this.position }, signal);
    this.run = answer.run ?? this.run;
    if (this.position < 0) this.to.start(answer.next - new TextEncoder().encode(answer.text).length);
    this.position = answer.next;
    this.to.set("following");
    this.to.append(answer.text);
    return answer.ended;
  }

  private async stream(signal: AbortSignal): Promise<void> {
    const query = { run: this.run, position: this.position, follow: true };
    const response = await fetch(apiUrl(`${this.path}/log`, query), { credentials: "same-origin", signal });
    if (!response.ok || !response.body) throw new ApiError(response.status, "http", await response.text());
    const reader = response.body.getReader();
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      this.failures = 0;
      const text = this.decoder.decode(value, { stream: true });
      this.position += value.length;
      for (const [notice, bytes] of text.matchAll(ROLLED)) this.position += Number(bytes) - notice.length;
      this.to.append(text);
    }
  }
}

const isRefusal = ({ status }: ApiError): boolean => status >= 400 && status < 500 && status !== 429;

const pause = (ms: number, signal: AbortSignal): Promise<void> =>
  new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener("abort", () => (clearTimeout(timer), reject(signal.reason)), { once: true });
  });

// Says that earlier text is not shown, and loads it as far as the browser can take it.
function Cut(props: { cut: boolean; length: number; all?: () => void }) {
  const full = props.length >= MAX_LOG_CHARS;
  if (!props.cut && !full) return null;
  return (
    <p class="note">
      {props.all && !full ? t.folders.logCut : t.folders.logTooLong(count(MAX_LOG_CHARS))}{" "}
      {props.all && !full && (
        <button type="button" class="link" onClick={props.all}>
          {t.folders.logEarlier}
        </button>
      )}
    </p>
  );
}

// Follows the log of a job folder, or of one of its runs. The stream is open while the tab is visible: a browser has
// few connections for one server.
export function LogPanel(props: { path: string; run?: string }) {
  const { path, run } = props;
  const [text, setText] = useState("");
  const [find, setFind] = useState("");
  const [error, setError] = useState("");
  const [state, setState] = useState<LogState>("following");
  const [tail, setTail] = useState(TAIL_BYTES);
  const [cut, setCut] = useState(false);
  useEffect(() => {
    setText("");
    setCut(false);
    setError("");
    setState("following");
    let abort: AbortController | undefined;
    let ended = false;
    const reader = new LogReader(path, run, {
      append: (more) => setText((old) => (old + more).slice(-MAX_LOG_CHARS)),
      set: (next) => {
        ended = next === "ended";
        setState(next);
      },
      start: (position) => setCut(position > 0),
    }, -tail);
    const update = () => {
      if (document.hidden || ended) return abort?.abort();
      if (abort && !abort.signal.aborted) return;
      const { signal } = (abort = new AbortController());
      reader.follow(signal).catch((problem) => {
        if (signal.aborted) return;
        if (problem instanceof ApiError && problem.status === 404) return setState("none");
        setError(problem instanceof ApiError ? problem.message : String(problem));
      });
    };
    document.addEventListener("visibilitychange", update);
    update();
    return () => {
      document.removeEventListener("visibilitychange", update);
      abort?.abort();
    };
  }, [path, run, tail]);
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
      {state === "lost" && (
        <p class="note" role="status">
          {t.layout.stream.lost}
        </p>
      )}
      <Cut cut={cut} length={text.length} all={tail < MAX_LOG_CHARS ? () => setTail(MAX_LOG_CHARS) : undefined} />
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

// Sends what handlers report (progress, checkpoints, messages, results of steps), many in one
// renewal.
import { type Attempt, type Report } from "./attempt.js";
import { type Core, Pauses, sleep } from "./core.js";
import { isRecord, makeError, type MainspringError } from "./errors.js";

const PROGRESS_PAUSE_MS = 100;
const MAX_BYTES = 512 << 10;
const MAX_PIECES = 16;
const MAX_LEASES = 1000;

interface Sent {
  attempt: Attempt;
  progress: Attempt["newProgress"];
  reports: Report[];
  json: string;
}

export interface ReporterOptions {
  core: Core;
  worker: string;
  leaseMs: number;
  lost(attempt: Attempt): void;
  cancel(ids: string[]): void;
}

export class Reporter {
  private readonly waiting = new Set<Attempt>();
  private timer: NodeJS.Timeout | undefined;
  private sending = false;
  private rest = new AbortController(); // of a pause in which only progress waits
  private stopped = false;

  constructor(private readonly options: ReporterOptions) {}

  soon(attempt: Attempt, atOnce: boolean): void {
    this.waiting.add(attempt);
    if (this.sending) {
      if (atOnce) this.rest.abort();
      return;
    }
    if (atOnce) {
      clearTimeout(this.timer);
      this.timer = undefined;
      void this.send();
    } else {
      this.timer ??= setTimeout(() => {
        this.timer = undefined;
        void this.send();
      }, PROGRESS_PAUSE_MS);
    }
  }

  forget(attempt: Attempt): void {
    this.waiting.delete(attempt);
  }

  /** No repeats any more: what is unsent stays unsent. */
  stop(): void {
    this.stopped = true;
    clearTimeout(this.timer);
    this.rest.abort();
  }

  private async send(): Promise<void> {
    this.sending = true;
    await Promise.resolve(); // what handlers report in this turn goes together
    const pauses = new Pauses();
    while (this.waiting.size > 0 && !this.stopped) {
      const sent = this.gather();
      if (sent.length === 0) break;
      try {
        this.answered(sent, await this.renew(sent));
        pauses.reset();
        await this.restFromProgress();
      } catch (thrown) {
        const error = thrown as MainspringError;
        if (error.again !== "no") {
          await sleep(pauses.next(error));
        } else if (sent.length > 1) {
          for (const one of sent) await this.sendAlone(one); // one that is refused must not spoil the others
          await sleep(pauses.next());
        } else {
          this.refused(sent, error);
        }
      }
    }
    this.sending = false;
  }

  // Progress may wait; a step, a checkpoint or a message ends the pause.
  private async restFromProgress(): Promise<void> {
    if (this.waiting.size === 0) return;
    if ([...this.waiting].some((attempt) => attempt.reports.length > 0)) return;
    this.rest = new AbortController();
    await sleep(PROGRESS_PAUSE_MS, this.rest.signal);
  }

  private async sendAlone(one: Sent): Promise<void> {
    try {
      this.answered([one], await this.renew([one]));
    } catch (thrown) {
      const error = thrown as MainspringError;
      if (error.again === "no") this.refused([one], error);
    }
  }

  private renew(sent: Sent[]): Promise<Record<string, unknown>> {
    const { core, worker, leaseMs } = this.options;
    const head = `{"worker":${JSON.stringify(worker)},"lease":"${Math.round(leaseMs)}ms","leases":[`;
    const timeoutMs = Math.min(core.readTimeoutMs, Math.max(leaseMs / 3, 1000));
    const body = head + sent.map((one) => one.json).join(",") + "]}";
    const call = { method: "POST", path: "/v1/renew", repeat: "no", timeoutMs } as const;
    return core.callText({ ...call, lane: "worker" }, body);
  }

  private gather(): Sent[] {
    const out: Sent[] = [];
    let bytes = 0;
    for (const attempt of this.waiting) {
      if (attempt.lost || (attempt.reports.length === 0 && attempt.newProgress === undefined)) {
        this.waiting.delete(attempt);
        continue;
      }
      if (out.length >= MAX_LEASES || bytes > MAX_BYTES) break;
      const one = encode(attempt);
      bytes += one.json.length;
      out.push(one);
    }
    return out;
  }

  private answered(sent: Sent[], answer: Record<string, unknown>): void {
    const { renewed, lost, cancel, memos_full: full, refused } = answer;
    const ids = (list: unknown) => new Set((Array.isArray(list) ? list : []).map(String));
    const kept = ids(
      Array.isArray(renewed) ? renewed.map((one) => (isRecord(one) ? one["id"] : "")) : [],
    );
    const gone = ids(lost);
    const fullOf = ids(full);
    const problems = new Map<string, MainspringError>();
    for (const one of Array.isArray(refused) ? refused : []) {
      if (!isRecord(one)) continue;
      const error = isRecord(one["error"]) ? one["error"] : {};
      problems.set(
        String(one["id"]),
        makeError(
          String(error["code"] ?? "too_large"),
          String(error["message"] ?? "the report is refused"),
        ),
      );
    }
    for (const one of sent) {
      const { id } = one.attempt;
      if (gone.has(id)) this.options.lost(one.attempt);
      if (!kept.has(id)) continue; // unknown: it is sent again
      this.settle(one, (report) => {
        if (problems.has(id)) return problems.get(id);
        if (!fullOf.has(id) || report.type !== "memo") return undefined;
        return makeError("too_large", `job ${id} has results of 1000 steps: it can keep no more`, {
          field: "step",
        });
      });
    }
    const wanted = [...ids(cancel)];
    if (wanted.length > 0) this.options.cancel(wanted);
  }

  private refused(sent: Sent[], error: MainspringError): void {
    for (const one of sent) this.settle(one, () => error);
  }

  private settle(one: Sent, verdict: (report: Report) => Error | undefined): void {
    const { attempt, reports } = one;
    if (attempt.newProgress === one.progress) attempt.newProgress = undefined;
    for (const report of reports) {
      const at = attempt.reports.indexOf(report);
      if (at < 0) continue;
      attempt.reports.splice(at, 1);
      if (report.type === "message") attempt.nextSeq += 1;
      report.answer(verdict(report));
    }
    if (attempt.reports.length === 0 && attempt.newProgress === undefined)
      this.waiting.delete(attempt);
  }
}

// As much as one renewal of a job takes: all checkpoints (the last one counts), 16 messages, 16
// results.
function encode(attempt: Attempt): Sent {
  const reports: Report[] = [];
  const messages: string[] = [];
  const memos: string[] = [];
  const full = new Set<Report["type"]>();
  let checkpoint: string | undefined;
  let bytes = 0;
  for (const report of attempt.reports) {
    if (report.type !== "checkpoint") {
      const pieces = report.type === "message" ? messages : memos;
      const fits = pieces.length < MAX_PIECES && bytes + report.json.length <= MAX_BYTES;
      if (full.has(report.type) || !fits) {
        full.add(report.type); // later ones must not overtake it
        continue;
      }
    }
    bytes += report.json.length;
    reports.push(report);
    if (report.type === "checkpoint") checkpoint = report.json;
    else if (report.type === "message") messages.push(report.json);
    else memos.push(`{"name":${JSON.stringify(report.name)},"result":${report.json}}`);
  }
  let json = `{"id":${attempt.id},"token":${attempt.claimed.token}`;
  if (attempt.newProgress !== undefined)
    json += `,"progress":${JSON.stringify(attempt.newProgress)}`;
  if (checkpoint !== undefined) json += `,"checkpoint":${checkpoint}`;
  if (messages.length > 0)
    json += `,"messages":[${messages.join(",")}],"first_seq":${attempt.nextSeq}`;
  if (memos.length > 0) json += `,"memos":[${memos.join(",")}]`;
  return { attempt, progress: attempt.newProgress, reports, json: json + "}" };
}

// Sends outcomes, many in one call, until the server has answered. A finish carries the next claim.
import { now } from "./clock.js";
import { type Core, need, Pauses, sleep } from "./core.js";
import { isRecord, type MainspringError } from "./errors.js";
import { formatJson } from "./json.js";
import { type Done, encodeDead } from "./outcome_json.js";
import type { Complaints } from "./versions.js";
import type { WorkerStats } from "./worker_options.js";

const MAX_FINISH = 1000;
const MAX_CALL_BYTES = 512 << 10;
const MAX_FINISHES = 2;
const FIRST_PAUSE_MS = 50;
const LONGEST_PAUSE_MS = 5000;
const ANSWER_MS = 10_000;
const TROUBLE = "report outcomes; retrying with back-off";
const STATUSES = new Set(["ok", "stale", "not_found", "refused"]);

export interface FinisherHost {
  core: Core;
  worker: string;
  stats: WorkerStats;
  complaints: Complaints;
  stopSignal: AbortSignal;
  /** The claim that goes with a finish; undefined: none. */
  nextClaim(): Record<string, unknown> | undefined;
  /** Jobs and commands that came with the results. */
  accept(answer: Record<string, unknown>): void;
  changed(): void;
}

export class Finisher {
  /** A finish is under way that carries a claim. */
  carrying = false;
  /** Outcomes are not sent any more after it. */
  giveUpAt = Infinity;
  private readonly done: Done[] = [];
  private finishes = 0;

  constructor(private readonly host: FinisherHost) {}

  get idle(): boolean {
    return this.done.length === 0 && this.finishes === 0;
  }

  push(done: Done): void {
    this.done.push(done);
  }

  /** Replaces the completion of an attempt that has not been sent. */
  replace(done: Done): void {
    const at = this.done.findIndex(({ id, token }) => id === done.id && token === done.token);
    if (this.done[at]?.outcome === "complete") this.done[at] = done;
  }

  send(): void {
    while (this.done.length > 0 && this.finishes < MAX_FINISHES) void this.sendBatch();
  }

  private async sendBatch(): Promise<void> {
    const batch: Done[] = [];
    let bytes = 0;
    for (const one of this.done) {
      if (batch.length >= MAX_FINISH || (bytes > 0 && bytes + one.json.length > MAX_CALL_BYTES))
        break;
      bytes += one.json.length;
      batch.push(one);
    }
    this.done.splice(0, batch.length);
    this.finishes += 1;
    const claim = this.carrying ? undefined : this.host.nextClaim();
    this.carrying ||= claim !== undefined;
    try {
      await this.sendUntilAnswered(batch, claim);
    } finally {
      this.finishes -= 1;
      this.host.changed();
    }
  }

  private async sendUntilAnswered(
    batch: Done[],
    claim: Record<string, unknown> | undefined,
  ): Promise<void> {
    const pauses = new Pauses(FIRST_PAUSE_MS, LONGEST_PAUSE_MS);
    for (let first = true; ; first = false) {
      const carried = first ? claim : undefined;
      try {
        this.host.stats.finishes += 1;
        const answer = await this.callFinish(batch, carried);
        this.host.complaints.over(TROUBLE);
        if (carried !== undefined) this.carrying = false;
        this.tally(batch, answer);
        if (carried !== undefined) this.acceptCarried(answer);
        return;
      } catch (thrown) {
        if (carried !== undefined) {
          this.carrying = false;
          this.host.changed();
        }
        const error = thrown as MainspringError;
        const fields = { jobs: batch.length, code: error.code, error: error.message };
        if (error.again === "no") {
          if (carried !== undefined) continue; // perhaps it was the claim
          if (batch.length > 1) {
            for (const one of batch) await this.sendUntilAnswered([one], undefined);
            return;
          }
          const [only] = batch;
          // Only the server itself names the outcome: a proxy may answer otherwise next time.
          if (only !== undefined && error.field?.startsWith("results[0]")) {
            this.refusedPart(only, error.message);
            return;
          }
          this.host.stats.refused += 1;
          this.host.core.log.error(
            "the server refuses an outcome; the job will run again",
            fields,
          );
          return;
        }
        void this.host.complaints.say(TROUBLE, error, { jobs: batch.length });
        const pause = Math.min(pauses.next(error), Math.max(this.giveUpAt - now(), 0));
        await sleep(pause, this.host.stopSignal.aborted ? undefined : this.host.stopSignal);
        if (now() >= this.giveUpAt) {
          this.host.core.log.error(
            "stopping before all outcomes were reported; the jobs will run again",
            fields,
          );
          return;
        }
      }
    }
  }

  // The server has the outcomes: an invalid job in the answer must not repeat them.
  private acceptCarried(answer: Record<string, unknown>): void {
    try {
      this.host.accept({ ...answer, jobs: answer["jobs"] ?? [] });
    } catch (error) {
      this.host.core.log.error("the claim of a finish has a bad answer", { error: String(error) });
    }
  }

  private async callFinish(
    batch: Done[],
    claim: Record<string, unknown> | undefined,
  ): Promise<Record<string, unknown>> {
    const head = `{"worker":"${this.host.worker}","results":[${batch.map((one) => one.json).join(",")}]`;
    const body = claim === undefined ? `${head}}` : `${head},"claim":${formatJson(claim)}}`;
    const timeoutMs = Math.min(this.host.core.readTimeoutMs, ANSWER_MS);
    const answer = await this.host.core.callText(
      { method: "POST", path: "/v1/finish", repeat: "no", timeoutMs, lane: "worker" },
      body,
    );
    const results = answer["results"];
    // An answer that does not fit the request says nothing about it: it is sent again.
    const good =
      Array.isArray(results) &&
      results.length === batch.length &&
      results.every(
        (one, i) =>
          isRecord(one) &&
          String(one["id"]) === batch[i]?.id &&
          STATUSES.has(String(one["status"])),
      );
    need(results, good, "list of results");
    return answer;
  }

  private tally(batch: Done[], answer: Record<string, unknown>): void {
    const counters = {
      complete: "completed",
      retry: "failed",
      snooze: "snoozed",
      defer: "deferred",
      cancel: "cancelled",
      dead: "dead",
    } as const;
    (answer["results"] as Record<string, unknown>[]).forEach((one, i) => {
      const sent = batch[i];
      if (sent === undefined) return;
      if (one["status"] === "ok") {
        this.host.stats[counters[sent.outcome]] += 1;
      } else if (one["status"] === "refused") {
        this.refusedPart(sent, isRecord(one["error"]) ? String(one["error"]["message"]) : "");
      } else {
        this.host.stats.stale += 1;
        this.host.core.log.warn("an outcome was too late: the job belongs to another worker", {
          job: sent.id,
        });
      }
    });
  }

  // The next attempt would have the same outcome: the job is dead instead of run again.
  private refusedPart(sent: Done, message: string): void {
    this.host.stats.refused += 1;
    this.host.core.log.error("the server refuses a part of an outcome", {
      job: sent.id,
      error: message,
    });
    if (sent.outcome === "dead") return;
    this.done.push(encodeDead(sent.id, sent.token, "outcome_refused", message));
  }
}

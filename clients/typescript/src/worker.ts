// The worker: claims jobs, runs handlers, and reports how they ended.
//
//   claim ──▶ ready ──▶ running ──▶ done ──▶ finish (carries the next claim)
//                          │
//                          └─ lease renewed by the thread of Renewals, reports by Reporter
//
// A claim parks at the server while there is no job. While there are jobs, each finish carries the
// next claim: one round trip for each job, or for many.
import { asyncDispose } from "./dispose.js";
import { callAfter, MAX_TIMER_MS, now } from "./clock.js";
import { Attempt, type AttemptHost, readClaimed } from "./attempt.js";
import { type Core, need, Pauses, randomName, sleep } from "./core.js";
import { type JobDefinition, definitionOf } from "./define.js";
import { type Duration, durationMs, durationText } from "./durations.js";
import {
  Cancelled,
  LeaseLost,
  type MainspringError,
  ShuttingDown,
  TimedOut,
} from "./errors.js";
import { callHandler, failureOf, givenBack, type Kind, logAttempt, placeOf } from "./handling.js";
import { LeaseTable } from "./lease_table.js";
import { checkOptions } from "./options.js";
import { Outcome } from "./outcomes.js";
import { Finisher } from "./finisher.js";
import { encodeOutcome } from "./outcome_json.js";
import { Overdue } from "./overdue.js";
import { timed } from "./policy.js";
import { textOf } from "./reasons.js";
import { Reporter } from "./reporter.js";
import { unwatchStrays, watchStrays } from "./strays.js";
import { Complaints, versions } from "./versions.js";
import {
  type Handler,
  type HandlerOptions,
  type JobHandler,
  type WorkerOptions,
  type WorkerStats,
  factsOf,
  noStats,
  stoppingText,
  HANDLER_OPTIONS,
  WORKER_OPTIONS,
  startedByNpm,
} from "./worker_options.js";

/** A session that the worker holds, and the jobs that came with it. @internal */
export interface HeldWork {
  id: string;
  session: { queue: string; key: string; token: bigint };
  first: readonly unknown[];
}

const MAX_CLAIM = 1000;
const CLAIM_TROUBLE = "claim; retrying with back-off";
const EXIT_STUCK = 75; // EX_TEMPFAIL
// What `run` of each worker does to stop. When one is stuck all stop, and then the process ends.
const runs = new Set<() => void>();
let stuck = false;
// Faster handlers get jobs that were claimed ahead: this much work for each slot.
const CLAIM_AHEAD_MS = 2;
const AHEAD_PER_CLAIM = 250;
const AFTER_STOP_MS = 250;
/** How often a quiet worker asks whether it may claim again. */
const QUIET_LOOK_MS = 5000;
/** How often a worker whose slots are all stuck reports: it claims nothing. */
const STUCK_REPORT_MS = 10_000;
const FIRST_PAUSE_MS = 50;
const LONGEST_PAUSE_MS = 5000;
/** npm sends a Ctrl-C of the terminal, which the worker has got too, to the worker again. */
const NPM_ECHO_MS = 500;
const WAIT_FOR_REPORTS_MS = 10_000;

export class Worker {
  /** Random for each worker: a restart is another worker. */
  readonly id: string;
  readonly stats: WorkerStats = noStats();

  private readonly slots: number;
  private readonly leaseMs: number;
  private readonly claimWaitMs: number;
  private readonly gracefulMs: number;
  private readonly mostAhead: number;
  private readonly logJobs: boolean;
  private readonly facts: Record<string, unknown>;
  private readonly queues: Set<string>;
  private readonly kinds = new Map<string, Kind>();
  private readonly table = new LeaseTable();
  private readonly reporter: Reporter;
  private readonly finisher: Finisher;
  private readonly attemptHost: AttemptHost;
  private readonly complaints: Complaints;
  private readonly overdue: Overdue;
  private reportStuckAt = Infinity;
  private renewalKey: number | undefined;

  private readonly active = new Map<string, Attempt>();
  private readonly ready: { attempt: Attempt; kind: Kind }[] = [];
  private slotsTaken = 0;
  private slotsReady = 0;
  private handlerMs = -1;
  private parked = false;
  /** A kind had no room when the claim was made that waits. */
  private parkedWithoutKind = false;
  private endedByUs = false;
  private pumping = false;
  private refused: MainspringError | undefined; // the token is no good: `run` ends
  private stopRun = () => undefined as void;
  private serverAway = false;
  private quiet = false;

  private started = false;
  private stopping = false;
  private stopped: Promise<{ abandoned: number }> | undefined;
  private readonly claimAbort = new AbortController();
  private readonly stopSignal = new AbortController();
  private claimer: Promise<void> = Promise.resolve();
  private wakeClaimer: () => void = () => undefined;
  private wakeWaiters: (() => void)[] = [];

  /** @internal */
  constructor(
    private readonly core: Core,
    options: WorkerOptions = {},
    private readonly held?: HeldWork,
  ) {
    checkOptions(options, WORKER_OPTIONS);
    this.id = held?.id ?? randomName();
    this.slots = options.slots ?? 10;
    if (!Number.isInteger(this.slots) || this.slots < 1 || this.slots > 1024) {
      throw new TypeError(`slots ${this.slots}: must be a whole number from 1 to 1024`);
    }
    this.leaseMs = durationMs(options.lease ?? "30s", "lease");
    if (this.leaseMs < 1000 || this.leaseMs > 43_200_000) {
      throw new TypeError(`lease ${this.leaseMs}ms: must be 1s to 12h`);
    }
    this.claimWaitMs = durationMs(options.claimWait ?? "20s", "claimWait");
    this.gracefulMs = durationMs(options.gracefulStop ?? "25s", "gracefulStop");
    this.mostAhead = Math.min(options.claimAhead ?? MAX_CLAIM, MAX_CLAIM);
    this.logJobs = options.logJobs ?? true;
    this.queues = new Set(options.queues ?? []);
    this.facts = factsOf(this.slots, options.version);
    this.attemptHost = {
      core,
      reportSoon: (attempt, atOnce) => this.reporter.soon(attempt, atOnce),
    };
    this.complaints = new Complaints(core);
    const { exitWhenStuck } = options;
    this.overdue = new Overdue(
      core.log,
      exitWhenStuck === undefined ? Infinity : durationMs(exitWhenStuck, "exitWhenStuck"),
      () => this.exitStuck(),
      () => this.reportStuck(),
    );
    this.finisher = new Finisher({
      core,
      worker: this.id,
      stats: this.stats,
      complaints: this.complaints,
      stopSignal: this.stopSignal.signal,
      nextClaim: () => (this.parked ? undefined : this.nextClaim("0s")),
      accept: (answer) => void this.accept(answer),
      changed: () => {
        this.pump();
        this.changed();
      },
    });
    this.reporter = new Reporter({
      core,
      worker: this.id,
      leaseMs: this.leaseMs,
      lost: (attempt) => this.lose(attempt, true),
      cancel: (ids) => this.cancelWanted(ids),
    });
  }

  /**
   * Adds a handler. The worker starts by itself once the current turn of the event loop is over.
   */
  on<In, Args, R, Out = R>(
    definition: JobDefinition<In, Args, R, Out>,
    handler: Handler<NoInfer<Args>, NoInfer<Out>>,
    options?: HandlerOptions,
  ): this;
  on(handler: JobHandler): this;
  on(
    first: JobDefinition | JobHandler,
    handler?: Handler<never, unknown>,
    options: HandlerOptions = {},
  ): this {
    const alone = { definition: first as JobDefinition, handler, options };
    const joined = first instanceof Object && "handler" in first ? first : alone;
    if (typeof joined.handler !== "function") throw new TypeError("handler: must be a function");
    const definition = definitionOf(joined.definition);
    checkOptions(joined.options, HANDLER_OPTIONS);
    const { concurrency, timeout } = joined.options;
    const kind: Kind = {
      definition,
      handler: joined.handler,
      concurrency,
      timeoutMs: timeout === undefined ? undefined : durationMs(timeout, "timeout"),
      taken: 0,
      running: 0,
    };
    for (const name of [definition.kind, ...definition.aliases]) {
      if (this.kinds.has(name))
        throw new TypeError(`kind ${name}: this worker has a handler for it`);
      this.kinds.set(name, kind);
    }
    this.queues.add(definition.options.queue ?? "default");
    if (this.started) {
      void this.askToEndClaims(); // the claim that waits does not ask for this kind
    } else {
      this.started = true;
      queueMicrotask(() => this.start());
    }
    return this;
  }

  /**
   * Works until SIGTERM, SIGINT, `signal` or the server's order, then stops. A second signal ends
   * the process. Rejects with `Unauthenticated` if the server refuses the worker's token.
   */
  async run(options: { signal?: AbortSignal; giveBack?: boolean } = {}): Promise<void> {
    const end = new AbortController();
    const stop = () => end.abort();
    let signalled = 0;
    const ignore = () => {
      process.removeListener("SIGTERM", onSignal);
      process.removeListener("SIGINT", onSignal);
    };
    const onSignal = (name: NodeJS.Signals) => {
      if (signalled === 0) {
        signalled = now();
        this.logStopping(name);
        return stop();
      }
      if (startedByNpm() && now() - signalled < NPM_ECHO_MS) return;
      ignore();
      process.kill(process.pid, name);
    };
    process.on("SIGTERM", onSignal);
    process.on("SIGINT", onSignal);
    options.signal?.addEventListener("abort", stop);
    this.stopSignal.signal.addEventListener("abort", stop);
    this.stopRun = stop;
    runs.add(stop);
    if (options.signal?.aborted !== true && !this.stopping && !this.refused) {
      const server = this.core.url;
      const fields = { queues: [...this.queues].join(","), server, slots: this.slots };
      this.core.log.info("worker started; Ctrl-C stops it", { worker: this.id, ...fields });
      // Holds the process while the worker waits for its first claim.
      const hold = setInterval(() => undefined, MAX_TIMER_MS);
      await new Promise<void>((resolve) => end.signal.addEventListener("abort", () => resolve()));
      clearInterval(hold);
    }
    await this.stop({ giveBack: options.giveBack ?? false });
    ignore();
    runs.delete(stop);
    if (stuck && runs.size === 0) process.exit(EXIT_STUCK);
    if (this.refused) throw this.refused;
  }

  /**
   * Claims no more, lets handlers finish, returns jobs that have not started. Handlers that still
   * run at the end are abandoned: their jobs are run again when their leases end, or at once with
   * `giveBack`, for a process that exits.
   */
  stop(options: { timeout?: Duration; giveBack?: boolean } = {}): Promise<{ abandoned: number }> {
    this.stopped ??= this.stopNow(
      options.timeout === undefined ? this.gracefulMs : durationMs(options.timeout, "timeout"),
      options.giveBack ?? false,
    );
    return this.stopped;
  }

  async [asyncDispose](): Promise<void> {
    await this.stop();
  }

  // -- start and stop

  private start(): void {
    if (this.stopping) return;
    watchStrays();
    this.renewalKey = this.core.renewals.addWorker(
      { worker: this.id, leaseMs: this.leaseMs, memory: this.table.memory },
      {
        lost: (rows) => this.rowsLost(rows),
        cancel: (ids) => this.cancelWanted(ids),
        quiet: () => this.obey(true, false),
        terminate: () => this.obey(true, true),
      },
    );
    if (this.held) this.accept({ jobs: this.held.first });
    void versions(this.core).then(({ text, fit }) => {
      if (!fit) this.core.log.error(text, { worker: this.id });
    });
    this.claimer = this.runClaimer();
  }

  private logStopping(signal: string): void {
    const { running } = this.stats;
    const text = stoppingText(signal, running, (this.gracefulMs * 4) / 5);
    this.core.log.info(text, { worker: this.id, running });
  }

  private async stopNow(timeoutMs: number, giveBack: boolean): Promise<{ abandoned: number }> {
    this.stopping = true;
    this.stopSignal.abort();
    this.finisher.giveUpAt = now() + timeoutMs;
    this.giveBackReady();
    this.wakeClaimer();
    await this.endClaims();
    const tell = () => this.tellAll(new ShuttingDown("the worker stops"));
    const tellNoMore = callAfter((timeoutMs * 4) / 5, tell);
    await this.until(() => this.stats.running === 0, timeoutMs);
    tellNoMore();
    const abandoned = this.stats.running;
    if (abandoned > 0) {
      this.core.log.warn("handlers have not ended in time and are abandoned", {
        handlers: abandoned,
      });
      for (const attempt of [...this.active.values()]) {
        if (giveBack) this.giveBack(attempt);
        else this.release(attempt);
      }
      this.finisher.giveUpAt = Math.max(this.finisher.giveUpAt, now() + 1000);
    }
    this.pump();
    await this.until(() => this.finisher.idle, this.finisher.giveUpAt - now());
    if (abandoned === 0) this.reporter.stop();
    this.overdue.stop();
    if (this.renewalKey !== undefined) {
      this.core.renewals.forget(this.renewalKey);
      unwatchStrays();
    }
    return { abandoned };
  }

  // Behind a proxy the server does not notice that a worker hangs up.
  private async endClaims(): Promise<void> {
    await this.askToEndClaims();
    const late = setTimeout(() => this.claimAbort.abort(), AFTER_STOP_MS);
    await this.claimer;
    clearTimeout(late);
  }

  private async askToEndClaims(): Promise<void> {
    if (!this.parked) return;
    this.endedByUs = true;
    const call = {
      method: "POST",
      path: "/v1/claim/end",
      repeat: "no",
      timeoutMs: AFTER_STOP_MS,
      lane: "worker",
    } as const;
    await this.core.call({ ...call, body: { worker: this.id } }).catch(() => undefined);
  }

  /** Ends the waiting claim. Asks again while it waits: a request to end may overtake its claim. */
  private async endParkedClaim(): Promise<void> {
    const claim = this.stats.claims;
    for (let pause = 20; this.parked && this.stats.claims === claim && !this.stopping; pause *= 2) {
      await this.askToEndClaims();
      await sleep(Math.min(pause, 1000), this.stopSignal.signal);
    }
  }

  private tellAll(reason: Error): void {
    for (const attempt of this.active.values()) if (attempt.started) attempt.tell(reason);
  }

  private async until(good: () => boolean, timeoutMs: number): Promise<void> {
    const end = now() + timeoutMs;
    while (!good() && now() < end) {
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, Math.min(Math.max(end - now(), 0) + 1, 1000));
        this.wakeWaiters.push(() => {
          clearTimeout(timer);
          resolve();
        });
      });
    }
  }

  private changed(): void {
    for (const wake of this.wakeWaiters.splice(0)) wake();
  }

  // -- claims

  private claimAhead(): number {
    if (this.handlerMs < 0 || this.handlerMs >= CLAIM_AHEAD_MS) return 0;
    if (this.overdue.slots >= this.slots) return 0;
    return Math.min(
      Math.floor((this.slots * CLAIM_AHEAD_MS) / Math.max(this.handlerMs, 0.0005)),
      this.mostAhead,
    );
  }

  /** The next claim; undefined: nothing to claim for now. */
  private nextClaim(wait: string): Record<string, unknown> | undefined {
    if (this.stopping || this.quiet) return undefined;
    const first = this.ready[0];
    if (first !== undefined && first.attempt.slots > 1 && !this.fits(first.attempt))
      return undefined;
    const ahead = this.claimAhead();
    const room = this.slots + ahead - this.slotsTaken - this.slotsReady;
    if (this.held) {
      const { session } = this.held;
      return room > 0 && this.active.size === 0
        ? { session, wait, lease: durationText(this.leaseMs), ...this.facts }
        : undefined;
    }
    let max = Math.min(
      room,
      ahead > 0 ? Math.max(AHEAD_PER_CLAIM, this.slots) : MAX_CLAIM,
      MAX_CLAIM,
    );
    const kinds: string[] = [];
    for (const [name, kind] of this.kinds) {
      const left = kind.concurrency === undefined ? max : kind.concurrency - kind.taken;
      if (left <= 0) continue; // see parkedWithoutKind
      max = Math.min(max, left); // the answer may have jobs of one kind only
      kinds.push(name);
    }
    if (max <= 0 || kinds.length === 0) return undefined;
    const lease = durationText(this.leaseMs);
    return { queues: [...this.queues], kinds, max, wait, lease, ...this.facts };
  }

  /** Applies the operator's command in an answer of the server. */
  private obey(quiet: boolean, terminate: boolean): void {
    if (this.stopping) return;
    if (quiet !== this.quiet) {
      this.quiet = quiet;
      this.core.log.info(quiet ? "quiet: claiming no more jobs until resumed" : "claiming again");
      // A claim at another node of the server could still get jobs.
      if (quiet) void this.endParkedClaim();
      this.wakeClaimer();
    }
    if (!terminate) return;
    this.core.log.info("stopping at the request of an operator");
    void this.stop();
  }

  /** Waits for a change, or until a time. */
  private async idle(until: number): Promise<void> {
    await new Promise<void>((resolve) => {
      const stop = until === Infinity ? resolve : callAfter(until - now(), resolve);
      this.wakeClaimer = () => {
        stop();
        resolve();
      };
    });
  }

  private async stayQuiet(): Promise<void> {
    const until = now() + QUIET_LOOK_MS;
    while (this.quiet && !this.stopping && now() < until) await this.idle(until);
    if (this.quiet && !this.stopping) await this.askForCommand();
  }

  /** A renewal without leases: its answer says whether this worker may claim. */
  private async askForCommand(): Promise<void> {
    const { stuck } = this.overdue;
    this.reportStuckAt = stuck > 0 ? now() + STUCK_REPORT_MS : Infinity;
    try {
      const answer = await this.core.call({
        method: "POST",
        path: "/v1/renew",
        body: { worker: this.id, leases: [], stuck },
        timeoutMs: QUIET_LOOK_MS,
        lane: "worker",
        repeat: "no",
        signal: this.claimAbort.signal,
      });
      this.obey(answer["quiet"] === true, answer["terminate"] === true);
    } catch {
      // The server is away: the worker asks again.
    }
  }

  private async runClaimer(): Promise<void> {
    const pauses = new Pauses(FIRST_PAUSE_MS, LONGEST_PAUSE_MS);
    while (!this.stopping && !this.core.closed) {
      if (this.quiet) {
        await this.stayQuiet();
        continue;
      }
      const claim = this.finisher.carrying
        ? undefined
        : this.nextClaim(durationText(this.claimWaitMs));
      if (claim === undefined) {
        const at = this.reportStuckAt;
        await (at <= now() ? this.askForCommand() : this.idle(at));
        continue;
      }
      this.stats.claims += 1;
      const before = now();
      try {
        this.parked = true;
        this.parkedWithoutKind =
          !this.held && (claim["kinds"] as string[]).length < this.kinds.size;
        const answer = await this.core.call({
          method: "POST",
          path: "/v1/claim",
          body: { worker: this.id, ...claim },
          waitMs: this.claimWaitMs,
          lane: "worker",
          repeat: "no",
          signal: this.claimAbort.signal,
        });
        this.parked = false;
        const got = this.accept(answer);
        if (this.serverAway) this.core.log.info("claiming again");
        this.complaints.over(CLAIM_TROUBLE);
        this.serverAway = false;
        // A server that does not let claims wait must not be asked in a loop.
        const asked = this.endedByUs;
        this.endedByUs = false;
        if (got === 0 && !asked && now() - before < this.claimWaitMs / 10)
          await sleep(pauses.next(), this.stopSignal.signal);
        else pauses.reset();
      } catch (thrown) {
        this.parked = false;
        if (!this.stopping) await this.claimFailed(thrown as MainspringError, pauses);
      }
    }
  }

  private async claimFailed(error: MainspringError, pauses: Pauses): Promise<void> {
    if (error.code === "unauthenticated" || error.code === "forbidden") {
      this.refused ??= error;
      this.stopRun();
    }
    if (this.core.closed) return;
    void this.complaints.say(CLAIM_TROUBLE, error);
    if (!this.serverAway) {
      // A server that is about to restart grants longer leases: a renewal learns of it.
      this.core.renewals.renewNow();
    }
    this.serverAway = true;
    await sleep(pauses.next(error), this.stopSignal.signal);
  }

  /** Takes the jobs of a claim; how many things the answer had. */
  private accept(answer: Record<string, unknown>): number {
    const { jobs, cancel } = answer;
    const list = need(jobs as unknown[], Array.isArray(jobs), "list of jobs");
    for (const wire of list) {
      try {
        this.admit(new Attempt(readClaimed(wire), this.attemptHost));
      } catch (error) {
        this.core.log.error("a claimed job makes no sense; its lease will end", {
          error: String(error),
        });
      }
    }
    const wanted = Array.isArray(cancel) ? cancel.map(String) : [];
    this.cancelWanted(wanted);
    const quiet = answer["quiet"] === true; // only a renewal ends it
    if (quiet) this.obey(true, answer["terminate"] === true);
    this.pump();
    return list.length + wanted.length + (quiet ? 1 : 0);
  }

  private admit(attempt: Attempt): void {
    this.stats.claimed += 1;
    const { claimed } = attempt;
    const old = this.active.get(attempt.id);
    if (old !== undefined) this.lose(old, true); // claimed again: the earlier claim of it is lost
    // One that is shorter than was asked for began before its answer came.
    const whole = Math.max(claimed.leaseMs, this.leaseMs);
    const kind = this.kinds.get(claimed.job.kind);
    const row = this.table.add(
      claimed.wireId,
      claimed.token,
      now() - (whole - claimed.leaseMs),
      whole,
    );
    attempt.row = row;
    if (row === undefined || kind === undefined || this.stopping) return this.giveBack(attempt);
    attempt.slots = Math.min(claimed.cost, this.slots);
    kind.taken += 1;
    this.active.set(attempt.id, attempt);
    this.slotsReady += attempt.slots;
    this.ready.push({ attempt, kind });
  }

  private giveBackReady(): void {
    for (const { attempt, kind } of this.ready.splice(0)) {
      kind.taken -= 1;
      this.giveBack(attempt);
    }
    this.slotsReady = 0;
  }

  private giveBack(attempt: Attempt): void {
    this.release(attempt);
    if (attempt.lost) return;
    this.conclude(attempt, givenBack(attempt));
    attempt.lost = true; // whatever its handler returns later does not count
  }

  // -- leases

  private rowsLost(rows: { index: number; generation: number; confirmed: boolean }[]): void {
    const gone = new Map(rows.map((row) => [row.index, row]));
    for (const attempt of [...this.active.values()]) {
      const hit = attempt.row && gone.get(attempt.row.index);
      if (hit && hit.generation === attempt.row?.generation) this.lose(attempt, hit.confirmed);
    }
  }

  private lose(attempt: Attempt, confirmed: boolean): void {
    if (attempt.lost) return;
    const why = confirmed
      ? "the server gave the job to another worker"
      : "it could not be renewed in time";
    this.stats.leaseLost += 1;
    this.core.log.warn("a lease is lost", { job: attempt.id, why });
    attempt.lose(new LeaseLost(`job ${attempt.id}: its lease is lost: ${why}`));
    this.overdue.add(attempt);
    this.release(attempt);
    const at = this.ready.findIndex((one) => one.attempt === attempt);
    if (at < 0) return;
    const [one] = this.ready.splice(at, 1);
    if (one) one.kind.taken -= 1;
    this.slotsReady -= attempt.slots;
    this.wakeClaimer();
  }

  private release(attempt: Attempt): void {
    if (this.active.get(attempt.id) === attempt) this.active.delete(attempt.id);
    this.reporter.forget(attempt);
    if (attempt.row === undefined) return;
    this.table.remove(attempt.row.index);
    attempt.row = undefined;
  }

  private cancelWanted(ids: string[]): void {
    for (const id of ids) {
      const attempt = this.active.get(id);
      if (attempt === undefined) continue;
      const reason = new Cancelled(`job ${id} is to be cancelled`);
      if (attempt.started) {
        this.tell(attempt, reason);
        continue;
      }
      const at = this.ready.findIndex((one) => one.attempt === attempt);
      const [one] = at < 0 ? [] : this.ready.splice(at, 1);
      if (one) one.kind.taken -= 1;
      this.slotsReady -= attempt.slots;
      this.release(attempt);
      this.conclude(attempt, new Outcome("cancel", {}));
    }
  }

  // -- handlers

  private fits(attempt: Attempt): boolean {
    return attempt.slots <= this.slots - this.slotsTaken;
  }

  private startReady(): void {
    for (let i = 0; i < this.ready.length && this.slotsTaken < this.slots;) {
      const next = this.ready[i];
      if (next === undefined) return;
      const { attempt, kind } = next;
      if (kind.concurrency !== undefined && kind.running >= kind.concurrency) {
        i += 1;
        continue;
      }
      if (!this.fits(attempt)) return; // it waits for slots, and those after it wait too
      if (i === 0) this.ready.shift();
      else this.ready.splice(i, 1);
      this.slotsReady -= attempt.slots;
      this.slotsTaken += attempt.slots;
      kind.running += 1;
      this.stats.running += 1;
      attempt.started = true;
      void this.runAttempt(attempt, kind);
    }
  }

  private async runAttempt(attempt: Attempt, kind: Kind): Promise<void> {
    const begin = now();
    const limitMs = Math.min(attempt.claimed.timeoutMs ?? Infinity, kind.timeoutMs ?? Infinity);
    const overLimit = () =>
      this.tell(attempt, new TimedOut(`over its time limit of ${limitMs} ms`));
    const stopTimer = limitMs === Infinity ? undefined : callAfter(limitMs, overLimit);
    let outcome: Outcome<unknown>;
    try {
      const stray = (error: unknown, what: string) => this.strayed(attempt, error, what);
      outcome = await callHandler(attempt, kind, this.core, stray);
    } catch (thrown) {
      const failed = () => failureOf(attempt, thrown, this.core.log, kind.definition.policy);
      outcome = thrown instanceof Outcome ? thrown : failed();
    }
    attempt.closed = true;
    stopTimer?.();
    const took = now() - begin;
    this.handlerMs = this.handlerMs < 0 ? took : this.handlerMs + (took - this.handlerMs) / 16;
    if (attempt.reports.length > 0 || attempt.newProgress !== undefined) {
      outcome = await this.flush(attempt, outcome);
    }
    attempt.ended = true;
    this.overdue.remove(attempt);
    if (attempt.stray !== undefined && outcome.kind === "complete") outcome = attempt.stray;
    outcome = timed(kind.definition.policy, outcome, attempt.claimed.job.attempt);
    if (this.logJobs) logAttempt(this.core.log, attempt, outcome, took);
    this.stats.running -= 1;
    this.slotsTaken -= attempt.slots;
    kind.running -= 1;
    kind.taken -= 1;
    if (attempt.lost) this.stats.stale += 1;
    else this.conclude(attempt, outcome);
    this.release(attempt);
    if (this.parkedWithoutKind && kind.concurrency !== undefined) {
      this.parkedWithoutKind = false;
      void this.endParkedClaim();
    }
    this.pump();
    if (this.stats.running === 0) this.changed();
  }

  // An error that nothing caught fails the attempt, also if its handler has just returned.
  private strayed(attempt: Attempt, error: unknown, what: string): void {
    const text = `${what}: ${textOf(error)}`;
    this.core.log.error("an error of a handler was not caught", {
      ...placeOf(attempt),
      error: text,
    });
    if (attempt.lost || attempt.stray !== undefined) return;
    const { kind, attempt: number } = attempt.claimed.job;
    const failed = new Outcome("retry", { error: text });
    attempt.stray = timed(this.kinds.get(kind)?.definition.policy, failed, number) as Outcome;
    if (attempt.ended) this.finisher.replace(encodeOutcome(attempt, attempt.stray));
    else this.tell(attempt, error instanceof Error ? error : new Error(text));
  }

  private tell(attempt: Attempt, reason: Error): void {
    attempt.tell(reason);
    this.overdue.add(attempt);
  }

  private reportStuck(): void {
    const { stuck, slots } = this.overdue;
    this.facts["stuck"] = stuck;
    this.reportStuckAt = stuck > 0 ? 0 : Infinity;
    if (slots >= this.slots) this.giveBackReady(); // nothing here would run it
    void this.endParkedClaim();
    this.wakeClaimer();
  }

  private exitStuck(): void {
    this.core.log.error("a handler does not end; the worker stops", { worker: this.id });
    stuck = true;
    for (const stop of runs) stop();
    void this.stop({ giveBack: true });
  }

  // What a handler reported comes before how it ended: the next attempt needs the checkpoint.
  private async flush(attempt: Attempt, outcome: Outcome<unknown>): Promise<Outcome<unknown>> {
    const complete = outcome.kind === "complete";
    const waits = () => attempt.reports.some((report) => !complete || report.type === "message");
    if (complete && !waits()) return outcome;
    this.reporter.soon(attempt, true);
    const end = now() + WAIT_FOR_REPORTS_MS;
    while (waits() && !attempt.lost && now() < end) await sleep(5);
    if (!complete || !waits() || attempt.lost) return outcome;
    return new Outcome("retry", {
      error: "a message could not be sent: the server did not take it in time",
    });
  }

  private conclude(attempt: Attempt, outcome: Outcome<unknown>): void {
    this.finisher.push(encodeOutcome(attempt, outcome));
    this.pump();
  }

  // -- what moves when something has changed

  // Once in each turn of the event loop: what ends in one turn goes together.
  private pump(): void {
    if (this.pumping) return;
    this.pumping = true;
    setImmediate(() => {
      this.pumping = false;
      if (!this.stopping) this.startReady();
      this.finisher.send();
      this.stats.waiting = this.ready.length;
      this.wakeClaimer();
    });
  }
}

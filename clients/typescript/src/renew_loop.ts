// Keeps leases alive. Runs on a thread of its own, so that a blocked event loop loses no lease.
//
//   added ──▶ held ──(a third of the lease)──▶ renew ──▶ …
//               │                                │ no answer until then
//               └───────────▶ lost ◀─────────────┘
//
// A deadline counts from before the request was sent that granted the lease, less a margin, so that
// the holder hears of the loss before the server gives the lease away.
import { type ClockReading, now, offsetFrom } from "./clock.js";
import { readAnswer } from "./core_answer.js";
import { isRecord, MainspringError } from "./errors.js";
import { type ServerAddress, Transport } from "./http.js";
import { formatJson } from "./json.js";
import { LeaseTable, type Row } from "./lease_table.js";

export interface WorkerLeases {
  key: number;
  worker: string;
  leaseMs: number;
  memory: SharedArrayBuffer;
}

/** A lease by name or a session: renewed by a request of its own. */
export interface NamedHold {
  key: number;
  path: string;
  body: Record<string, unknown>;
  /** The field of the answer that says how long it is granted. */
  expires: string;
  grantedMs: number;
  sentAt: number;
}

export type ToLoop =
  | { type: "worker"; leases: WorkerLeases; again: boolean }
  | { type: "forget"; key: number }
  | { type: "hold"; hold: NamedHold; again: boolean }
  | { type: "renewNow" };

/** A message, with the clocks of the thread that sends it. */
export interface Envelope {
  message: ToLoop;
  clocks: ClockReading;
}

export type FromLoop =
  | { type: "lost"; key: number; rows: { index: number; generation: number; confirmed: boolean }[] }
  | { type: "cancel"; key: number; ids: string[] }
  | { type: "quiet" | "terminate"; key: number }
  | { type: "holdLost"; key: number; message: string }
  | { type: "log"; level: "info" | "warn"; message: string; error?: string };

const LONGEST_LOOK_MS = 250;
const RETRY_PAUSE_MS = 500;
const LEAST_RENEWAL_MS = 1000;
const ANSWER_MS = 30_000;
// After a restart of the thread, or when the machine has slept: ask before the lease counts as
// lost.
const ASK_FIRST_MS = 5000;
const SLEEP_MS = 3000;
const COMPLAIN_MS = 60_000; // between two lines about renewals that fail
const MAX_LEASES = 10_000;

export function leaseMargin(leaseMs: number): number {
  return Math.min(leaseMs / 6, 5000);
}

interface Deadline {
  generation: number;
  renewAt: number;
  endsAt: number;
  lost: boolean;
}

interface WorkerState extends WorkerLeases {
  table: LeaseTable;
  deadlines: Map<number, Deadline>;
  again: boolean;
  retryAt: number;
  failing: boolean;
  complainAt: number;
  busy: boolean;
}

interface HoldState extends NamedHold {
  renewAt: number;
  endsAt: number;
  busy: boolean;
}

export class RenewLoop {
  private readonly transport: Transport;
  private readonly workers = new Map<number, WorkerState>();
  private readonly holds = new Map<number, HoldState>();
  private timer: NodeJS.Timeout | undefined;
  private offset: number | undefined;
  private lastLook = { mono: now(), wall: Date.now() };

  constructor(
    address: ServerAddress,
    private readonly post: (message: FromLoop) => void,
  ) {
    this.transport = new Transport(address);
  }

  receive({ message, clocks }: Envelope): void {
    this.offset ??= offsetFrom(clocks);
    switch (message.type) {
      case "worker":
        this.workers.set(message.leases.key, {
          ...message.leases,
          table: new LeaseTable(message.leases.memory),
          deadlines: new Map(),
          again: message.again,
          retryAt: 0,
          failing: false,
          complainAt: 0,
          busy: false,
        });
        break;
      case "hold": {
        const hold = { ...message.hold, sentAt: message.hold.sentAt + this.offset };
        const fresh = {
          renewAt: hold.sentAt + hold.grantedMs / 3,
          endsAt: endOf(hold.sentAt, hold.grantedMs),
        };
        const again = { renewAt: 0, endsAt: now() + ASK_FIRST_MS };
        this.holds.set(hold.key, { ...hold, ...(message.again ? again : fresh), busy: false });
        break;
      }
      case "forget":
        this.workers.delete(message.key);
        this.holds.delete(message.key);
        break;
      case "renewNow":
        this.renewSoon();
        break;
    }
    this.look();
  }

  close(): void {
    clearTimeout(this.timer);
    this.workers.clear();
    this.holds.clear();
    this.transport.close();
  }

  private renewSoon(): void {
    for (const worker of this.workers.values())
      for (const one of worker.deadlines.values()) one.renewAt = 0;
    for (const hold of this.holds.values()) hold.renewAt = 0;
  }

  // Waits do not count the time that the machine sleeps, the wall clock does. After a jump of the
  // wall clock the server is asked at once; nothing is taken for lost because of it.
  private noticeSleep(): void {
    const look = { mono: now(), wall: Date.now() };
    const jump = look.wall - this.lastLook.wall - (look.mono - this.lastLook.mono);
    this.lastLook = look;
    if (jump > SLEEP_MS) this.renewSoon();
  }

  private look(): void {
    clearTimeout(this.timer);
    this.noticeSleep();
    let pause = LONGEST_LOOK_MS;
    for (const worker of this.workers.values()) {
      pause = Math.min(pause, Math.max(worker.leaseMs / 12, 20));
      this.lookAtWorker(worker);
    }
    for (const hold of this.holds.values()) this.lookAtHold(hold);
    if (this.workers.size > 0 || this.holds.size > 0)
      this.timer = setTimeout(() => this.look(), pause);
  }

  private lookAtWorker(worker: WorkerState): void {
    const rows = worker.table.rows();
    const time = now();
    const over: { index: number; generation: number; confirmed: boolean }[] = [];
    let due = false;
    for (const row of rows) {
      let mine = worker.deadlines.get(row.index);
      if (mine === undefined || mine.generation !== row.generation) {
        mine = {
          generation: row.generation,
          ...deadlines(row.sentAt + (this.offset ?? 0), row.leaseMs, worker.leaseMs),
          lost: false,
        };
        if (worker.again) Object.assign(mine, { renewAt: 0, endsAt: time + ASK_FIRST_MS });
        worker.deadlines.set(row.index, mine);
      }
      if (mine.lost) continue;
      if (mine.endsAt <= time) {
        mine.lost = true;
        over.push({ index: row.index, generation: row.generation, confirmed: false });
      } else if (mine.renewAt <= time) {
        due = true;
      }
    }
    worker.again = false;
    if (over.length > 0) this.post({ type: "lost", key: worker.key, rows: over });
    if (due && !worker.busy && worker.retryAt <= time) void this.renew(worker, rows);
  }

  private async renew(worker: WorkerState, rows: Row[]): Promise<void> {
    const mine = (row: Row) => worker.deadlines.get(row.index);
    const held = rows.filter((row) => mine(row)?.lost === false).slice(0, MAX_LEASES);
    const sentAt = now();
    worker.busy = true;
    try {
      const answer = await this.ask("/v1/renew", worker.leaseMs, {
        worker: worker.worker,
        lease: `${Math.round(worker.leaseMs)}ms`,
        leases: held.map(({ id, token }) => ({ id, token })),
      });
      if (worker.failing)
        this.post({ type: "log", level: "info", message: "renewing leases again" });
      worker.failing = false;
      this.renewed(worker, held, answer, sentAt);
    } catch (error) {
      worker.retryAt = now() + Math.min(RETRY_PAUSE_MS, worker.leaseMs / 12);
      this.complain(worker, error);
    } finally {
      worker.busy = false;
    }
  }

  private renewed(
    worker: WorkerState,
    held: Row[],
    answer: Record<string, unknown>,
    sentAt: number,
  ): void {
    const byId = new Map(held.map((row) => [String(row.id), row]));
    const mine = (id: unknown) => {
      const row = byId.get(String(id));
      const found = row === undefined ? undefined : worker.deadlines.get(row.index);
      return row !== undefined && found?.generation === row.generation ? { row, found } : undefined;
    };
    for (const one of list(answer["renewed"])) {
      if (!isRecord(one) || typeof one["lease_expires_in_ms"] !== "number") continue;
      const hit = mine(one["id"]);
      if (hit)
        Object.assign(hit.found, deadlines(sentAt, one["lease_expires_in_ms"], worker.leaseMs));
    }
    const lost: { index: number; generation: number; confirmed: boolean }[] = [];
    for (const id of list(answer["lost"])) {
      const hit = mine(id);
      if (!hit) continue;
      hit.found.lost = true;
      lost.push({ index: hit.row.index, generation: hit.row.generation, confirmed: true });
    }
    if (lost.length > 0) this.post({ type: "lost", key: worker.key, rows: lost });
    const cancel = list(answer["cancel"]).map(String);
    if (cancel.length > 0) this.post({ type: "cancel", key: worker.key, ids: cancel });
    if (answer["quiet"] === true) this.post({ type: "quiet", key: worker.key });
    if (answer["terminate"] === true) this.post({ type: "terminate", key: worker.key });
  }

  private lookAtHold(hold: HoldState): void {
    const time = now();
    if (hold.endsAt <= time) {
      this.loseHold(hold, "no renewal succeeded in time");
    } else if (hold.renewAt <= time && !hold.busy) {
      void this.renewHold(hold);
    }
  }

  private loseHold(hold: HoldState, message: string): void {
    if (this.holds.get(hold.key) !== hold) return;
    this.holds.delete(hold.key);
    this.post({ type: "holdLost", key: hold.key, message });
  }

  private async renewHold(hold: HoldState): Promise<void> {
    const sentAt = now();
    hold.busy = true;
    try {
      const answer = await this.ask(hold.path, hold.grantedMs, hold.body);
      const granted = answer[hold.expires];
      if (typeof granted !== "number")
        throw new MainspringError("bad_answer", "a renewal without its time");
      hold.grantedMs = granted;
      hold.renewAt = sentAt + granted / 3;
      hold.endsAt = Math.max(hold.endsAt, endOf(sentAt, granted));
    } catch (error) {
      if (error instanceof MainspringError && error.code === "lease_lost")
        this.loseHold(hold, error.message);
      hold.renewAt = now() + Math.min(RETRY_PAUSE_MS, hold.grantedMs / 12);
    } finally {
      hold.busy = false;
    }
  }

  private async ask(
    path: string,
    leaseMs: number,
    body: unknown,
  ): Promise<Record<string, unknown>> {
    const timeoutMs = Math.min(ANSWER_MS, Math.max(leaseMs / 3, 100));
    const answer = await this.transport.request({
      method: "POST",
      path,
      body: formatJson(body),
      timeoutMs,
    });
    return readAnswer(answer, `POST ${path}`);
  }

  private complain(worker: WorkerState, error: unknown): void {
    if (worker.failing && now() < worker.complainAt) return;
    worker.failing = true;
    worker.complainAt = now() + COMPLAIN_MS;
    const message = "cannot renew leases; retrying until they expire";
    this.post({
      type: "log",
      level: "warn",
      message,
      error: error instanceof Error ? error.message : String(error),
    });
  }
}

function endOf(sentAt: number, leaseMs: number): number {
  return sentAt + leaseMs - leaseMargin(leaseMs);
}

// Near a job's time limit the server grants less and less; before a restart, more than was asked.
function deadlines(
  sentAt: number,
  leaseMs: number,
  asked: number,
): { renewAt: number; endsAt: number } {
  const third = Math.min(leaseMs, asked) / 3;
  const renewAt = sentAt + Math.max(third, Math.min(asked / 12, LEAST_RENEWAL_MS));
  return { renewAt, endsAt: endOf(sentAt, leaseMs) };
}

function list(value: unknown): unknown[] {
  return Array.isArray(value) ? value : [];
}

// Handlers that still run although they were asked to end: each holds its slot.
import type { Attempt } from "./attempt.js";
import { callAfter, now } from "./clock.js";
import { LeaseLost, TimedOut } from "./errors.js";
import { placeOf } from "./handling.js";
import type { Logger } from "./log.js";

const EVERY_MS = 60_000; // between two lines about one handler
const STUCK_MS = 10_000; // after a time limit or a lost lease, like the workers of other languages

export class Overdue {
  /** Handlers that are stuck, as of the last look, and the slots that they hold. */
  stuck = 0;
  slots = 0;
  private cancel: (() => void) | undefined;
  private readonly asked = new Map<Attempt, { at: number; lineAt: number }>();

  constructor(
    private readonly log: Logger,
    private readonly exitAfterMs: number,
    private readonly exit: () => void,
    private readonly changed: () => void,
  ) {}

  /** The attempt was asked to end. */
  add(attempt: Attempt): void {
    if (!attempt.started || attempt.ended || this.asked.has(attempt)) return;
    const at = now();
    this.asked.set(attempt, { at, lineAt: at + EVERY_MS });
    this.next();
  }

  remove(attempt: Attempt): void {
    if (this.asked.delete(attempt)) this.next();
  }

  stop(): void {
    this.cancel?.();
  }

  private next(): void {
    this.stop();
    const time = now();
    const before = this.stuck;
    const { again, exits } = this.look(time);
    if (this.stuck !== before) this.changed();
    if (exits) this.exit();
    else if (again < Infinity) this.cancel = callAfter(again - time, () => this.next());
  }

  /** Logs what is due. Returns when to look again, and whether the worker should exit. */
  look(time: number): { again: number; exits: boolean } {
    let again = Infinity;
    let exits = false;
    this.stuck = this.slots = 0;
    for (const [attempt, asked] of this.asked) {
      exits ||= time >= asked.at + this.exitAfterMs;
      const { stopReason } = attempt; // a cancelled job keeps its lease
      const kept = stopReason instanceof TimedOut || stopReason instanceof LeaseLost;
      if (kept && time < asked.at + STUCK_MS) {
        again = Math.min(again, asked.at + STUCK_MS);
      } else if (kept) {
        this.stuck += 1;
        this.slots += attempt.slots;
      }
      if (time >= asked.lineAt) {
        asked.lineAt = time + EVERY_MS;
        this.log.error("a handler has not ended since it was asked to; it holds its slot", {
          ...placeOf(attempt),
          for: `${Math.round((time - asked.at) / 1000)}s`,
          reason: stopReason?.name,
        });
      }
      again = Math.min(again, asked.lineAt, asked.at + this.exitAfterMs);
    }
    return { again, exits };
  }
}

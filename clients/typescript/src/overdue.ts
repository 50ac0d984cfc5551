// Handlers that still run although they were asked to end: each holds its slot.
import type { Attempt } from "./attempt.js";
import { callAfter, now } from "./clock.js";
import { placeOf } from "./handling.js";
import type { Logger } from "./log.js";

const EVERY_MS = 60_000; // between two lines about one handler

export class Overdue {
  private cancel: (() => void) | undefined;
  private readonly asked = new Map<Attempt, { at: number; lineAt: number }>();

  constructor(
    private readonly log: Logger,
    private readonly exitAfterMs: number,
    private readonly onStuck: () => void,
  ) {}

  /** The attempt was asked to end. */
  add(attempt: Attempt): void {
    if (!attempt.started || attempt.ended || this.asked.has(attempt)) return;
    const at = now();
    this.asked.set(attempt, { at, lineAt: at + EVERY_MS });
    this.next();
  }

  remove(attempt: Attempt): void {
    if (this.asked.delete(attempt) && this.asked.size === 0) this.stop();
  }

  stop(): void {
    this.cancel?.();
  }

  private next(): void {
    this.stop();
    const time = now();
    const { again, stuck } = this.look(time);
    if (stuck) this.onStuck();
    else if (again < Infinity) this.cancel = callAfter(again - time, () => this.next());
  }

  /** Logs what is due. Returns when to look again, and whether the worker should exit. */
  look(time: number): { again: number; stuck: boolean } {
    let again = Infinity;
    let stuck = false;
    for (const [attempt, asked] of this.asked) {
      stuck ||= time >= asked.at + this.exitAfterMs;
      if (time >= asked.lineAt) {
        asked.lineAt = time + EVERY_MS;
        this.log.error("a handler has not ended since it was asked to; it holds its slot", {
          ...placeOf(attempt),
          for: `${Math.round((time - asked.at) / 1000)}s`,
          reason: attempt.stopReason?.name,
        });
      }
      again = Math.min(again, asked.lineAt, asked.at + this.exitAfterMs);
    }
    return { again, stuck };
  }
}

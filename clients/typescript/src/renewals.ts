// The main thread's side of the thread that renews leases.
import { Worker as Thread } from "node:worker_threads";

import threadSource from "mainspring:renew_thread";

import { readClocks } from "./clock.js";
import type { ServerAddress } from "./http.js";
import type { Logger } from "./log.js";
import {
  type Envelope,
  type FromLoop,
  type NamedHold,
  RenewLoop,
  type ToLoop,
  type WorkerLeases,
} from "./renew_loop.js";

export interface LeaseEvents {
  lost(rows: { index: number; generation: number; confirmed: boolean }[]): void;
  cancel(ids: string[]): void;
  quiet(): void;
  terminate(): void;
}

export class Renewals {
  private thread: Thread | undefined;
  private inline: RenewLoop | undefined;
  private lastKey = 0;
  private closed = false;
  private readonly workers = new Map<number, { leases: WorkerLeases; events: LeaseEvents }>();
  private readonly holds = new Map<number, { hold: NamedHold; lost: (message: string) => void }>();

  constructor(
    private readonly address: ServerAddress,
    private readonly log: Logger,
  ) {
    this.start();
  }

  /** Renews the jobs of a table until `forget`. */
  addWorker(leases: Omit<WorkerLeases, "key">, events: LeaseEvents): number {
    const key = ++this.lastKey;
    this.workers.set(key, { leases: { ...leases, key }, events });
    this.send({ type: "worker", leases: { ...leases, key }, again: false });
    return key;
  }

  /** Renews one lease by a request of its own until `forget`, or until it is lost. */
  addHold(hold: Omit<NamedHold, "key">, lost: (message: string) => void): number {
    const key = ++this.lastKey;
    this.holds.set(key, { hold: { ...hold, key }, lost });
    this.send({ type: "hold", hold: { ...hold, key }, again: false });
    return key;
  }

  forget(key: number): void {
    this.workers.delete(key);
    this.holds.delete(key);
    this.send({ type: "forget", key });
  }

  /** The server may be about to stop: a renewal learns for how long the leases last then. */
  renewNow(): void {
    this.send({ type: "renewNow" });
  }

  close(): void {
    this.closed = true;
    this.inline?.close();
    void this.thread?.terminate();
    this.thread = undefined;
    this.inline = undefined;
  }

  private send(message: ToLoop): void {
    const envelope: Envelope = { message, clocks: readClocks() };
    if (this.inline) this.inline.receive(envelope);
    else this.thread?.postMessage(envelope);
  }

  private start(): void {
    try {
      // Without the flags of this process: they may name loaders that do not belong into the
      // thread.
      const thread = new Thread(threadSource, {
        eval: true,
        workerData: this.address,
        execArgv: [],
      });
      thread.on("message", (message: FromLoop) => this.receive(message));
      thread.on("error", (error) => this.restart(thread, error.message));
      thread.on("exit", () => this.restart(thread, "it ended"));
      thread.unref(); // after its listeners: they hold the process
      this.thread = thread;
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error);
      this.log.warn("no thread for renewals: a blocked event loop may lose leases", { error: why });
      this.inline = new RenewLoop(this.address, (message) => this.receive(message));
    }
  }

  private restart(thread: Thread, why: string): void {
    if (this.closed || this.thread !== thread) return;
    this.log.error("the thread that renews leases failed; starting another one", { error: why });
    this.start();
    for (const { leases } of this.workers.values())
      this.send({ type: "worker", leases, again: true });
    for (const { hold } of this.holds.values()) this.send({ type: "hold", hold, again: true });
  }

  private receive(message: FromLoop): void {
    switch (message.type) {
      case "log":
        this.log[message.level](message.message, { error: message.error });
        return;
      case "lost":
        this.workers.get(message.key)?.events.lost(message.rows);
        return;
      case "cancel":
        this.workers.get(message.key)?.events.cancel(message.ids);
        return;
      case "quiet":
        this.workers.get(message.key)?.events.quiet();
        return;
      case "terminate":
        this.workers.get(message.key)?.events.terminate();
        return;
      case "holdLost": {
        const held = this.holds.get(message.key);
        this.holds.delete(message.key);
        held?.lost(message.message);
      }
    }
  }
}

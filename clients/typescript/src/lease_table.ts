// The leases of a worker in memory that its two threads share.
//
// The main thread adds and removes jobs without a message to the thread that renews. A row belongs
// to one claim for as long as its generation stays: the renewing thread keeps deadlines of its own
// and drops them when the generation has changed.

const HEADER_BYTES = 64;
const ROW_BYTES = 8 + 8 + 8 + 8 + 4;

export interface Row {
  index: number;
  generation: number;
  id: bigint;
  token: bigint;
  /** When the claim was sent that gave the lease. */
  sentAt: number;
  leaseMs: number;
}

export class LeaseTable {
  /** Slots (1024), jobs of one claim (1000), and as many whose finish is under way. */
  static readonly CAPACITY = 4096;

  readonly memory: SharedArrayBuffer;
  private readonly used: Int32Array;
  private readonly ids: BigInt64Array;
  private readonly tokens: BigInt64Array;
  private readonly sent: Float64Array;
  private readonly leases: Float64Array;
  private readonly generations: Int32Array;
  private readonly free: number[] = [];
  private generation = 0;

  constructor(memory?: SharedArrayBuffer) {
    const rows = LeaseTable.CAPACITY;
    this.memory = memory ?? new SharedArrayBuffer(HEADER_BYTES + rows * ROW_BYTES);
    let at = HEADER_BYTES;
    const next = (bytes: number) => (at += bytes * rows) - bytes * rows;
    this.used = new Int32Array(this.memory, 0, 1);
    this.ids = new BigInt64Array(this.memory, next(8), rows);
    this.tokens = new BigInt64Array(this.memory, next(8), rows);
    this.sent = new Float64Array(this.memory, next(8), rows);
    this.leases = new Float64Array(this.memory, next(8), rows);
    this.generations = new Int32Array(this.memory, next(4), rows);
  }

  /** Main thread. Undefined: the table is full. */
  add(
    id: bigint,
    token: bigint,
    sentAt: number,
    leaseMs: number,
  ): { index: number; generation: number } | undefined {
    const used = this.used[0] ?? 0;
    const index = this.free.pop() ?? used;
    if (index >= LeaseTable.CAPACITY) return undefined;
    this.generation = this.generation >= 0x7fffffff ? 1 : this.generation + 1;
    this.ids[index] = id;
    this.tokens[index] = token;
    this.sent[index] = sentAt;
    this.leases[index] = leaseMs;
    Atomics.store(this.generations, index, this.generation);
    if (index === used) Atomics.store(this.used, 0, used + 1);
    return { index, generation: this.generation };
  }

  /** Main thread. */
  remove(index: number): void {
    Atomics.store(this.generations, index, 0);
    this.free.push(index);
  }

  holds(index: number, generation: number): boolean {
    return Atomics.load(this.generations, index) === generation;
  }

  /** Renewing thread: the rows in use. A row that changes meanwhile is left for the next look. */
  rows(): Row[] {
    const out: Row[] = [];
    const used = Atomics.load(this.used, 0);
    for (let index = 0; index < used; index += 1) {
      const generation = Atomics.load(this.generations, index);
      if (generation === 0) continue;
      const row = {
        index,
        generation,
        id: this.ids[index] ?? 0n,
        token: this.tokens[index] ?? 0n,
        sentAt: this.sent[index] ?? 0,
        leaseMs: this.leases[index] ?? 0,
      };
      if (this.holds(index, generation)) out.push(row);
    }
    return out;
  }
}

// The TypeScript client. MAINSPRING_SERVER is the server.
import { defineJob, Mainspring } from "@mainspring-jobs/client";
import { enqueues, Lag, main, Rate } from "./measure.mjs";

const silent = { debug() {}, info() {}, warn() {}, error() {} };
const ms = new Mainspring({ log: silent });
const queue = `bench-${Date.now()}`;
const noop = defineJob("noop", { queue });

async function rate(count, options) {
  for (let made = 0; made < count; made += 5000) {
    const args = Array.from({ length: Math.min(5000, count - made) }, (_, i) => ({ i }));
    await ms.enqueueMany(noop, args);
  }
  const rate = new Rate(count);
  const worker = ms.worker(options).on(noop, () => rate.handled());
  const look = setInterval(() => {
    if (worker.stats.completed >= count) rate.completed(count);
  }, 1);
  const value = await rate.value();
  clearInterval(look);
  await worker.stop();
  return value;
}

await main({
  many: (count) => rate(count, { slots: 100, claimAhead: 0 }),
  one: (count) => rate(count, { slots: 1, claimAhead: 0 }),
  enqueue: (count) => enqueues(count, 1, () => ms.enqueue(noop, { i: 1 })),
  burst: (count) => enqueues(count, 256, () => ms.enqueue(noop, { i: 1 })),
  async lag(count) {
    const lag = new Lag();
    const worker = ms.worker({ slots: 4 }).on(noop, () => lag.started());
    const value = await lag.value(count, () => ms.enqueue(noop, {}));
    await worker.stop();
    return value;
  },
});

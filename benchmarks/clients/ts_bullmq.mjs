// BullMQ. BENCH_REDIS is the port of Redis.
import { Queue, Worker } from "bullmq";
import { enqueues, Lag, main, Rate } from "./measure.mjs";

const connection = { host: "127.0.0.1", port: Number(process.env.BENCH_REDIS), maxRetriesPerRequest: null };
const name = `bench-${Date.now()}`;
const queue = new Queue(name, { connection });

async function rate(count, concurrency) {
  for (let made = 0; made < count; made += 1000) {
    const jobs = Array.from({ length: Math.min(1000, count - made) }, (_, i) => ({ name: "noop", data: { i } }));
    await queue.addBulk(jobs);
  }
  const rate = new Rate(count);
  const worker = new Worker(name, async () => rate.handled(), { connection, concurrency });
  worker.on("completed", () => rate.completed());
  const value = await rate.value();
  await worker.close();
  return value;
}

await main({
  many: (count) => rate(count, 100),
  one: (count) => rate(count, 1),
  enqueue: (count) => enqueues(count, 1, () => queue.add("noop", { i: 1 })),
  burst: (count) => enqueues(count, 256, () => queue.add("noop", { i: 1 })),
  async lag(count) {
    const lag = new Lag();
    const worker = new Worker(name, async () => lag.started(), { connection, concurrency: 4 });
    await worker.waitUntilReady();
    const value = await lag.value(count, () => queue.add("noop", {}));
    await worker.close();
    return value;
  },
});

// graphile-worker, as its performance page recommends for `many`: a local queue, completions in
// batches. BENCH_POSTGRES is a separate database.
import { Logger, makeWorkerUtils, run, runMigrations } from "graphile-worker";
import { enqueues, Lag, main, Rate } from "./measure.mjs";

const logger = new Logger(() => () => {});
const connectionString = process.env.BENCH_POSTGRES;
await runMigrations({ connectionString, logger });
const utils = await makeWorkerUtils({ connectionString, logger });

async function worker(handler, concurrentJobs, batch) {
  const tuned = { localQueue: { size: 100, refetchDelay: { durationMs: 10 } }, completeJobBatchDelay: 0, failJobBatchDelay: 0 };
  const options = { concurrentJobs, pollInterval: 1000, maxPoolSize: concurrentJobs + 10 };
  return await run({
    ...{ connectionString, logger, noHandleSignals: true, concurrency: concurrentJobs, pollInterval: 1000 },
    ...{ maxPoolSize: options.maxPoolSize, taskList: { noop: handler } },
    preset: { worker: batch ? { ...options, ...tuned } : options },
  });
}

async function rate(count, concurrency, batch) {
  for (let made = 0; made < count; made += 1000) {
    const jobs = Array.from({ length: Math.min(1000, count - made) }, (_, i) => ({ identifier: "noop", payload: { i } }));
    await utils.addJobs(jobs);
  }
  const rate = new Rate(count);
  const runner = await worker(async () => rate.handled(), concurrency, batch);
  runner.events.on("job:complete", () => rate.completed());
  const value = await rate.value();
  await runner.stop();
  return value;
}

await main({
  many: (count) => rate(count, 24, true),
  one: (count) => rate(count, 1, false),
  enqueue: (count) => enqueues(count, 1, () => utils.addJob("noop", { i: 1 })),
  burst: (count) => enqueues(count, 256, () => utils.addJob("noop", { i: 1 })),
  async lag(count) {
    const lag = new Lag();
    const runner = await worker(async () => lag.started(), 4, false);
    await new Promise((done) => setTimeout(done, 500)); // LISTEN is under way
    const value = await lag.value(count, () => utils.addJob("noop", {}));
    await runner.stop();
    return value;
  },
});

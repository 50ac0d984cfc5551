// graphile-worker, as its performance page recommends: jobs are added a thousand at a time, fetched
// 500 ahead into a local queue and completed in batches.
import { Logger, makeWorkerUtils, run, runMigrations } from "graphile-worker";
import { fileURLToPath } from "node:url";
import { BATCH, PAYLOAD, inWriters, main } from "./harness.mjs";

const logger = new Logger(() => () => {});
const writers = 2; // calls of addJobs at a time

const peer = {
  async install(connectionString) {
    await runMigrations({ connectionString, logger });
  },
  async open(connectionString) {
    const utils = await makeWorkerUtils({ connectionString, logger, maxPoolSize: writers });
    const jobs = Array.from({ length: BATCH }, () => ({ identifier: "bench", payload: PAYLOAD }));
    let runner;
    return {
      enqueue: (total) => inWriters(total, writers, (count) => utils.addJobs(jobs.slice(0, count))),
      async work(ran) {
        runner = await run({
          connectionString,
          logger,
          noHandleSignals: true,
          concurrency: 24,
          maxPoolSize: 30,
          pollInterval: 100,
          preset: {
            worker: {
              concurrentJobs: 24,
              pollInterval: 100,
              maxPoolSize: 30,
              localQueue: { size: 500, refetchDelay: { durationMs: 10 } },
              completeJobBatchDelay: 0,
              failJobBatchDelay: 0,
            },
          },
          taskList: { bench: () => ran(1) },
        });
      },
      async stop() {
        await runner.stop();
        await utils.release();
      },
    };
  },
};

await main(peer, fileURLToPath(import.meta.url));

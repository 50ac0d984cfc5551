// pg-boss: jobs are inserted, fetched and completed a thousand at a time, in a table per queue. Its
// maintenance is off, so that nothing else runs meanwhile.
import { PgBoss } from "pg-boss";
import { fileURLToPath } from "node:url";
import { BATCH, PAYLOAD, inWriters, main } from "./harness.mjs";

const QUEUE = "bench";
const writers = 2; // of calls at a time, for either side

function boss(connectionString) {
  const made = new PgBoss({ connectionString, max: 2 * writers, supervise: false, schedule: false });
  made.on("error", (error) => {
    console.error(error);
    process.exit(1);
  });
  return made;
}

const peer = {
  async install(url) {
    const one = boss(url);
    await one.start();
    await one.createQueue(QUEUE, { partition: true });
    await one.stop({ graceful: false });
  },
  async open(url) {
    const one = boss(url);
    await one.start();
    const jobs = Array.from({ length: BATCH }, () => ({ data: PAYLOAD }));
    let stopping = false;
    let loops = [];
    return {
      enqueue: (total) => inWriters(total, writers, (count) => one.insert(QUEUE, jobs.slice(0, count))),
      async work(ran) {
        const loop = async () => {
          while (!stopping) {
            const got = await one.fetch(QUEUE, { batchSize: BATCH });
            if (got.length === 0) {
              await new Promise((resolve) => setTimeout(resolve, 2));
              continue;
            }
            await one.complete(QUEUE, got.map((job) => job.id));
            ran(got.length);
          }
        };
        loops = Array.from({ length: writers }, loop);
      },
      async stop() {
        stopping = true;
        await Promise.all(loops);
        await one.stop({ graceful: false });
      },
    };
  },
};

await main(peer, fileURLToPath(import.meta.url));

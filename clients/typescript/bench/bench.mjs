// Jobs per second of one worker process: node bench/bench.mjs [--jobs N] [--runs N]
// Needs the server's program: MAINSPRING_BINARY. Prints medians as JSON.
import { defineJob, type } from "@mainspring-jobs/client";
import { startServer } from "@mainspring-jobs/client/testing";
import { parseArgs } from "node:util";

const { values } = parseArgs({
  options: { jobs: { type: "string", default: "20000" }, runs: { type: "string", default: "3" } },
});
const total = Number(values.jobs);
const noop = defineJob("noop", { queue: "bench", args: type(), result: type() });
const median = (list) => list.sort((a, b) => a - b)[Math.floor(list.length / 2)];

async function fill(ms, count) {
  const begin = performance.now();
  for (let made = 0; made < count; made += 5000) {
    await ms.enqueueMany(
      noop,
      Array.from({ length: Math.min(5000, count - made) }, (_, i) => ({ i })),
    );
  }
  return count / ((performance.now() - begin) / 1000);
}

// Jobs that wait already: from the worker's start to the last job's end.
async function drain(ms, count, options) {
  let done = 0;
  let finished;
  const all = new Promise((resolve) => (finished = resolve));
  const cpu = process.cpuUsage();
  const begin = performance.now();
  const worker = ms.worker(options).on(noop, () => {
    done += 1;
    if (done === count) finished();
  });
  await all;
  await worker.stop();
  const seconds = (performance.now() - begin) / 1000;
  const { user, system } = process.cpuUsage(cpu);
  return { rate: count / seconds, cpuUs: (user + system) / count, finishes: worker.stats.finishes };
}

// One job at a time on an idle worker: from the call of enqueue to the begin of its handler.
async function latency(ms, count) {
  let begun = () => undefined;
  const worker = ms.worker({ slots: 4 }).on(noop, () => begun());
  const times = [];
  for (let i = 0; i < count; i += 1) {
    const begin = performance.now();
    const start = new Promise((resolve) => (begun = () => resolve(performance.now() - begin)));
    await Promise.all([ms.enqueue(noop, {}), start.then((took) => times.push(took))]);
    await new Promise((resolve) => setTimeout(resolve, 2));
  }
  await worker.stop();
  return times.sort((a, b) => a - b);
}

const results = {
  batch: [],
  batch100: [],
  single: [],
  enqueueMany: [],
  p50: [],
  p99: [],
  cpuUs: [],
};
for (let run = 0; run < Number(values.runs); run += 1) {
  const server = await startServer({ durable: true });
  const ms = server.client();
  results.enqueueMany.push(await fill(ms, total));
  await drain(ms, total, { slots: 100 }); // warms up
  await fill(ms, total);
  const batch = await drain(ms, total, { slots: 100 });
  results.batch.push(batch.rate);
  results.cpuUs.push(batch.cpuUs);
  await fill(ms, total);
  results.batch100.push((await drain(ms, total, { slots: 100, claimAhead: 0 })).rate);
  const few = Math.min(total / 4, 3000);
  await fill(ms, few);
  results.single.push((await drain(ms, few, { slots: 1, claimAhead: 0 })).rate);
  const times = await latency(ms, 300);
  results.p50.push(times[150]);
  results.p99.push(times[297]);
  await server.stop();
}
const shown = Object.fromEntries(
  Object.entries(results).map(([name, list]) => [name, Number(median(list).toFixed(2))]),
);
console.log(JSON.stringify({ jobs: total, node: process.version, ...shown }));

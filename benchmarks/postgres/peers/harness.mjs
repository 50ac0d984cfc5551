// Shared by the measurements of peers: JOBS jobs of 200 bytes through PROCS processes. Each process
// enqueues and runs its part: `together` does both at once, `in-turn` first all enqueues.
//
//   node graphile.mjs URL JOBS together|in-turn PROCS
//
// A peer is { install(url), open(url) -> { enqueue(jobs), work(ran), stop() } }: enqueue() adds
// that many jobs, work() starts to run jobs and calls ran(count), stop() returns when all jobs that
// ran are durably completed. The time ends when every process has stopped.
import { fork } from "node:child_process";

export const BATCH = 1000; // jobs in one call of the peer's batch enqueue
export const PAYLOAD = { data: "x".repeat(200 - '{"data":""}'.length) };
const REPORT_MS = 5;

// Calls step(jobs) until `total` jobs are in, `writers` calls at a time.
export async function inWriters(total, writers, step) {
  let left = total;
  const writer = async () => {
    while (left > 0) {
      const now = Math.min(BATCH, left);
      left -= now;
      await step(now);
    }
  };
  await Promise.all(Array.from({ length: writers }, writer));
}

async function child(peer) {
  const opened = await peer.open(process.argv[2]);
  let ran = 0;
  let told = 0;
  const timer = setInterval(() => {
    if (ran !== told) process.send({ ran: (told = ran) });
  }, REPORT_MS);
  process.on("message", async ({ say, jobs }) => {
    if (say === "enqueue") await opened.enqueue(jobs);
    if (say === "work") await opened.work((count) => (ran += count));
    if (say === "stop") await opened.stop();
    process.send({ done: say });
    if (say !== "stop") return;
    clearInterval(timer);
    process.disconnect();
    process.exit(0);
  });
  process.send({ done: "open" });
}

async function parent(peer, file) {
  const [url, jobsText, mode, procsText] = process.argv.slice(2);
  const jobs = Number(jobsText);
  const procs = Number(procsText);
  await peer.install(url);
  const children = Array.from({ length: procs }, () => fork(file, process.argv.slice(2), { env: { ...process.env, PEER_CHILD: "1" } }));
  const ran = children.map(() => 0);
  let moved = () => {};
  const waiting = children.map(() => new Map());
  children.forEach((one, i) => {
    one.on("message", (message) => {
      if (message.ran !== undefined) {
        ran[i] = message.ran;
        moved();
      } else {
        waiting[i].get(message.done)?.();
      }
    });
    one.on("exit", (code) => code && process.exit(1));
  });
  const answer = (i, what) => new Promise((resolve) => waiting[i].set(what, resolve));
  const all = (say, rest = {}) =>
    Promise.all(
      children.map((one, i) => {
        const answered = answer(i, say);
        one.send({ say, ...rest });
        return answered;
      }),
    );
  await Promise.all(children.map((_, i) => answer(i, "open")));
  const allRan = new Promise((resolve) => {
    moved = () => ran.reduce((a, b) => a + b) >= jobs && resolve();
  });
  console.log(JSON.stringify({ begin: true }));
  const begin = performance.now();
  let enqueued;
  if (mode === "together") {
    const working = all("work");
    await all("enqueue", { jobs: jobs / procs });
    enqueued = performance.now();
    await working;
  } else {
    await all("enqueue", { jobs: jobs / procs });
    enqueued = performance.now();
    await all("work");
  }
  await allRan;
  await all("stop");
  const end = performance.now();
  console.log(
    JSON.stringify({ jobs, seconds: (end - begin) / 1000, enqueue_seconds: (enqueued - begin) / 1000 }),
  );
}

export async function main(peer, file) {
  await (process.env.PEER_CHILD ? child(peer) : parent(peer, file));
}

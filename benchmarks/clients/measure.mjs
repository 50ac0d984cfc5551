// Shared by the Node.js programs: node PROGRAM MEASURE COUNT prints its result as JSON.
//
//   many  COUNT jobs wait; a worker claims up to 100 at once: jobs/s
//   one   the same, one job at a time: jobs/s
//   enqueue  COUNT enqueues, one after the other: jobs/s
//   burst    COUNT enqueues, 256 at once: jobs/s
//   lag   one job at a time on an idle worker, from the call of enqueue to the handler: [p50, p99] in ms
//
// Rates are measured from the first handler's start to the last recorded completion, without the
// start of the program and its connections.

/** Calls `add(handler)` to start a worker, and resolves once `count` completions are recorded. */
export class Rate {
  done = 0;
  constructor(count) {
    this.count = count;
    this.finished = new Promise((resolve) => (this.resolve = resolve));
  }
  handled() {
    this.began ??= performance.now();
  }
  completed(more = 1) {
    this.done += more;
    if (this.done < this.count || this.ended !== undefined) return;
    this.ended = performance.now();
    this.resolve();
  }
  async value() {
    await this.finished;
    return (this.count * 1000) / (this.ended - this.began);
  }
}

/** Enqueues `count` jobs with pauses; `started` is called by the handler. */
export class Lag {
  times = [];
  started() {
    this.resolve?.(performance.now());
  }
  async value(count, enqueue) {
    for (let i = 0; i < count + 20; i += 1) {
      const start = new Promise((resolve) => (this.resolve = resolve));
      const begin = performance.now();
      await enqueue();
      this.times.push((await start) - begin);
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
    const times = this.times.slice(20).sort((a, b) => a - b); // the first ones warm up
    return [times[Math.floor(times.length / 2)], times[Math.floor(times.length * 0.99)]];
  }
}

/** Enqueues per second, with so many under way. */
export async function enqueues(count, atOnce, enqueue) {
  for (let i = 0; i < Math.min(count, 200); i += 1) await enqueue(); // warms up
  const begin = performance.now();
  for (let made = 0; made < count; made += atOnce)
    await Promise.all(Array.from({ length: Math.min(atOnce, count - made) }, enqueue));
  return (count * 1000) / (performance.now() - begin);
}

export async function main(measures) {
  const [measure, count] = process.argv.slice(2);
  console.log(JSON.stringify(await measures[measure](Number(count))));
  process.exit(0);
}

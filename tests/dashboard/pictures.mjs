// pictures.mjs WORK MAINSPRING OUTPUT: takes the pictures of the documentation. A test server gets a day of schedules
// and an hour of jobs under its simulated clock; every number in the pictures is what the server recorded.
// Then: convert OUTPUT/overview.png -quality 78 docs/images/dashboard_overview.webp
import { spawn } from "node:child_process";
import { mkdirSync } from "node:fs";
import { join } from "node:path";

import { call, ready, setUp } from "./support.mjs";

const [work, mainspring, output, only = ""] = process.argv.slice(2);
const t = setUp(work, mainspring, []);
mkdirSync(output, { recursive: true });

// The same numbers in each run.
let seed = 7;
const random = () => ((seed = (seed * 1103515245 + 12345) % 2147483648), seed / 2147483648);
const between = (low, high) => low + Math.floor(random() * (high - low + 1));
const one = (list) => list[between(0, list.length - 1)];
const logNormal = (median, spread) => median * Math.exp(spread * (random() + random() + random() - 1.5));

const SCHEDULES = {
  "nightly-report": { cron: "30 2 * * *", kind: "report" },
  invoices: { cron: "0 */4 * * *", kind: "invoice" },
  cleanup: { cron: "15 * * * *", kind: "cleanup" },
  "exchange-rates": { cron: "*/30 6-20 * * 1-5", kind: "rates" },
  reminders: { cron: "0 9,17 * * *", kind: "reminder" },
  "search-index": { every: "2h", kind: "index" },
};
// Per minute: how many jobs, how long they run, what goes wrong and how often.
const LOAD = [
  { queue: "mails", kind: "welcome", jobs: [4, 14], ms: 180, fails: 0.04, dies: 0.01, error: "SMTPServerDisconnected: Connection unexpectedly closed" },
  { queue: "photos", kind: "thumbnail", jobs: [8, 22], ms: 420, fails: 0.03, dies: 0.02, error: "UnidentifiedImageError: cannot identify image file" },
  { queue: "orders", kind: "capture", jobs: [2, 8], ms: 260, fails: 0.02, dies: 0.01, error: "PaymentError: 503 from the payment gateway" },
];
const CUSTOMERS = ["acme", "globex", "initech", "umbrella"];
const WORKERS = [
  { worker: "web-7-4101", host: "web-7", pid: 4101, language: "Python 3.11", slots: 8 },
  { worker: "web-8-3310", host: "web-8", pid: 3310, language: "Python 3.11", slots: 8 },
  { worker: "batch-1-977", host: "batch-1", pid: 977, language: "C++20", slots: 4 },
];
const QUEUES = ["orders", "mails", "photos", "reports"];

const child = spawn(mainspring, ["serve", "--test"], { stdio: ["pipe", "pipe", "inherit"] });
const { url, token } = await new Promise((resolve, reject) => {
  let text = "";
  child.stdout.on("data", (bytes) => text.includes("\n") || ((text += bytes).includes("\n") && resolve(JSON.parse(text))));
  child.on("exit", (code) => reject(new Error(`the server ended with ${code}`)));
});
const api = (method, path, body) => call(url, method, path, body, { Authorization: `Bearer ${token}` });
const advance = (ms) => api("POST", "/v1/test/clock", { advance: `${Math.max(1, Math.round(ms))}ms`, leases: "live", settle: "1ms" });
let version = "v1.3";
const claim = (worker, max, queues = QUEUES) =>
  api("POST", "/v1/claim", { ...worker, version, queues, max, wait: "0s", lease: "10m" }).then(({ jobs }) => jobs);
let order = 4000;
const jobOf = ({ queue, kind }) => ({ queue, kind, args: { order: ++order, lines: between(1, 9) }, limit_key: one(CUSTOMERS), max_attempts: 3 });

function outcomeOf(job) {
  const { fails = 0.02, dies = 0, error = "TimeoutError: the database did not answer" } = LOAD.find((load) => load.queue === job.queue) ?? {};
  const id = { id: job.id, token: job.token };
  if (random() < dies) return { ...id, outcome: "dead", reason: "failed", description: error };
  if (random() < fails) return { ...id, outcome: "retry", error, after: "30s" };
  return { ...id, outcome: "complete", result: { ok: true } };
}

// Runs what is available; each job takes its own time.
async function run(most = 40) {
  const worker = one(WORKERS);
  const jobs = await claim(worker, most);
  const ends = jobs
    .map((job) => ({ job, at: logNormal(LOAD.find((load) => load.queue === job.queue)?.ms ?? 900, 0.9) }))
    .sort((a, b) => a.at - b.at);
  let now = 0;
  for (const { job, at } of ends) {
    await advance(at - now);
    now = at;
    await api("POST", "/v1/finish", { worker: worker.worker, results: [outcomeOf(job)] });
  }
  return jobs.length;
}

async function aDayOfSchedules() {
  for (const [name, { kind, ...timing }] of Object.entries(SCHEDULES)) {
    const zone = timing.cron ? { time_zone: "Europe/Berlin" } : {};
    await api("PUT", `/v1/schedules/${name}`, { ...timing, ...zone, job: { queue: "reports", kind, max_attempts: 3 } });
  }
  for (let i = 0; i < 23 * 4; ++i) {
    await advance(15 * 60_000);
    while ((await run()) > 0);
  }
}

async function anHourOfJobs() {
  const marks = { 34: "v1.4" };
  for (let minute = 0; minute < 74; ++minute) {
    if (marks[minute]) {
      version = marks[minute];
      await api("POST", "/v1/marks", { text: version });
    }
    for (const load of LOAD) {
      const many = between(...load.jobs) + (load.queue === "photos" && minute > 50 && minute < 58 ? 20 : 0);
      await api("POST", "/v1/jobs", { jobs: Array.from({ length: many }, () => jobOf(load)) });
    }
    await advance(logNormal(900, 1.2));
    // In the end more arrive than the workers take.
    if (minute > 66) await run(26);
    else while ((await run()) > 0) await advance(between(5, 60));
    await advance(between(48_000, 54_000));
  }
}

// What waits when the pictures are taken.
async function now() {
  await api("PUT", "/v1/queues/photos/limits", { concurrency: 6, per_key: { concurrency: 3 } });
  await api("PUT", "/v1/queues/orders/limits", { rate: { count: 100, per: "1m" }, breaker: "payments" });
  await api("POST", "/v1/jobs", { jobs: Array.from({ length: 40 }, () => jobOf(LOAD[1])) });
  await claim(WORKERS[0], 4, ["photos"]);
  await claim(WORKERS[1], 2, ["photos"]);
  await advance(11_000);
}

// Long pages are cut: the overview below its lists of jobs, the jobs at the window.
async function areaOf(page, name) {
  if (name === "jobs") return {};
  if (name !== "overview") return { fullPage: true };
  const last = await page.locator(".columns .panel").nth(1).boundingBox();
  return { fullPage: true, clip: { x: 0, y: 0, width: 1280, height: Math.ceil(last.y + last.height + 16) } };
}

async function take() {
  const waiting = (await api("GET", "/v1/jobs?queue=photos&state=available&limit=20")).jobs.at(-1).id;
  const pages = { overview: "", schedules: "schedules", queue: "queues/photos", queues: "queues", errors: "errors", jobs: "jobs?state=dead&q=error%3Aimage", job: `jobs/${waiting}`, workers: "workers", system: "system" };
  const browser = await t.launch();
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, colorScheme: "light", timezoneId: "Europe/Berlin" });
  const signedIn = await context.request.post(`${url}/v1/session`, { headers: { Authorization: `Bearer ${token}` } });
  if (!signedIn.ok()) throw new Error(`sign-in: ${signedIn.status()}`);
  const page = await context.newPage();
  page.on("console", (message) => message.type() === "error" && console.error(message.text()));
  await page.clock.setSystemTime(new Date((await api("GET", "/v1/test/clock")).now));
  for (const [name, path] of Object.entries(pages).filter(([name]) => name.includes(only))) {
    await page.goto(`${url}/ui/#/${path}`);
    await ready(page);
    if (name === "overview") {
      await page.getByText("Live").waitFor();
      await run(8);
      await page.getByText(/Last minute/).waitFor();
    }
    await page.waitForFunction(() => [...document.querySelectorAll(".chart-frame, .swim")].every((one) => one.querySelector("svg")));
    await page.screenshot({ path: join(output, `${name}.png`), animations: "disabled", ...(await areaOf(page, name)) });
  }
  await browser.close();
}

try {
  await api("PUT", "/v1/breakers/payments", { failures: 5 });
  await aDayOfSchedules();
  await anHourOfJobs();
  await now();
  await take();
} finally {
  child.stdin.end();
  t.cleanUp();
}
process.exit(0);

// What the browser tests share: a server, a browser, and the checks that every page must pass.
import { spawn } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";

const servers = new Set(); // that run

export function setUp(work, mainspring, storeOptions) {
  const require = createRequire(join(work, "package.json"));
  const { chromium } = require("playwright-core");
  const executablePath = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"].find(existsSync);
  if (!executablePath) throw new Error("chromium is missing: apt install chromium");
  const scratch = mkdtempSync("/tmp/mainspring-browser-");
  const screenshots = join(work, "screenshots");
  mkdirSync(screenshots, { recursive: true });
  // Servers that still run would keep the output of this test open.
  process.on("uncaughtException", (error) => {
    console.error(`FAILED: ${error.stack}`);
    for (const child of servers) child.kill("SIGKILL");
    rmSync(scratch, { recursive: true, force: true });
    process.exit(1);
  });
  return {
    mainspring, scratch, screenshots, storeOptions,
    axe: readFileSync(require.resolve("axe-core/axe.min.js"), "utf8"),
    launch: () => chromium.launch({ executablePath, args: ["--no-sandbox", "--disable-dev-shm-usage"] }),
    cleanUp: () => rmSync(scratch, { recursive: true, force: true }),
  };
}

export const results = { passed: 0, failures: [] };
export function check(condition, text) {
  if (condition) return void ++results.passed;
  results.failures.push(text);
  console.error(`FAILED: ${text}`);
}

// Names and values that an attacker would choose.
export const HOSTILE = `<img src=x onerror="window.hacked=1">"'\`&lt;script&gt;window.hacked=1</script>`;

// `name` is the directory of a SQLite store. With storeOptions all servers share that store instead.
export async function startServer(t, name, options = [], listen = "127.0.0.1:0") {
  const store = t.storeOptions.length > 0 ? t.storeOptions : ["--data", join(t.scratch, name)];
  const child = spawn(t.mainspring, ["serve", ...store, "--listen", listen, "--json", "--log-level", "error", ...options], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  servers.add(child);
  child.on("exit", () => servers.delete(child));
  const line = await new Promise((resolve, reject) => {
    let text = "";
    child.stdout.on("data", (bytes) => {
      text += bytes;
      if (text.includes("\n")) resolve(text.slice(0, text.indexOf("\n")));
    });
    child.on("exit", (code) => reject(new Error(`the server ended with ${code}`)));
  });
  return { child, name, options, url: JSON.parse(line).url };
}

export async function stopServer({ child }) {
  const ended = new Promise((resolve) => child.once("exit", resolve));
  child.kill("SIGTERM");
  await ended;
}

// Changes the JSON of answers. A request that its flow does not wait for may end after the flow.
export const alterAnswers = (page, pattern, change) =>
  page.route(pattern, async (route) => {
    try {
      const answer = await route.fetch();
      await route.fulfill({ response: answer, json: change(await answer.json()) });
    } catch {
      // The page then has no answer, which fails its flow.
    }
  });

export async function call(url, method, path, body, headers = {}) {
  const response = await fetch(url + path, {
    method, body: body && JSON.stringify(body), headers: { ...(body && { "Content-Type": "application/json" }), ...headers },
  });
  const text = await response.text();
  if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`);
  return text === "" ? undefined : JSON.parse(text);
}

// A page that reports whatever goes wrong in it. A violation of the content security policy is a console error.
export async function open(browser, url, { width = 1280, scheme = "light" } = {}) {
  const context = await browser.newContext({ viewport: { width, height: 900 }, colorScheme: scheme, bypassCSP: false });
  const page = await context.newPage();
  page.setDefaultTimeout(30_000);
  const problems = [];
  page.on("pageerror", (error) => problems.push(`error: ${error.message}`));
  page.on("console", (message) => {
    const text = message.text();
    const expected = /status of (401|403|404|409|410)|ERR_CONNECTION|ERR_INCOMPLETE/.test(text); // the page shows these itself
    if (message.type() === "error" && !expected) problems.push(`console at ${page.url()}: ${text}`);
  });
  // Until the new view is drawn, the old one would answer what a test asks next.
  const drawn = () => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)));
  const go = async (hash) => {
    await page.goto(`${url}/ui/#/${hash}`);
    await page.evaluate(drawn);
  };
  return { context, page, problems, go };
}

// How many requests of the page whose address matches have not ended.
export function openRequests(page, pattern) {
  const under = new Set();
  page.on("request", (request) => pattern.test(request.url()) && under.add(request));
  for (const event of ["requestfinished", "requestfailed"]) page.on(event, (request) => under.delete(request));
  return () => (page.isClosed() ? 0 : under.size);
}

export const ready = (page) =>
  page.waitForFunction(() => document.querySelector("main h1") && !document.querySelector(".loading"), null, { timeout: 30_000 });

// What axe-core finds, one line per rule.
export async function violations(t, page) {
  // Through the debugger, which the page's own rules do not bind.
  await page.evaluate(t.axe);
  const result = await page.evaluate(() => window.axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"] }));
  return result.violations.map((one) => `${one.id}: ${one.nodes.slice(0, 3).map((node) => node.target.join(" ")).join("; ")}`);
}

// A directory of job folders: one whose log is hostile, one that never ran, and one that runs until it is stopped.
export function jobFolders(t) {
  const directory = join(t.scratch, "folders");
  mkdirSync(join(directory, "triggered/report"), { recursive: true });
  writeFileSync(join(directory, "triggered/report/run.sh"), `#!/bin/sh\ncat <<'TEXT'\n${HOSTILE}\nTEXT\n`, { mode: 0o755 });
  mkdirSync(join(directory, "triggered/unused"), { recursive: true });
  writeFileSync(join(directory, "triggered/unused/run.sh"), "#!/bin/sh\n", { mode: 0o755 });
  mkdirSync(join(directory, "continuous/clock"), { recursive: true });
  writeFileSync(join(directory, "continuous/clock/run.sh"), "#!/bin/sh\necho the clock starts\nexec tail -f /dev/null\n", { mode: 0o755 });
  return directory;
}

// Jobs in every state, and one of everything that has a page.
export async function fill(url) {
  const enqueue = (job) => call(url, "POST", "/v1/jobs", job);
  const photos = [];
  for (let i = 0; i < 12; ++i) {
    photos.push(await enqueue({ queue: "photos", kind: "thumbnail", args: { path: `img-${i}.jpg`, order: 4700 + i }, limit_key: i % 2 ? "acme" : HOSTILE }));
  }
  await enqueue({ queue: "mails", kind: "welcome", args: { text: HOSTILE }, tags: ["vip"], delay: "1h" });
  await enqueue({ queue: "mails", kind: "hostile", args: HOSTILE, headers: { note: HOSTILE } });
  const known = (await call(url, "GET", "/openapi.json")).components.schemas.ClaimRequest.properties;
  const facts = known.host && { host: HOSTILE, pid: 17, version: "1.4", language: "python", slots: 8 };
  const claimed = await call(url, "POST", "/v1/claim", { worker: "w-1", queues: ["photos"], max: 4, lease: "10m", ...facts });
  // Names as long as real ones.
  const queue = "customer-notifications.transactional.high-priority.eu-central-1";
  await call(url, "POST", "/v1/jobs", { jobs: Array.from({ length: 4 }, () => ({ queue, kind: "SendTransactionalEmailToCustomerJob" })) });
  await call(url, "PUT", `/v1/queues/${queue}/limits`, { concurrency: 200 });
  const host = "ip-10-0-34-117.eu-central-1.compute.internal";
  await call(url, "POST", "/v1/claim", { worker: `${host}-48211`, queues: [queue, "mails"], max: 2, lease: "10m", ...(known.host && { host, pid: 48211, version: "2026.11.26", language: "TypeScript", slots: 32 }) });
  const [first, second, third] = claimed.jobs;
  await call(url, "POST", "/v1/finish", {
    worker: "w-1",
    results: [
      { id: first.id, token: first.token, outcome: "complete", result: { ok: true, note: HOSTILE } },
      { id: second.id, token: second.token, outcome: "dead", reason: "failed", description: `ValueError: ${HOSTILE}` },
      { id: third.id, token: third.token, outcome: "retry", error: `ValueError: first ${HOSTILE}`, after: "0s" },
    ],
  });
  const again = await call(url, "POST", "/v1/claim", { worker: "w-2", queues: ["photos"], job: third.id, lease: "10m", ...facts, ...(facts && { version: "1.5" }) });
  await call(url, "POST", "/v1/finish", {
    worker: "w-2",
    results: again.jobs.map((job) => ({ id: job.id, token: job.token, outcome: "dead", reason: "failed", description: "ValueError: second" })),
  });
  await call(url, "PUT", "/v1/schedules/nightly", {
    cron: "30 2 * * *", time_zone: "Europe/Berlin", job: { queue: "reports", kind: "report" },
  });
  const halfAnHourFromNow = (new Date().getUTCMinutes() + 30) % 60; // no tick while the test runs
  await call(url, "PUT", "/v1/schedules/hourly", { cron: `${halfAnHourFromNow} * * * *`, job: { queue: "reports", kind: "hourly" } });
  await call(url, "POST", "/v1/schedules/nightly/trigger");
  await call(url, "PUT", "/v1/breakers/api", { failures: 3 });
  await call(url, "POST", "/v1/breakers/api/open", {});
  await call(url, "PUT", "/v1/queues/mails/limits", { concurrency: 4, rate: { count: 100, per: "1m" }, per_key: { concurrency: 2 }, breaker: "api" });
  await call(url, "PUT", "/v1/triggers/orders", { http: {}, job: { queue: "orders", kind: "import" } });
  await call(url, "POST", "/v1/leases/report%2Feu/acquire", { holder: HOSTILE, ttl: "10m" });
  await call(url, "POST", "/v1/workflows", {
    name: "order", input: { text: HOSTILE },
    steps: [{ name: "reserve", job: { queue: "wf", kind: "reserve" } }, { name: "pay", after: ["reserve"], job: { queue: "wf", kind: "pay" } }],
  });
  const { jobs: folders } = await call(url, "GET", "/v1/host/jobs").catch(() => ({ jobs: [] }));
  if (folders.length > 0) await call(url, "POST", "/v1/host/jobs/triggered/report/run", {});
  await enqueue({ queue: "chat", kind: "message", session: "s-1" });
  return { dead: String(second.id), twice: String(again.jobs[0].id), done: String(first.id) };
}

// Waits until the server answers as wanted.
export async function eventually(what, wanted, text) {
  const until = performance.now() + 15_000;
  while (performance.now() < until) {
    if (wanted(await what())) return check(true, "");
  }
  check(false, text);
}

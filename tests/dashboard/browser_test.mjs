// browser_test.mjs WORK MAINSPRING: opens every page of the dashboard in Chromium against a real server.
// WORK/node_modules has playwright-core and axe-core. Screenshots are kept in WORK/screenshots.
import { spawn, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";

const [work, mainspring] = process.argv.slice(2);
const require = createRequire(join(work, "package.json"));
const { chromium } = require("playwright-core");
const axeSource = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");
const executablePath = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"].find(existsSync);
if (!executablePath) {
  console.error("chromium is missing: apt install chromium");
  process.exit(1);
}
const screenshots = join(work, "screenshots");
mkdirSync(screenshots, { recursive: true });
const scratch = mkdtempSync("/tmp/mainspring-browser-");

let passed = 0;
const failures = [];
function check(condition, text) {
  if (condition) return void ++passed;
  failures.push(text);
  console.error(`FAILED: ${text}`);
}

// Names and values that an attacker would choose.
const HOSTILE = `<img src=x onerror="window.hacked=1">"'\`&lt;script&gt;window.hacked=1</script>`;

async function startServer(name, options = []) {
  const child = spawn(mainspring, ["serve", "--data", join(scratch, name), "--listen", "127.0.0.1:0", "--json", ...options], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const line = await new Promise((resolve, reject) => {
    let text = "";
    child.stdout.on("data", (bytes) => {
      text += bytes;
      if (text.includes("\n")) resolve(text.slice(0, text.indexOf("\n")));
    });
    child.on("exit", (code) => reject(new Error(`the server ended with ${code}`)));
  });
  return { child, url: JSON.parse(line).url };
}

async function stopServer({ child }) {
  const ended = new Promise((resolve) => child.once("exit", resolve));
  child.kill("SIGTERM");
  await ended;
}

async function call(url, method, path, body, headers = {}) {
  const response = await fetch(url + path, {
    method, body: body && JSON.stringify(body), headers: { ...(body && { "Content-Type": "application/json" }), ...headers },
  });
  if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${await response.text()}`);
  return response.json();
}

// Jobs in every state, and one of everything that has a page.
async function fill(url) {
  const enqueue = (job) => call(url, "POST", "/v1/jobs", job);
  for (let i = 0; i < 12; ++i) await enqueue({ queue: "photos", kind: "thumbnail", args: { path: `img-${i}.jpg`, big: 1 } });
  await enqueue({ queue: "mails", kind: "welcome", args: { text: HOSTILE }, tags: ["vip"], delay: "1h" });
  await enqueue({ queue: "mails", kind: "hostile", args: HOSTILE, headers: { note: HOSTILE } });
  const claimed = await call(url, "POST", "/v1/claim", { worker: "w-1", queues: ["photos"], max: 3, lease: "10m" });
  const [first, second] = claimed.jobs;
  await call(url, "POST", "/v1/finish", {
    worker: "w-1",
    results: [
      { id: first.id, token: first.token, outcome: "complete", result: { ok: true, note: HOSTILE } },
      { id: second.id, token: second.token, outcome: "dead", reason: "failed", description: `ValueError: ${HOSTILE}` },
    ],
  });
  await call(url, "PUT", "/v1/schedules/nightly", {
    cron: "0 3 * * *", time_zone: "Europe/Berlin", job: { queue: "reports", kind: "report" },
  });
  await call(url, "PUT", "/v1/breakers/api", { failures: 3 });
  await call(url, "POST", "/v1/breakers/api/open", {});
  await call(url, "POST", "/v1/leases/report%2Feu/acquire", { holder: "h-1", ttl: "10m" });
  return { dead: String(second.id), done: String(first.id) };
}

const browser = await chromium.launch({ executablePath, args: ["--no-sandbox", "--disable-dev-shm-usage"] });

// A page that reports whatever goes wrong in it.
async function open(url, { width = 1280, scheme = "light" } = {}) {
  const context = await browser.newContext({ viewport: { width, height: 900 }, colorScheme: scheme, bypassCSP: false });
  const page = await context.newPage();
  const problems = [];
  page.on("pageerror", (error) => problems.push(`error: ${error.message}`));
  page.on("console", (message) => {
    const text = message.text();
    const expected = /status of (401|404)/.test(text); // a page asks for what may not be there
    if (message.type() === "error" && !expected) problems.push(`console: ${text}`);
  });
  return { context, page, problems, go: (hash) => page.goto(`${url}/ui/#/${hash}`) };
}

const ready = (page) => page.waitForFunction(() => document.querySelector("main h1") && !document.querySelector(".loading"), null, { timeout: 15_000 });

async function violations(page) {
  // Through the debugger, which the page's own rules do not bind.
  await page.evaluate(axeSource);
  const result = await page.evaluate(() => window.axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21aa", "wcag22aa"] }));
  return result.violations.map((one) => `${one.id}: ${one.nodes.slice(0, 3).map((node) => node.target.join(" ")).join("; ")}`);
}

const local = await startServer("local");
try {
  const ids = await fill(local.url);
  const pages = [
    "", "jobs", "jobs?state=dead", `jobs/${ids.dead}`, `jobs/${ids.done}`, "queues", "queues/photos", "errors", "workers", "schedules",
    "schedules/nightly", "timers", "triggers", "workflows", "sessions", "locks", "breakers", "quarantine", "folders", "audit",
    "tokens", "system", "nowhere",
  ];
  for (const [width, scheme] of [[1280, "light"], [360, "dark"]]) {
    const { context, page, problems, go } = await open(local.url, { width, scheme });
    for (const name of pages) {
      await go(name);
      await ready(page);
      const label = `${name || "overview"} at ${width}, ${scheme}`;
      const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      check(wide <= 0, `${label}: the page is ${wide} pixels wider than the screen`);
      for (const text of await violations(page)) check(false, `${label}: ${text}`);
      check(await page.evaluate(() => window.hacked === undefined), `${label}: a hostile value was executed`);
      await page.screenshot({ path: join(screenshots, `${(name || "overview").replace(/\W+/g, "_")}_${width}.png`), fullPage: true });
    }
    for (const text of problems) check(false, `${width}: ${text}`);
    passed += pages.length;
    await context.close();
  }

  const { context, page, problems, go } = await open(local.url);
  // Live: a change by another program is visible without a reload.
  await go("jobs?queue=photos&state=available");
  await ready(page);
  await call(local.url, "POST", "/v1/jobs", { queue: "photos", kind: "thumbnail" });
  await page.getByRole("button", { name: /1 new job/ }).waitFor({ timeout: 5_000 });
  check(true, "");
  // Keyboard: from anywhere to a job that waits, and its reason.
  await call(local.url, "PUT", "/v1/queues/slow/limits", { concurrency: 1 });
  const waiting = await call(local.url, "POST", "/v1/jobs", { jobs: [{ queue: "slow", kind: "a" }, { queue: "slow", kind: "b" }] });
  await call(local.url, "POST", "/v1/claim", { worker: "w-2", queues: ["slow"], max: 1, lease: "10m" });
  const second = String(waiting.jobs[1].id);
  await go("");
  await ready(page);
  await page.keyboard.press("Control+k");
  await page.getByRole("combobox", { name: /Go to/ }).waitFor();
  await page.keyboard.type(second);
  await page.keyboard.press("Enter");
  await page.getByText(/concurrency|at once|slots?/i).first().waitFor({ timeout: 5_000 });
  check(page.url().endsWith(`#/jobs/${second}`), "Ctrl-K and an id lead to the job");
  // Actions: cancel asks first, then acts; the page follows by itself.
  await page.getByRole("button", { name: "Cancel", exact: true }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Cancel", exact: true }).last().click();
  await page.locator(".page-head .state-cancelled").waitFor({ timeout: 5_000 });
  check((await call(local.url, "GET", `/v1/jobs/${second}`)).state === "cancelled", "the cancel reached the server");
  // A dead job runs again.
  await go(`jobs/${ids.dead}`);
  await page.getByRole("button", { name: "Retry", exact: true }).click();
  await page.locator(".page-head .state-available").waitFor({ timeout: 5_000 });
  // A job from the form keeps a 64-bit integer.
  await go("jobs");
  await page.getByRole("button", { name: "New job" }).click();
  await page.getByLabel("Kind").last().fill("big");
  await page.getByRole("dialog").locator("textarea").fill('{"n":9223372036854775807}');
  await page.getByRole("button", { name: "Enqueue" }).click();
  await page.waitForURL(/#\/jobs\/\d+$/);
  await page.getByText("9223372036854775807").first().waitFor({ timeout: 5_000 });
  check(true, "");
  // Pause and resume a queue.
  await go("queues/photos");
  await page.getByRole("button", { name: "Pause", exact: true }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Pause", exact: true }).click();
  await page.locator(".page-head .state-paused").waitFor({ timeout: 5_000 });
  await page.getByRole("button", { name: "Resume", exact: true }).click();
  await page.locator(".page-head .state-paused").waitFor({ state: "detached", timeout: 5_000 });
  check(true, "");
  // Back leads to the page before; filters survive a reload.
  await go("jobs?state=dead&queue=photos");
  await page.reload();
  await ready(page);
  check((await page.getByLabel("Queue", { exact: true }).first().inputValue()) === "photos", "the filter survives a reload");
  for (const text of problems) check(false, text);
  await context.close();
} finally {
  await stopServer(local);
}

// With tokens: sign in, see what the scopes allow, sign out.
spawnSync(mainspring, ["token", "create", "anna", "--scope", "read", "--data", join(scratch, "tokens")], { encoding: "utf8" });
const made = spawnSync(mainspring, ["token", "create", "bert", "--scope", "read", "--data", join(scratch, "tokens"), "--json"], { encoding: "utf8" });
const token = /mst_[A-Za-z0-9_-]+/.exec(made.stdout)?.[0] ?? "";
check(token !== "", `a token is created: ${made.stdout} ${made.stderr}`);
const guarded = await startServer("tokens", ["--require-token"]);
try {
  const { context, page, go } = await open(guarded.url);
  await go("");
  await page.getByLabel("Access token").fill("mst_wrong");
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByText(/not valid/).waitFor({ timeout: 5_000 });
  await page.getByLabel("Access token").fill(token);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("heading", { name: "Overview" }).waitFor({ timeout: 5_000 });
  const cookies = await context.cookies();
  check(cookies.some((one) => one.name === "mainspring_session" && one.httpOnly && one.sameSite === "Strict"), "the session is a cookie that scripts cannot read");
  check(await page.evaluate((text) => !JSON.stringify({ ...localStorage }).includes(text) && !document.cookie.includes(text), token), "the token is nowhere else");
  await go("tokens");
  await page.getByText(/Not allowed/).waitFor({ timeout: 5_000 });
  await page.getByRole("button", { name: /Sign out/ }).click();
  await page.getByLabel("Access token").waitFor({ timeout: 5_000 });
  check((await context.cookies()).every((one) => one.name !== "mainspring_session"), "signing out removes the cookie");
  await context.close();
} finally {
  await stopServer(guarded);
}

await browser.close();
rmSync(scratch, { recursive: true, force: true });
writeFileSync(join(work, "browser_test.txt"), failures.join("\n"));
console.log(`${passed} passed, ${failures.length} failed`);
process.exit(failures.length === 0 ? 0 : 1);

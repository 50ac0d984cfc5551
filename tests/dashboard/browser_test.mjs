// browser_test.mjs WORK MAINSPRING [STORE OPTION…]: opens every page of the dashboard in Chromium against a real server.
// WORK/node_modules has playwright-core and axe-core. Screenshots are kept in WORK/screenshots.
// With options that name a store, only the flows run: pages look the same on every store.
import { spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { createServer, request as forward } from "node:http";
import { join } from "node:path";

import { FLOWS } from "./flows.mjs";
import { call, check, fill, jobFolders, open, ready, results, setUp, startServer, stopServer, violations } from "./support.mjs";
import { tasks } from "./tasks.mjs";
import { withoutPayloads } from "./token_flows.mjs";

const [work, mainspring, ...storeOptions] = process.argv.slice(2);
const t = setUp(work, mainspring, storeOptions);
const whole = storeOptions.length === 0;
const browser = await t.launch();

// Set once the server is known: pages that need a search are left out where it has none.
let searches = true;
const pagesWith = (ids) => allPages(ids).filter((name) => searches || !/keys|dead,retryable/.test(name));
const allPages = (ids) => [
  "", "?range=7d", "jobs", "jobs?state=dead,retryable&within=24h", `jobs/${ids.dead}`, `jobs/${ids.twice}`, `jobs/${ids.done}`,
  `jobs/${ids.dead}/compare/${ids.twice}`, "queues", "queues/photos", "queues/photos/keys/acme", "errors", "workers", "schedules", "schedules?span=7d",
  "schedules/nightly", "timers", "triggers", "triggers/orders", "workflows", "workflows/1", "sessions?queue=chat&key=s-1", "locks", "breakers",
  "quarantine", "folders", "folders/triggered/report", "audit", "tokens", "system", "nowhere",
];

// The list of what happens now has a row.
async function anEvent(page, url) {
  await page.getByText("Live").waitFor();
  await call(url, "POST", "/v1/jobs", { queue: "photos", kind: "thumbnail" });
  await page.locator(".activity a").first().waitFor();
}

// Every page, narrow and wide, light and dark.
async function sweep(url, ids) {
  for (const [width, scheme] of [[1280, "light"], [360, "dark"]]) {
    const { context, page, problems, go } = await open(browser, url, { width, scheme });
    for (const name of pagesWith(ids)) {
      await go(name);
      await ready(page);
      if (name === "") await anEvent(page, url);
      const label = `${name || "overview"} at ${width}, ${scheme}`;
      const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      check(wide <= 0, `${label}: the page is ${wide} pixels wider than the screen`);
      const cut = await page.locator(".table-frame").evaluateAll((all) => all.filter((one) => one.scrollWidth > one.clientWidth).map((one) => one.scrollWidth - one.clientWidth));
      check(cut.length === 0, `${label}: a table is ${cut} pixels wider than its frame`);
      for (const text of await violations(t, page)) check(false, `${label}: ${text}`);
      check(await page.evaluate(() => window.hacked === undefined), `${label}: a hostile value was executed`);
      await page.screenshot({ path: join(t.screenshots, `${(name || "overview").replace(/\W+/g, "_")}_${width}_${scheme}.png`), fullPage: true });
    }
    await go("jobs");
    await ready(page);
    const opened = async (label) => {
      for (const text of await violations(t, page)) check(false, `${label} at ${width}, ${scheme}: ${text}`);
      await page.screenshot({ path: join(t.screenshots, `open_${label}_${width}_${scheme}.png`) });
      await page.keyboard.press("Escape");
    };
    await page.keyboard.press("Control+k");
    await page.getByRole("combobox", { name: /Go to/ }).waitFor();
    await opened("palette");
    await page.getByRole("combobox", { name: "Search jobs" }).fill("st");
    await page.getByRole("option", { name: /state:/ }).waitFor();
    await opened("completion");
    await page.getByRole("button", { name: "New job" }).click();
    await opened("dialog");
    await page.getByRole("button", { name: "New job" }).click();
    await page.locator("dialog textarea").fill('{"order":4711,"note":"a","express":true,"lines":[1,2]}');
    await page.getByRole("button", { name: "Edit as fields" }).click();
    await opened("fields");
    await page.getByText("Columns").click();
    await opened("menu");
    for (const text of problems) check(false, `${width}: ${text}`);
    await context.close();
  }
}

// The page says that the server is away, and reads again once it is back.
async function reconnect(server) {
  const { context, page, problems, go } = await open(browser, server.url);
  await go("queues");
  await ready(page);
  await page.getByText("Live").waitFor();
  const log = await open(browser, server.url);
  if (whole) {
    await log.go("folders/continuous/clock");
    await log.page.getByRole("log").getByText("the clock starts").waitFor();
  }
  await stopServer(server);
  await page.getByText(/Disconnected/).waitFor();
  if (whole) await log.page.getByRole("region", { name: "Log" }).getByText(/Disconnected/).waitFor();
  const again = await startServer(t, server.name, server.options, new URL(server.url).host);
  if (whole) await log.page.getByRole("log").getByText(/the clock starts[^]*the clock starts/).waitFor();
  await log.context.close();
  await call(again.url, "POST", "/v1/jobs", { queue: "while-away", kind: "k" });
  await page.getByRole("link", { name: "while-away" }).waitFor();
  await page.getByText("Live").waitFor();
  for (const text of problems) check(false, `reconnect: ${text}`);
  await context.close();
  return again;
}

// Behind a proxy that serves it below a path: all addresses are relative.
async function underPrefix(server) {
  const proxy = createServer((request, response) => {
    if (!request.url.startsWith("/jobs-of/eu/")) return void response.writeHead(404).end();
    const target = new URL(request.url.slice("/jobs-of/eu".length), server.url);
    const forwarded = forward(target, { method: request.method, headers: request.headers }, (answer) => {
      response.writeHead(answer.statusCode, answer.headers);
      answer.pipe(response);
    });
    forwarded.on("error", () => response.destroy());
    response.on("close", () => forwarded.destroy());
    request.pipe(forwarded);
  });
  await new Promise((resolve) => proxy.listen(0, "127.0.0.1", resolve));
  const { context, page, problems } = await open(browser, "");
  await page.goto(`http://127.0.0.1:${proxy.address().port}/jobs-of/eu/`);
  await page.getByRole("heading", { name: "Overview" }).waitFor();
  check(new URL(page.url()).pathname === "/jobs-of/eu/ui/", `the root leads to the dashboard below the prefix: ${page.url()}`);
  await page.getByText("Live").waitFor();
  await page.getByRole("link", { name: "Queues", exact: true }).first().click();
  await page.getByRole("button", { name: "Pause mails" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Pause", exact: true }).click();
  await page.getByRole("button", { name: "Resume mails" }).click();
  await page.getByRole("button", { name: "Pause mails" }).waitFor();
  for (const text of problems) check(false, `below a prefix: ${text}`);
  await context.close();
  proxy.closeAllConnections();
  proxy.close();
}

let local = await startServer(t, "local", whole ? ["--jobs", jobFolders(t), ...(process.getuid() === 0 ? ["--jobs-user", "root"] : [])] : []);
try {
  const ids = await fill(local.url);
  const paths = Object.keys((await call(local.url, "GET", "/openapi.json")).paths);
  searches = paths.includes("/v1/bulk");
  if (whole) await sweep(local.url, ids);
  const { context, page, problems, go } = await open(browser, local.url);
  const needs = { search: "/v1/bulk", views: "/v1/views", charts: "/v1/history", schedules: "/v1/upcoming", workers: "/v1/upcoming", oneJob: "/v1/jobs/{id}/clone", queues: "/v1/upcoming" };
  for (const [name, flow] of Object.entries(FLOWS)) {
    if (needs[name] && !paths.includes(needs[name])) continue;
    try {
      await flow({ browser, page, go, url: local.url, ids });
      check(true, "");
    } catch (problem) {
      await page.screenshot({ path: join(t.screenshots, `failed_${name}.png`) });
      check(false, `${name}: ${problem.message.split("\n").slice(0, 12).join(" ")}`);
      await page.keyboard.press("Escape");
    }
  }
  for (const text of problems) check(false, text);
  await context.close();
  if (whole) await underPrefix(local);
  local = await reconnect(local);
} finally {
  await stopServer(local);
}

// -- with tokens: sign in, see what the scopes allow, sign out

const newToken = (name, ...scopes) => {
  const flags = scopes.flatMap((scope) => ["--scope", scope]);
  const made = spawnSync(mainspring, ["token", "create", name, ...flags, "--data", join(t.scratch, "tokens"), "--json"], { encoding: "utf8" });
  const token = /mst_[A-Za-z0-9_-]+/.exec(made.stdout)?.[0] ?? "";
  check(token !== "", `a token is created: ${made.stdout} ${made.stderr}`);
  return token;
};

async function signIn(page, token) {
  await page.getByLabel("Access token").fill(token);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("heading", { name: "Overview" }).waitFor();
}

// A reader cannot press a button that the server would refuse; each of these says which scope it needs.
const HARMLESS = /^(Copy|Search|Filter|Compare|Refresh|Show as table|Hide table|Try again)$/;
async function nothingToChange(page, name) {
  check(await page.getByText("Read only").isVisible(), `${name}: a reader sees that the token is read-only`);
  const buttons = await page.locator("main button.button").evaluateAll((all) =>
    all.map((one) => ({ text: one.textContent.trim(), off: one.disabled, title: one.title })));
  for (const { text, off, title } of buttons) {
    if (off) check(/needs the scope/.test(title), `${name}: "${text}" says which scope it needs: ${title}`);
    else check(HARMLESS.test(text), `${name}: "${text}" is enabled for a reader`);
  }
}

// A token for one queue may change that queue alone.
async function oneQueueOnly(url, token) {
  const { context, page, go } = await open(browser, url);
  await context.request.post(`${url}/v1/session`, { headers: { Authorization: `Bearer ${token}` } });
  await go("queues");
  await ready(page);
  check(await page.getByRole("button", { name: "Pause mails" }).isEnabled(), "admin=mails may pause mails");
  const other = page.getByRole("button", { name: "Pause photos" });
  check((await other.isDisabled()) && (await other.getAttribute("title")) === "Your token needs the scope admin for photos.", "but not photos");
  await go("jobs?state=available");
  await ready(page);
  const retry = page.getByRole("toolbar").getByRole("button", { name: "Retry", exact: true });
  await page.locator("tbody tr", { hasText: "mails" }).locator("input").first().check();
  await retry.click();
  await page.getByRole("dialog").getByRole("heading", { name: "Retry: 0 jobs" }).waitFor(); // an available job needs no retry
  await page.keyboard.press("Escape");
  await page.getByLabel("Select all jobs of this page").check();
  check((await retry.isDisabled()) && /needs the scope admin/.test(await retry.getAttribute("title")), "jobs of other queues cannot be retried with it");
  for (const [queue, allowed] of [["mails", true], ["photos", false]]) {
    await go(`queues/${queue}`);
    await page.getByRole("heading", { name: queue, level: 1 }).waitFor();
    await ready(page); // the page's commands are known once it is loaded
    await page.keyboard.press("Control+k");
    await page.getByRole("combobox", { name: /Go to/ }).fill("retention");
    await page.getByRole("option", { name: /Search jobs/ }).waitFor();
    check(((await page.getByRole("option", { name: "Edit retention" }).count()) > 0) === allowed, `the palette offers to change ${queue}: ${allowed}`);
    await page.keyboard.press("Escape");
  }
  // A redrive names the queue, which the server asks of this token.
  await go("errors");
  await page.getByRole("button", { name: "Redrive" }).first().click();
  await page.getByRole("dialog").getByText("1 job of mails died with this error and is dead now.").waitFor();
  await page.getByRole("dialog").getByRole("button", { name: "Redrive", exact: true }).click();
  await page.getByText(/^Job \d+ redrives them$/).waitFor();
  await context.close();
}

// Each page shows its data, or that the token does not allow it; no page breaks.
async function everyPageAs(url, token, who) {
  const { context, page, problems, go } = await open(browser, url);
  await go("");
  await signIn(page, token);
  for (const name of pagesWith({ dead: "1", twice: "2", done: "3" })) {
    await go(name);
    await page.waitForFunction(() => !document.querySelector(".loading"));
    check((await page.locator("main").textContent()).length > 10, `${name} for ${who}: the page is not empty`);
    if (who === "reader") await nothingToChange(page, name);
  }
  for (const text of problems) check(false, `${who}: ${text}`);
  await context.close();
}

async function withTokens() {
  const reader = newToken("anna", "read");
  const admin = newToken("carla", "admin", "read", "read:payload", "enqueue", "schedule", "work", "lease");
  const producer = newToken("dora", "enqueue=mails");
  const support = newToken("emil", "read", "admin=mails");
  const operator = newToken("fritz", "read", "admin", "enqueue", "schedule");
  const guarded = await startServer(t, "tokens", ["--require-token"]);
  try {
    await call(guarded.url, "POST", "/v1/jobs", { queue: "mails", kind: "k", args: { secret: "xyzzy" } }, { Authorization: `Bearer ${admin}` });
    const { context, page, go } = await open(browser, guarded.url);
    await page.goto(`${guarded.url}/`); // leads to the dashboard
    await page.getByLabel("Access token").fill("mst_wrong");
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.getByText(/not valid/).waitFor();
    await signIn(page, reader);
    const cookie = (await context.cookies()).find((one) => one.name === "mainspring_session");
    check(cookie?.httpOnly && cookie.sameSite === "Strict", "the session is a cookie that scripts cannot read");
    check(cookie && !cookie.value.includes(reader), "the cookie is not the token");
    check(await page.evaluate((text) => !JSON.stringify({ ...localStorage }).includes(text) && !document.cookie.includes(text), reader), "the token is nowhere else");
    await go("tokens");
    await page.getByText(/Not allowed/).waitFor();
    await go("jobs/1");
    await page.getByText(/read:payload/).first().waitFor();
    check(!(await page.content()).includes("xyzzy"), "args are hidden without read:payload");
    await page.getByRole("button", { name: /Sign out/ }).click();
    await page.getByLabel("Access token").waitFor();
    check((await context.cookies()).every((one) => one.name !== "mainspring_session"), "signing out removes the cookie");
    await context.close();
    await call(guarded.url, "POST", "/v1/jobs", { queue: "photos", kind: "k" }, { Authorization: `Bearer ${admin}` });
    await call(guarded.url, "POST", "/v1/jobs", { queue: "mails", kind: "dies" }, { Authorization: `Bearer ${admin}` });
    const { jobs } = await call(guarded.url, "POST", "/v1/claim", { worker: "w", queues: ["mails"], max: 2, lease: "10m" }, { Authorization: `Bearer ${admin}` });
    const dies = jobs.map(({ id, token }) => ({ id, token, outcome: "dead", reason: "failed", description: "no" })).slice(1);
    await call(guarded.url, "POST", "/v1/finish", { worker: "w", results: dies }, { Authorization: `Bearer ${admin}` });
    await call(guarded.url, "POST", "/v1/jobs", { queue: "mails", kind: "waits" }, { Authorization: `Bearer ${admin}` });
    await oneQueueOnly(guarded.url, support);
    await withoutPayloads(browser, guarded.url, operator, admin);
    for (const [who, token] of Object.entries({ reader, admin, producer })) await everyPageAs(guarded.url, token, who);
  } finally {
    await stopServer(guarded);
  }
}
if (whole) await withTokens();
if (whole) await tasks(t, browser);

await browser.close();
t.cleanUp();
writeFileSync(join(work, "browser_test.txt"), results.failures.join("\n"));
console.log(`${results.passed} passed, ${results.failures.length} failed`);
process.exit(results.failures.length === 0 ? 0 : 1);

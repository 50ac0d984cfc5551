// What breaks dashboards elsewhere: names with reserved characters, a wrong clock, plain HTTP, a theme that arrives late.
import { call, check, open, openRequests, ready } from "./support.mjs";

const ODD = "a/b?c=1&d#e%20f é'\"<b>";

// Names with characters that an address reserves lead to their pages.
export async function oddNames({ page, go, url }) {
  const queue = "eu/orders.v2:hot";
  await call(url, "POST", "/v1/jobs", { queue, kind: "k", limit_key: ODD, tags: ["a&b=c#d"], correlation_id: ODD });
  await call(url, "PUT", "/v1/schedules/eu%2Fnightly:1", { cron: "0 4 * * *", job: { queue, kind: "k" } });
  await go("queues");
  await page.getByRole("link", { name: queue, exact: true }).click();
  await page.getByRole("heading", { name: queue, level: 1 }).waitFor();
  await page.getByText("Limit keys", { exact: true }).click();
  await page.getByRole("link", { name: ODD, exact: true }).click();
  await page.getByRole("heading", { name: ODD, level: 1 }).waitFor();
  await page.getByText(/Why does job \d+ wait/).waitFor();
  await page.getByRole("link", { name: "Jobs with this key" }).click();
  await page.locator("tbody tr").first().waitFor();
  check((await page.locator("tbody tr").count()) === 1, "a search by a limit key with reserved characters finds its job");
  await page.locator("tbody tr").getByRole("link").first().click();
  const fact = (label) => page.locator(".facts > div", { has: page.getByText(label, { exact: true }) }).getByRole("link");
  await fact("Correlation id").waitFor();
  for (const label of ["Correlation id", "Tags"]) {
    await fact(label).click();
    await page.waitForURL(/#\/jobs\?/);
    await page.locator("tbody tr").first().waitFor();
    check((await page.locator("tbody tr").count()) === 1, `${label} with reserved characters: the job is found`);
    await page.goBack();
    await fact(label).waitFor();
  }
  await go("schedules");
  await page.locator("tbody").getByRole("link", { name: "eu/nightly:1" }).click();
  await page.getByRole("heading", { name: "eu/nightly:1", level: 1 }).waitFor();
}

// A browser whose clock is an hour slow shows no negative times.
export async function wrongClock({ browser, url, ids }) {
  const { context, page, problems, go } = await open(browser, url);
  await page.clock.install({ time: Date.now() - 3_600_000 });
  for (const name of [`jobs/${ids.dead}`, `jobs/${ids.twice}`, "workers", "queues", "jobs", "overview"]) {
    await go(name === "overview" ? "" : name);
    await ready(page);
    const text = await page.locator("main").innerText();
    check(!/(^|\s)[-−]\d+(\.\d+)? (ms|s|m|h|d)\b/.test(text), `${name}: no negative time: ${/.{20}[-−]\d+(\.\d+)? (ms|s|m|h|d)\b/.exec(text)}`);
  }
  for (const text of problems) check(false, `wrong clock: ${text}`);
  await context.close();
}

// Over plain HTTP a browser has no clipboard API; copied text is still complete.
export async function copying({ browser, url }) {
  const { context, page, go } = await open(browser, url);
  await page.addInitScript(() => Object.defineProperty(navigator, "clipboard", { value: undefined }));
  const job = await call(url, "POST", "/v1/jobs", { queue: "copied", kind: "k", args: { text: "copied <b>as it is</b>" } });
  await go(`jobs/${job.id}`);
  await page.getByRole("region", { name: "Args" }).first().getByRole("button", { name: "Copy" }).click();
  await page.getByText("Copied", { exact: true }).waitFor();
  await go("jobs");
  await ready(page);
  await page.getByRole("combobox", { name: "Search jobs" }).focus();
  await page.keyboard.press("Control+v");
  const pasted = await page.getByRole("combobox", { name: "Search jobs" }).inputValue();
  check(pasted.includes('"text": "copied <b>as it is</b>"'), `the args are in the clipboard: ${pasted}`);
  await context.close();
}

// A chosen dark theme is there at the first paint, also while the script is slow: no white flash.
export async function noFlash({ browser, url }) {
  const { context, page, go } = await open(browser, url, { scheme: "light" });
  await page.addInitScript(() => localStorage.setItem("mainspring-ui", '{"theme":"dark"}'));
  await page.route("**/ui/app.js", async (route) => {
    const answer = await route.fetch();
    await page.waitForTimeout(300); // the network is slow, the page is not waited for
    await route.fulfill({ response: answer }).catch(() => {}); // the page has left
  });
  await go("queues");
  await ready(page);
  const { paint, script } = await page.evaluate(() => ({
    paint: performance.getEntriesByName("first-paint")[0]?.startTime,
    script: performance.getEntriesByType("resource").find((one) => one.name.endsWith("app.js")).responseEnd,
  }));
  check(paint >= script, `the first paint (${Math.round(paint)} ms) follows the script (${Math.round(script)} ms)`);
  check((await page.evaluate(() => getComputedStyle(document.body).backgroundColor)) === "rgb(18, 22, 28)", "and is dark");
  await context.close();
}

// Typed times are in the zone that the viewer chose, as are those that are shown.
export async function zones({ browser, url }) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, timezoneId: "Asia/Tokyo" });
  const page = await context.newPage();
  await page.goto(`${url}/ui/#/jobs?from=2026-01-31T00:00:00.000Z`);
  await ready(page);
  const from = page.locator(".filters").getByLabel(/^from/);
  check((await from.inputValue()) === "2026-01-31T09:00", `local time is shown: ${await from.inputValue()}`);
  await page.getByRole("combobox", { name: "Times" }).selectOption("utc");
  await page.waitForFunction(() => document.querySelector('input[type="datetime-local"]').value === "2026-01-31T00:00");
  await from.fill("2026-02-01T12:30");
  await from.blur();
  await page.waitForURL(/from=2026-02-01T12%3A30%3A00\.000Z/);
  await page.getByRole("combobox", { name: "Times" }).selectOption("local");
  await page.waitForFunction(() => document.querySelector('input[type="datetime-local"]').value === "2026-02-01T21:30");
  await context.close();
}

// On a slow network the page that was chosen last stays, whatever answers arrive late.
export async function slowNetwork({ page, go }) {
  await go("");
  await ready(page);
  const late = [];
  await page.route(/\/v1\/(queues|schedules|workers)(\?|$)/, (route) => void late.push(route));
  for (const name of ["Queues", "Schedules", "Workers", "Tokens"]) await page.getByRole("navigation", { name: "Pages" }).getByRole("link", { name, exact: true }).click();
  await page.getByRole("heading", { name: "Tokens", level: 1 }).waitFor();
  await page.unroute(/\/v1\/(queues|schedules|workers)(\?|$)/);
  check(late.length >= 3, "the answers of the other pages are late");
  for (const route of late.reverse()) await route.continue().catch(() => {}); // a page that was left has given up its request
  await page.getByRole("navigation", { name: "Pages" }).getByRole("link", { name: "Queues", exact: true }).click();
  await page.getByRole("heading", { name: "Queues", level: 1 }).waitFor();
  await page.locator("tbody tr").first().waitFor();
  check(/#\/queues$/.test(page.url()), "at its address");
}

// What happens between the first read of a page and the start of its event stream is shown.
export async function lateStream({ page, go, url }) {
  const { id } = await call(url, "POST", "/v1/jobs", { queue: "late", kind: "k" });
  const { jobs } = await call(url, "POST", "/v1/claim", { worker: "w-late", queues: ["late"], lease: "10m" });
  const held = [];
  await page.route("**/v1/events", (route) => void held.push(route));
  await go(`jobs/${id}`);
  await page.reload();
  await page.locator(".page-head .state-running").waitFor();
  await call(url, "POST", "/v1/finish", { worker: "w-late", results: [{ id, token: jobs[0].token, outcome: "complete" }] });
  for (const route of held) await route.continue().catch(() => {}); // the first one ended with the reload
  await page.unroute("**/v1/events");
  await page.locator(".page-head .state-completed").waitFor();
  check(true, "");
}

// What is not there has a heading and a title, and says so.
export async function missing({ page, go }) {
  for (const [hash, title] of [["queues/nowhere", "nowhere"], ["schedules/never", "never"], ["triggers/none", "none"], ["workflows/987654", "Workflow 987654"]]) {
    await go("queues");
    await ready(page);
    await go(hash);
    await page.getByRole("heading", { name: title, level: 1 }).waitFor();
    await page.getByText("Not found.").waitFor();
    check((await page.title()).startsWith(title), `the tab of ${hash} has the title ${await page.title()}`);
  }
}

// A schedule that fires once says when, in the viewer's choice of zone.
export async function onceInZone({ browser, url }) {
  await call(url, "PUT", "/v1/schedules/once", { at: "2031-05-06T22:30:00Z", job: { queue: "once", kind: "k" } });
  const context = await browser.newContext({ timezoneId: "Asia/Tokyo" });
  const page = await context.newPage();
  page.setDefaultTimeout(30_000);
  await page.goto(`${url}/ui/#/schedules`);
  const row = page.locator("tbody tr", { hasText: "once" });
  await row.getByText(/once, at 2031-05-07 07:30:00/).waitFor();
  await page.getByRole("combobox", { name: "Times" }).selectOption("utc");
  await row.getByText(/once, at 2031-05-06 22:30:00 UTC/).waitFor();
  await call(url, "DELETE", "/v1/schedules/once");
  await context.close();
  check(true, "");
}

// What another person changes is shown without any action of the viewer.
export async function otherPerson({ browser, url }) {
  const { context, page, go } = await open(browser, url);
  await call(url, "POST", "/v1/jobs", { queue: "other", kind: "k" });
  const lock = await call(url, "POST", "/v1/leases/other%2Fkept/acquire", { holder: "web-8", ttl: "10m" });
  const changes = [
    ["locks", () => call(url, "POST", "/v1/leases/other%2Flock/acquire", { holder: "web-9", ttl: "10m" }), "other/lock"],
    ["breakers", () => call(url, "PUT", "/v1/breakers/other-breaker", { failures: 3 }), "other-breaker"],
    ["schedules", () => call(url, "PUT", "/v1/schedules/other-schedule", { cron: "0 4 1 1 *", job: { queue: "other", kind: "k" } }), "other-schedule"],
    ["schedules/other-schedule", () => call(url, "POST", "/v1/schedules/other-schedule/pause", { reason: "a stranger" }), "a stranger"],
    ["queues/other", () => call(url, "POST", "/v1/queues/other/pause", { reason: "other person" }), "other person"],
    ["queues/other", () => call(url, "PUT", "/v1/queues/other/limits", { concurrency: 7919 }), "7919"],
  ];
  for (const [name, change, shown] of changes) {
    await go(name);
    await ready(page);
    await page.getByText("Live").waitFor();
    await change();
    await page.getByText(shown).first().waitFor();
    check(true, "");
  }
  await go("locks");
  await page.getByText("other/kept").waitFor();
  await page.getByText("Live").waitFor();
  await call(url, "POST", "/v1/leases/other%2Fkept/release", { holder: "web-8", token: lock.token });
  await page.getByText("web-8").waitFor({ state: "detached" });
  await call(url, "DELETE", "/v1/breakers/other-breaker");
  await call(url, "DELETE", "/v1/schedules/other-schedule");
  await context.close();
}

// The windows of a browser share one event stream: a browser has six connections to a server. When the window that has
// the stream closes, another one opens it.
export async function oneStream({ browser, url }) {
  const { context, page } = await open(browser, url);
  const pages = [page];
  while (pages.length < 8) pages.push(await context.newPage());
  const counts = pages.map((one) => openRequests(one, /\/v1\/events/));
  const streams = () => counts.reduce((sum, one) => sum + one(), 0);
  for (const one of pages) {
    await one.goto(`${url}/ui/#/queues`);
    await one.getByText("Live").waitFor({ timeout: 30_000 });
  }
  check(streams() === 1, `8 windows have ${streams()} event streams`);
  const seenByAll = async (queue, some) => {
    await call(url, "POST", "/v1/jobs", { queue, kind: "k" });
    for (const one of some) await one.getByRole("link", { name: queue }).waitFor({ timeout: 30_000 });
  };
  await seenByAll("eight-windows", pages);
  const [leader] = pages.filter((_, i) => counts[i]() === 1);
  await leader.close();
  const rest = pages.filter((one) => one !== leader);
  await seenByAll("seven-windows", rest);
  for (const one of rest) await one.getByText("Live").waitFor();
  check(streams() === 1, `7 windows have ${streams()} event streams`);
  await context.close();
}

// A hidden window has no stream of a log, and continues where it stopped.
export async function hiddenLog({ browser, url }) {
  const { jobs: folders } = await call(url, "GET", "/v1/host/jobs").catch(() => ({ jobs: [] }));
  if (folders.length === 0) return; // only one of the stores is tested with job folders
  const { context, page, go } = await open(browser, url);
  const streams = openRequests(page, /follow=true/);
  const hide = (hidden) =>
    page.evaluate((value) => {
      Object.defineProperty(document, "hidden", { value, configurable: true });
      document.dispatchEvent(new Event("visibilitychange"));
    }, hidden);
  const settles = async (n, text) => {
    const until = performance.now() + 30_000;
    while (streams() !== n && performance.now() < until) await page.evaluate(() => new Promise(requestAnimationFrame));
    check(streams() === n, `${text}: ${streams()} streams`);
  };
  await go("folders/continuous/clock");
  const log = page.getByRole("log");
  await log.getByText("the clock starts").waitFor();
  await settles(1, "a visible log");
  const before = await log.textContent();
  await hide(true);
  await settles(0, "a hidden log");
  await hide(false);
  await settles(1, "a log that is visible again");
  check((await log.textContent()) === before, "nothing is repeated");
  await context.close();
}

// A folder that has not run has neither a history nor a log, and no error; its run is followed to its end.
export async function unusedFolder({ page, go, url }) {
  const { jobs: folders } = await call(url, "GET", "/v1/host/jobs").catch(() => ({ jobs: [] }));
  if (folders.length === 0) return; // only one of the stores is tested with job folders
  await go("folders/triggered/unused");
  await page.getByText("Nothing is written yet.").waitFor();
  const runs = page.getByRole("region", { name: "Runs" });
  await runs.getByText("never ran").waitFor();
  check((await page.locator("main").getByRole("alert").count()) === 0, "a folder that never ran is no error");
  await call(url, "POST", "/v1/host/jobs/triggered/unused/run", {});
  await runs.locator(".state-success").waitFor();
}

// A workflow with 1,000 steps is listed, without a graph that the browser could not draw in time.
export async function manySteps({ page, go, url }) {
  const steps = Array.from({ length: 1000 }, (_, i) => ({ name: `step-${i}`, ...(i > 0 && { after: [`step-${i - 1}`] }), job: { queue: "wf", kind: "k" } }));
  const { id } = await call(url, "POST", "/v1/workflows", { name: "long", steps });
  const from = Date.now();
  await go(`workflows/${id}`);
  await page.getByText("step-999", { exact: true }).waitFor();
  console.log(`1000 steps are drawn after ${Date.now() - from} ms`);
  check((await page.locator("tbody tr").count()) === 1000, "all steps are listed");
  check((await page.locator(".graph").count()) === 0, "a graph of that size is not drawn");
  await call(url, "POST", `/v1/workflows/${id}/cancel`);
}

// Jobs that wait while nothing happens fall behind, without a further read. What is shown of the last hour is read again
// when the viewer uses the page.
export async function quietBacklog({ browser, url }) {
  const { context, page } = await open(browser, url);
  await page.clock.install();
  await call(url, "POST", "/v1/jobs", { queue: "no-workers", kind: "k" });
  const queue = (await call(url, "GET", "/v1/queues")).queues.find((one) => one.name === "no-workers");
  await page.route("**/v1/queues", (route) => route.fulfill({ json: { queues: [{ ...queue, oldest_available_ms: 40, backlog: undefined }] } }));
  await page.goto(`${url}/ui/`);
  await ready(page);
  await page.getByText("Live").waitFor();
  const behind = page.getByRole("region", { name: "Queues that fall behind" });
  check((await behind.count()) === 0, "a queue that was just filled does not fall behind");
  const requests = [];
  page.on("request", (request) => requests.push(new URL(request.url()).pathname));
  await page.clock.runFor("00:30");
  await behind.getByRole("link", { name: "no-workers" }).waitFor();
  requests.length = 0;
  const read = page.waitForRequest(/\/v1\/history/);
  await page.keyboard.press("Shift");
  await page.clock.runFor("01:00");
  await read;
  for (const path of ["/v1/queues", "/readyz"]) check(requests.includes(path), `${path} is read again when the viewer uses the page`);
  await context.close();
}

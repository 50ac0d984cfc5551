// What a viewer does: each flow acts in the page and looks at the server.
import { call, check, open, ready } from "./support.mjs";

const dialogOf = (page) => page.getByRole("dialog");
// A field of the open dialog, by its label without the hint.
const field = (page, label) =>
  dialogOf(page).locator("label.field").filter({ has: page.locator(".field-label", { hasText: new RegExp(`^${label}$`) }) }).locator("input, textarea, select");
const press = (page, name) => page.getByRole("button", { name, exact: true }).first().click();

// Live: a change by another program is visible without a reload, and rows do not move.
async function live({ page, go, url }) {
  await go("jobs?queue=photos&state=available");
  await ready(page);
  const before = await page.locator("tbody tr").first().textContent();
  await call(url, "POST", "/v1/jobs", { queue: "photos", kind: "thumbnail" });
  await page.getByRole("button", { name: /1 new job/ }).waitFor();
  check((await page.locator("tbody tr").first().textContent()) === before, "new jobs do not move the rows");
}

// How soon a change by another program is visible, from the answer to the change to the changed page.
async function soon({ page, go, url }) {
  await go("queues");
  await ready(page);
  const times = [];
  for (let i = 1; i <= 5; ++i) {
    await call(url, "POST", "/v1/jobs", { queue: "soon", kind: "k" });
    const from = performance.now();
    await page.locator("tr", { hasText: "soon" }).getByRole("link", { name: String(i), exact: true }).waitFor();
    times.push(Math.round(performance.now() - from));
  }
  times.sort((a, b) => a - b);
  console.log(`a change is visible after ${times[2]} ms (median of ${times.join(", ")})`);
}

// Without traffic an open page asks for nothing, and a hidden one has no stream.
async function quiet({ url, browser }) {
  for (const name of ["", "jobs", "queues", "schedules", "workers"]) {
    const { context, page } = await open(browser, url);
    await page.clock.install();
    await page.goto(`${url}/ui/#/${name}`);
    await page.waitForFunction(() => document.querySelector("main h1") && !document.querySelector(".loading"));
    await page.getByText("Live").waitFor();
    const requests = [];
    page.on("request", (request) => requests.push(request.url()));
    await page.clock.runFor("05:00");
    check(requests.length === 0, `${name || "overview"} asks for nothing in 5 minutes without traffic: ${requests.slice(0, 3)}`);
    await page.evaluate(() => {
      Object.defineProperty(document, "hidden", { value: true, configurable: true });
      document.dispatchEvent(new Event("visibilitychange"));
    });
    await page.getByText("Live").waitFor({ state: "detached" });
    await context.close();
  }
}

// By keyboard alone: why job X waits, raise the limit, see it run.
async function keyboard({ page, go, url }) {
  await call(url, "PUT", "/v1/queues/slow/limits", { concurrency: 1 });
  const waiting = await call(url, "POST", "/v1/jobs", { jobs: [{ queue: "slow", kind: "a" }, { queue: "slow", kind: "b" }] });
  await call(url, "POST", "/v1/claim", { worker: "w-slow", queues: ["slow"], max: 1, lease: "10m" });
  const id = String(waiting.jobs[1].id);
  await go("");
  await ready(page);
  let keys = 0;
  const key = (name) => (++keys, page.keyboard.press(name));
  const type = async (text) => {
    for (const letter of text) await key(letter);
  };
  await key("Control+k");
  await page.getByRole("combobox", { name: /Go to/ }).waitFor();
  await type(id);
  await key("Enter");
  await page.getByText("Why is it not running?").waitFor();
  await page.locator(".why", { hasText: /concurrency|at once|slot|limit/i }).waitFor();
  await key("Control+k");
  await page.getByRole("combobox", { name: /Go to/ }).waitFor();
  await type("lim");
  await key("Enter");
  await field(page, "Jobs at once").waitFor();
  await type("2");
  await key("Enter");
  await dialogOf(page).waitFor({ state: "detached" });
  await call(url, "POST", "/v1/claim", { worker: "w-slow", queues: ["slow"], max: 1, lease: "10m" });
  await page.locator(".page-head .state-running").waitFor();
  check(keys <= 15, `why, raise the limit, see it run: ${keys} keystrokes, at most 15`);
}

// A job from the form keeps a 64-bit integer; it is changed, copied, cancelled, compared and deleted.
async function oneJob({ page, go, url, ids }) {
  await go("jobs");
  await press(page, "New job");
  await field(page, "Kind").fill("big");
  await dialogOf(page).locator("textarea").fill('{"n":9223372036854775807}');
  await press(page, "Enqueue");
  await page.waitForURL(/#\/jobs\/\d+$/);
  await page.getByText("9223372036854775807").first().waitFor();
  const id = page.url().split("/").pop();
  await press(page, "Edit");
  await field(page, "Priority").fill("2");
  await press(page, "Save");
  await dialogOf(page).waitFor({ state: "detached" });
  check((await call(url, "GET", `/v1/jobs/${id}`)).priority === 2, "an edit reaches the server");
  await press(page, "Run again with changed args");
  await dialogOf(page).locator("textarea").fill('{"n":1}');
  await press(page, "Enqueue");
  await page.waitForURL((address) => !address.hash.endsWith(`/${id}`));
  const copy = page.url().split("/").pop();
  check((await call(url, "GET", `/v1/jobs/${copy}`)).args.n === 1, "a copy has the changed args");
  await go(`jobs/${id}/compare/${copy}`);
  await page.locator(".diff-right", { hasText: '"n": 1' }).waitFor();
  await go(`jobs/${ids.twice}`);
  await page.getByText("Compare attempts").waitFor();
  await go(`jobs/${copy}`);
  await press(page, "Cancel");
  await dialogOf(page).getByRole("button", { name: "Cancel", exact: true }).last().click();
  await page.locator(".page-head .state-cancelled").waitFor();
  await press(page, "Delete");
  await dialogOf(page).getByRole("button", { name: "Delete", exact: true }).click();
  await page.waitForURL(/#\/jobs\?queue=/);
  check((await fetch(`${url}/v1/jobs/${copy}`)).status !== 200, "a deleted job is gone");
  await go(`jobs/${ids.dead}`);
  await press(page, "Retry");
  await page.locator(".page-head .state-available").waitFor();
}

// Search with completion; everything that matches is cancelled, counted before it runs.
async function search({ page, go, url }) {
  await call(url, "POST", "/v1/jobs", { jobs: Array.from({ length: 60 }, (_, i) => ({ queue: "bulk", kind: "k", args: { order: i } })) });
  await go("jobs");
  await ready(page);
  const box = page.getByRole("combobox", { name: "Search jobs" });
  await box.fill("kin");
  await page.getByRole("option", { name: /kind:/ }).waitFor();
  await box.press("ArrowDown");
  await box.press("Enter");
  check((await box.inputValue()) === "kind:", "a token is completed");
  await box.fill("queue:bulk args.order=17");
  await box.press("Escape");
  await box.press("Enter");
  await page.locator("tbody tr").nth(0).waitFor();
  await page.waitForFunction(() => document.querySelectorAll("tbody tr").length === 1);
  await go("jobs?queue=bulk&state=available,running");
  await ready(page);
  await page.getByLabel("Select all jobs of this page").check();
  await page.getByRole("button", { name: /Select all 60 jobs/ }).click();
  await page.getByRole("toolbar").getByRole("button", { name: "Cancel", exact: true }).click();
  await dialogOf(page).getByText("Cancel: 60 jobs").waitFor();
  await field(page, "Rate").fill("");
  await dialogOf(page).getByRole("button", { name: "Cancel (60)" }).click();
  await page.getByText("Bulk actions").waitFor();
  await page.waitForFunction(() => /60 of 60/.test(document.body.textContent));
  check((await call(url, "GET", "/v1/queues/bulk")).counts.cancelled === 60, "a bulk action reaches every job that matches");
  // Two selected rows alone.
  await go("jobs?queue=bulk&state=cancelled");
  await page.locator("tbody tr").nth(1).waitFor();
  await page.locator("tbody input").nth(0).check();
  await page.locator("tbody input").nth(1).check();
  await page.getByRole("toolbar").getByRole("button", { name: "Delete", exact: true }).click();
  await dialogOf(page).getByRole("button", { name: "Delete (2)" }).click();
  await page.waitForFunction(() => /2 of 2/.test(document.body.textContent));
  check((await call(url, "GET", "/v1/queues/bulk")).counts.cancelled === 58, "a bulk action on selected rows reaches these alone");
}

// A view is saved on the server, and opened by another viewer.
async function views({ page, go, url, browser }) {
  await go("jobs?queue=photos&state=dead");
  await ready(page);
  check((await page.locator(".filters input").first().inputValue()) === "photos", "the filter is in the address");
  await page.getByText("Saved views", { exact: true }).click();
  await press(page, "Save this view");
  await field(page, "Name").fill("dead <b>photos");
  await press(page, "Save");
  await dialogOf(page).waitFor({ state: "detached" });
  const other = await open(browser, url);
  await other.go("jobs");
  await ready(other.page);
  await other.page.getByText("Saved views", { exact: true }).click();
  await other.page.getByRole("link", { name: "dead <b>photos" }).click();
  await other.page.waitForURL(/state=dead/);
  check(/queue=photos/.test(other.page.url()), "a saved view opens for another viewer");
  await other.context.close();
  await page.keyboard.press("Escape");
  await page.getByText("Columns").click();
  await page.getByLabel("Limit key").check();
  await page.getByRole("columnheader", { name: "Limit key" }).waitFor();
}

// A pause says why and until when, wherever the queue is shown.
async function queues({ page, go, url }) {
  await go("queues/photos");
  await press(page, "Pause");
  await field(page, "Reason").fill("disk <i>swap</i>");
  await field(page, "For").fill("2h");
  await dialogOf(page).getByRole("button", { name: "Pause", exact: true }).click();
  await page.locator(".page-head", { hasText: "disk <i>swap</i>" }).waitFor();
  await go("queues");
  await page.getByText(/disk <i>swap<\/i>/).waitFor();
  await go("queues/photos");
  await press(page, "Resume");
  await page.locator(".page-head .state-paused").waitFor({ state: "detached" });
  await press(page, "Edit limits");
  await field(page, "Rate").fill("50/1m");
  await dialogOf(page).getByLabel(/Alternate between limit keys/).check();
  await field(page, "Weights of limit keys").fill("acme = 3");
  await press(page, "Save");
  await dialogOf(page).waitFor({ state: "detached" });
  const { limits } = await call(url, "GET", "/v1/queues/photos");
  check(limits.rate.count === 50 && limits.per_key.weights.acme === 3, "limits are edited");
  await page.getByText("Limit keys", { exact: true }).click();
  await page.getByRole("link", { name: "acme", exact: true }).click();
  await page.getByRole("heading", { name: "acme" }).waitFor();
}

// Charts have their numbers as a table, and marks.
async function charts({ page, go, url }) {
  await go("");
  await ready(page);
  await press(page, "Add a mark");
  await field(page, "Text").fill("v1.4");
  await press(page, "Save");
  await page.locator(".marks", { hasText: "v1.4" }).first().waitFor();
  await page.locator("figure", { hasText: "Jobs per" }).getByRole("button", { name: "Show as table" }).click();
  await page.getByRole("table", { name: /Jobs per/ }).waitFor();
  await page.getByRole("group", { name: /Wait time/ }).focus();
  await page.keyboard.press("ArrowLeft");
  await page.getByRole("link", { name: "7 days" }).click();
  await page.waitForURL(/range=7d/);
  await ready(page);
  check((await call(url, "GET", "/v1/marks")).marks.some((mark) => mark.text === "v1.4"), "a mark reaches the server");
}

// All schedules on one timeline; several are paused at once.
async function schedules({ page, go, url }) {
  await go("schedules");
  await page.getByRole("img", { name: /^nightly: [1-9]\d* past ticks.*; [1-9]\d* upcoming/ }).waitFor();
  await page.getByText("every day at 02:30").waitFor();
  await page.getByLabel("Select all schedules").check();
  await page.getByRole("toolbar").getByRole("button", { name: "Pause", exact: true }).click();
  await field(page, "Reason").fill("runaway");
  await dialogOf(page).getByRole("button", { name: "Pause", exact: true }).click();
  await page.getByText("2 schedules paused").waitFor();
  const one = await call(url, "GET", "/v1/schedules/nightly");
  check(one.paused && one.paused_reason === "runaway", "several schedules are paused with a reason");
  await press(page, "Resume several");
  await field(page, "Which").selectOption("all");
  await dialogOf(page).getByRole("button", { name: "Resume", exact: true }).click();
  await page.getByText("2 schedules resumed").waitFor();
}

// Workers with host and version; two versions on one queue are a warning.
async function workers({ page, go }) {
  await go("workers");
  await ready(page);
  await page.getByText("Different versions run side by side.").waitFor();
  await page.getByText("python 1.5").waitFor();
}

export const FLOWS = { quiet, live, soon, keyboard, oneJob, search, views, queues, charts, schedules, workers };

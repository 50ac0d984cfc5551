// What a viewer does: each flow acts in the page and looks at the server.
import { call, check, open, openRequests, ready } from "./support.mjs";
import * as actions from "./action_flows.mjs";
import * as forms from "./form_flows.mjs";
import * as guards from "./guard_flows.mjs";
import * as jobs from "./job_flows.mjs";
import {
  arrivals, backToList, backToRow, bulkThenFilter, selection, burst, columns, counting, covered, errorsSince, finding, hiddenKeys, longestWaiting, manyAttempts, rareError, scheduleStates, sortingAll,
  timelineBand, timelineRows, workerSorting,
} from "./list_flows.mjs";
import { copying, hiddenLog, lateStream, manySteps, missing, noFlash, oddNames, onceInZone, oneStream, otherPerson, quietBacklog, slowNetwork, unusedFolder, wrongClock, zones } from "./robust_flows.mjs";
import { endedSession, noSession } from "./token_flows.mjs";
import { commands, scopedCommands } from "./worker_flows.mjs";

const dialogOf = (page) => page.getByRole("dialog");
// A field of the open dialog, by its label without the hint.
const field = (page, label) =>
  dialogOf(page).locator("label.field").filter({ has: page.locator(".field-label", { hasText: new RegExp(`^${label}$`) }) }).locator("input, textarea, select");
const press = (page, name) => page.getByRole("button", { name, exact: true }).first().click();

// Live: a change by another program is visible without a reload, and rows do not move.
async function live({ page, go, url }) {
  await go("jobs?queue=photos&state=available");
  await ready(page);
  const first = () => page.locator("tbody tr").first().locator("a").first().textContent(); // without times, which change
  const before = await first();
  await call(url, "POST", "/v1/jobs", { queue: "photos", kind: "thumbnail" });
  await page.getByRole("button", { name: /1 new job/ }).waitFor();
  check((await first()) === before, "new jobs do not move the rows");
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
    const reads = openRequests(page, /\/v1\/(?!events)/);
    await page.goto(`${url}/ui/#/${name}`);
    await page.waitForFunction(() => document.querySelector("main h1") && !document.querySelector(".loading"));
    await page.getByText("Live").waitFor();
    // The page reads once more when its stream is open.
    await page.clock.runFor("00:01");
    while (reads() > 0) await page.evaluate(() => 0);
    // A read of the loading may still begin here, on a slow machine. A page that polls asks in each of the rounds.
    const requests = [];
    page.on("request", (request) => requests.push(request.url()));
    for (let round = 0; round < 3; ++round) {
      requests.length = 0;
      await page.clock.runFor("05:00");
      if (requests.length === 0) break;
    }
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
  // The next key may come before the browser draws a frame.
  const focused = await page.evaluate(async () => {
    document.body.dispatchEvent(new KeyboardEvent("keydown", { key: "k", ctrlKey: true, bubbles: true }));
    for (let i = 0; i < 10; ++i) await Promise.resolve();
    return document.activeElement?.getAttribute("role");
  });
  check(focused === "combobox", `the palette takes what is typed right after Ctrl-K, not ${focused}`);
  await page.keyboard.press("Escape");
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
  await dialogOf(page).getByRole("button", { name: "Cancel", exact: true }).click();
  await page.locator(".page-head .state-cancelled").waitFor();
  await press(page, "Delete");
  await dialogOf(page).getByRole("button", { name: "Delete", exact: true }).click();
  await page.waitForURL(/#\/jobs($|\?)/);
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
  // Other pages have views too, and the palette knows all of them.
  await other.go("queues?find=ph&sort=-available");
  await ready(other.page);
  await other.page.getByText("Saved views", { exact: true }).click();
  await press(other.page, "Save this view");
  await field(other.page, "Name").fill("busy photos");
  await press(other.page, "Save");
  await dialogOf(other.page).waitFor({ state: "detached" });
  await other.go("");
  await ready(other.page);
  await other.page.getByRole("link", { name: /Done in 1 h/ }).waitFor();
  await other.page.keyboard.press("Control+k");
  await other.page.getByRole("combobox", { name: /Go to/ }).fill("busy");
  await other.page.getByRole("option", { name: "View busy photos" }).click();
  await other.page.waitForURL(/#\/queues\?/);
  check(/find=ph/.test(other.page.url()) && /sort=-available/.test(other.page.url()), "a view of queues keeps what was found and the order");
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
  // Weights may be fractions, costs may not.
  await call(url, "PUT", "/v1/queues/photos/limits", { ...limits, per_key: { ...limits.per_key, weights: { trial: 0.5 } } });
  await page.reload();
  await press(page, "Edit limits");
  await field(page, "Slots per kind").fill("render = 0.5");
  await press(page, "Save");
  await dialogOf(page).getByText(/^costs: render = 0.5: must be NAME = NUMBER, a whole number/).waitFor();
  await field(page, "Slots per kind").fill("render = 2");
  await press(page, "Save");
  await dialogOf(page).waitFor({ state: "detached" });
  // All of a rate, and the paths that are indexed.
  await press(page, "Edit limits");
  await field(page, "Counted by").first().selectOption("sliding");
  check(await field(page, "Burst").first().isDisabled(), "only a bucket has a burst");
  await field(page, "Rate per limit key").fill("10/1m");
  await field(page, "Burst").nth(1).fill("3");
  await field(page, "Searchable paths in args").fill("order\ncustomer.id");
  await press(page, "Save");
  await dialogOf(page).waitFor({ state: "detached" });
  await page.getByText("order, customer.id").waitFor();
  const edited = (await call(url, "GET", "/v1/queues/photos")).limits;
  check(edited.rate.kind === "sliding" && edited.rate.count === 50 && edited.per_key.rate.burst === 3, `the kind and the burst of rates are edited: ${JSON.stringify(edited)}`);
  check(edited.searchable.join() === "order,customer.id", "searchable paths are edited");
  check(edited.per_key.weights.trial === 0.5 && edited.costs.render === 2, "limits with a fraction as weight are edited");
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
  const marked = async () => (await call(url, "GET", "/v1/marks")).marks.some((mark) => mark.text === "v1.4");
  check(await marked(), "a mark reaches the server");
  await page.locator("summary", { hasText: /marks?$/ }).click();
  await page.getByRole("button", { name: "Remove v1.4" }).click();
  await dialogOf(page).getByRole("heading", { name: "Remove the mark v1.4?" }).waitFor();
  check(await marked(), "nothing is removed before the answer");
  await press(page, "Remove");
  await page.getByText("Mark v1.4 is removed").waitFor();
  check(!(await marked()), "a mark is removed after the answer");
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
// The flow makes its workers itself: the server forgets a quiet worker after five minutes.
async function workers({ page, go, url }) {
  for (const version of ["1.4", "1.5"]) {
    await call(url, "POST", "/v1/claim", { worker: `drift-${version}`, queues: ["drift"], language: "python", version });
  }
  await go("workers");
  await ready(page);
  await page.getByText("Different versions run side by side.").waitFor();
  await page.getByText("python 1.5").first().waitFor();
}

// A heading sorts the shown rows; the order is in the address, and the keyboard reaches it.
async function sorting({ page, go, url }) {
  for (const [queue, n] of [["sort-a", 2], ["sort-b", 11], ["sort-c", 1]]) {
    await call(url, "POST", "/v1/jobs", { jobs: Array.from({ length: n }, () => ({ queue, kind: "k" })) });
  }
  const shown = async () => (await page.locator("tbody tr td:first-child a").allTextContents()).filter((name) => name.startsWith("sort-")).join(" ");
  const heading = page.getByRole("columnheader", { name: "Available" });
  await go("queues");
  await ready(page);
  await heading.getByRole("link").click();
  await page.waitForURL(/sort=-available/);
  await page.locator('th[aria-sort="descending"]').waitFor();
  check((await shown()) === "sort-b sort-a sort-c", `the first click on a number sorts the largest first: ${await shown()}`);
  check((await heading.getAttribute("aria-sort")) === "descending", "aria-sort is descending");
  await page.keyboard.press("Enter");
  await page.waitForURL(/sort=available/);
  await page.locator('th[aria-sort="ascending"]').waitFor();
  check((await shown()) === "sort-c sort-a sort-b", `Enter reverses the order: ${await shown()}`);
  check((await heading.getAttribute("aria-sort")) === "ascending", "aria-sort is ascending");
  await page.reload();
  await ready(page);
  check((await shown()) === "sort-c sort-a sort-b", "the order survives a reload");
  await page.goBack();
  await page.waitForURL(/sort=-available/);
  await go("jobs?queue=sort-b&sort=-id");
  await page.locator("tbody tr").nth(10).waitFor();
  const narrow = await page.evaluate(() => getComputedStyle(document.querySelector(".narrow-tools")).display);
  check(narrow === "none", "the menu that sorts is for narrow screens only");
}

// A new job begins as the newest of its queue; a mistake in the args is named by line and column.
async function newJob({ page, go, url }) {
  const { jobs } = await call(url, "POST", "/v1/jobs", { jobs: [{ queue: "example", kind: "resize", args: { width: 80 } }, { queue: "example", kind: "crop", args: { left: 9007199254740993n.toString() } }] });
  await go("jobs?queue=example");
  await ready(page);
  await press(page, "New job");
  await dialogOf(page).getByText(`Job ${jobs[1].id}`).waitFor();
  const args = dialogOf(page).locator("textarea");
  check((await field(page, "Kind").inputValue()) === "crop" && /9007199254740993/.test(await args.inputValue()), "kind and args are those of the newest job");
  await field(page, "Kind").fill("resize");
  await page.waitForFunction(() => /"width": 80/.test(document.querySelector("dialog textarea").value));
  await args.fill('{\n  "width": 80,\n}');
  await field(page, "Priority").focus();
  await dialogOf(page).getByText(/line 3, column 1/).waitFor();
  await press(page, "Enqueue");
  await dialogOf(page).getByText(/^args: not valid JSON, line 3, column 1/).waitFor();
  await args.fill('{"width":81}');
  await field(page, "Queue").fill("example-2");
  await press(page, "Enqueue");
  await page.waitForURL(/#\/jobs\/\d+$/);
  const made = await call(url, "GET", `/v1/jobs/${page.url().split("/").pop()}`);
  check(made.queue === "example-2" && made.kind === "resize" && made.args.width === 81, "what the viewer typed is not replaced");
}

// The job of a job folder shows what its run wrote.
async function jobLog({ page, go, url }) {
  const { jobs: folders } = await call(url, "GET", "/v1/host/jobs").catch(() => ({ jobs: [] }));
  if (folders.length === 0) return; // only one of the stores is tested with job folders
  const { jobs } = await call(url, "GET", "/v1/jobs?queue=host&kind=triggered/report&state=completed");
  await go(`jobs/${jobs[0].id}`);
  await page.getByRole("log", { name: "Log" }).getByText("onerror=").waitFor();
  await page.getByLabel("Find").fill("nothing like this");
  await page.getByText("No line matches.").waitFor();
  await page.getByRole("link", { name: "report", exact: true }).click();
  await press(page, "Stop");
  await dialogOf(page).getByRole("heading", { name: "Stop report?" }).waitFor();
  await dialogOf(page).getByRole("button", { name: "Go back" }).click();
  await dialogOf(page).waitFor({ state: "detached" });
}

// Args are edited as one field per key; numbers keep their digits and other keys their values.
async function argsAsFields({ page, go, url }) {
  const args = '{"width":80,"big":9007199254740993,"fraction":0.12345678901234567890,"price":1.10,"dry":false,"note":"a","list":[1,2]}';
  const made = await fetch(`${url}/v1/jobs`, { method: "POST", headers: { "Content-Type": "application/json" }, body: `{"queue":"fields","kind":"k","args":${args}}` });
  check(made.ok, "a job with args is enqueued");
  await go("jobs?queue=fields");
  await ready(page);
  await press(page, "New job");
  await page.waitForFunction(() => /"width": 80/.test(document.querySelector("dialog textarea").value));
  await press(page, "Edit as fields");
  await field(page, "width").fill("8x");
  await dialogOf(page).getByText("8x: must be a number").waitFor();
  await press(page, "Enqueue");
  check(await dialogOf(page).isVisible(), "a number that is none is not sent");
  await field(page, "width").fill("81");
  await field(page, "dry").selectOption("true");
  await field(page, "note").fill('b "quoted"');
  await field(page, "list").fill("[3]");
  await press(page, "Enqueue");
  await page.waitForURL(/#\/jobs\/\d+$/);
  const text = await (await fetch(`${url}/v1/jobs/${page.url().split("/").pop()}`)).text();
  const sent = JSON.parse(text).args;
  check(sent.width === 81 && sent.dry === true && sent.note === 'b "quoted"' && sent.list.join() === "3", `fields become args: ${JSON.stringify(sent)}`);
  const kept = ['"big":9007199254740993,', '"fraction":0.12345678901234567890,', '"price":1.10,'];
  check(kept.every((one) => text.includes(one)), `a field that was not touched keeps its digits: ${text}`);
}

// Settings with their origin; a secret stays hidden. Without the routes the page has no such panels.
async function settings({ page, go }) {
  const answer = (body, status = 200) => (route) => route.fulfill({ status, contentType: "application/json", body: JSON.stringify(body) });
  await page.route("**/v1/settings", answer({ settings: [
    { name: "listen", value: "0.0.0.0:8080", default: "127.0.0.1:8080", source: "file", where: "file /etc/mainspring.toml" },
    { name: "dead_retention", value: "7d", default: "7d", source: "default" },
    { name: "store", value: "postgres://jobs:***@db/x", default: "none", source: "environment", where: "environment MAINSPRING_STORE", secret: true },
  ] }));
  await page.route("**/v1/store", answer({ kind: "sqlite", bytes: 5 * 1024 ** 2, free_bytes: 4096, wal_bytes: 0, jobs: 12, live: 2, finished: 10, schema: 1, path: "/var/lib/mainspring" }));
  await go("system");
  const panel = page.getByRole("region", { name: "Settings" });
  await panel.getByText("file /etc/mainspring.toml").waitFor();
  check((await panel.getByText("dead_retention").count()) === 0, "settings with their defaults are hidden at first");
  await panel.getByText("secret hidden").waitFor();
  await panel.getByLabel("Changed only").uncheck();
  await panel.getByText("dead_retention").waitFor();
  await panel.getByLabel("Find").fill("retention");
  await panel.getByText("listen").waitFor({ state: "detached" });
  await page.getByRole("region", { name: "Store", exact: true }).getByText("5.0 MiB").waitFor();
  const refusal = { error: { code: "forbidden", message: "needs admin" } };
  await page.route("**/v1/settings", answer(refusal, 403));
  await page.route("**/v1/store", answer(refusal, 403));
  await page.reload();
  await page.getByRole("region", { name: "Server" }).waitFor();
  await panel.waitFor({ state: "detached" });
  await page.unroute("**/v1/settings");
  await page.unroute("**/v1/store");
}

export const FLOWS = {
  quiet, live, soon, keyboard, oneJob, search, views, queues, charts, schedules, workers, sorting, newJob, settings, columns, finding,
  workerSorting, scheduleStates, arrivals, backToList, backToRow, bulkThenFilter, selection, burst, counting, covered, hiddenKeys, errorsSince, rareError, longestWaiting, timelineBand, timelineRows, sortingAll, manyAttempts, jobLog, argsAsFields, oddNames, wrongClock,
  copying, noFlash, zones, slowNetwork, lateStream, oneStream, hiddenLog, unusedFolder, manySteps, missing, onceInZone, otherPerson, quietBacklog, ...jobs, ...actions, ...forms, noSession, endedSession, scopedCommands, commands,
  ...guards,
};

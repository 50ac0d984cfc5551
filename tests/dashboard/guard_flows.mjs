// What a viewer must not lose by a click, and what the page must not claim.
import { alterAnswers, call, check, open, openRequests, ready } from "./support.mjs";

const dialogOf = (page) => page.getByRole("dialog");
const form = (page) => page.locator("dialog", { has: page.locator("form") });
const field = (page, label) =>
  form(page).locator("label.field").filter({ has: page.locator(".field-label", { hasText: new RegExp(`^${label}$`) }) }).locator("input, textarea, select");
const press = (page, name) => page.getByRole("button", { name, exact: true }).first().click();
const answer = (page, name) => dialogOf(page).getByRole("button", { name, exact: true }).click();
const closed = (page) => dialogOf(page).waitFor({ state: "detached" });

// "New …" asks before it replaces an object that has the name.
export async function replaceAsks({ page, go, url }) {
  const schedule = { cron: "0 4 1 1 *", job: { queue: "taken", kind: "k" } };
  await call(url, "PUT", "/v1/schedules/taken", schedule);
  await call(url, "PUT", "/v1/triggers/taken", { http: {}, job: { queue: "taken", kind: "k" } });
  await call(url, "PUT", "/v1/breakers/taken", { failures: 7 });
  const cases = [
    ["schedules", "New schedule", () => field(page, "Kind").fill("other"), "/v1/schedules/taken", (one) => one.job.kind === "k"],
    ["timers", "New timer", () => field(page, "Kind").fill("other"), "/v1/schedules/taken", (one) => !one.continuous],
    ["triggers", "New trigger", () => {}, "/v1/triggers/taken", (one) => one.job.kind === "k"],
    ["breakers", "New breaker", () => {}, "/v1/breakers/taken", (one) => one.settings.failures === 7],
  ];
  for (const [name, button, more, path, kept] of cases) {
    await go(name);
    await ready(page);
    await press(page, button);
    await field(page, "Name").fill("taken");
    await more();
    await press(page, "Save");
    const question = page.getByRole("dialog", { name: "Replace taken?" });
    await question.getByRole("button", { name: "Go back" }).click();
    await question.waitFor({ state: "detached" });
    check(kept(await call(url, "GET", path)), `${name}: an existing object is not replaced without an answer`);
    check((await field(page, "Name").inputValue()) === "taken", `${name}: the form stays open after "Go back"`);
    await press(page, "Save");
    await question.getByRole("button", { name: "Replace" }).click();
    await closed(page);
    check(!kept(await call(url, "GET", path)), `${name}: it is replaced after the answer`);
  }
  for (const path of ["schedules", "triggers", "breakers"]) await call(url, "DELETE", `/v1/${path}/taken`);
}

// A saved view keeps its name too, and cannot take the name of the view that holds the hidden keys.
export async function viewNames({ page, go, url }) {
  const query = async () => (await call(url, "GET", "/v1/views")).views.find((view) => view.name === "taken view")?.query;
  await call(url, "PUT", "/v1/views/taken%20view", { page: "jobs", query: "state=dead" });
  await go("jobs?state=running");
  await ready(page);
  await page.locator("summary", { hasText: "Saved views" }).click();
  await press(page, "Save this view");
  await field(page, "Name").fill("hidden-keys");
  await press(page, "Save");
  await form(page).getByText(/hidden-keys: is reserved/).waitFor();
  await field(page, "Name").fill("taken view");
  await press(page, "Save");
  const question = page.getByRole("dialog", { name: "Replace taken view?" });
  await question.getByRole("button", { name: "Go back" }).click();
  check((await query()) === "state=dead", "a view is not replaced without an answer");
  await press(page, "Save");
  await question.getByRole("button", { name: "Replace" }).click();
  await closed(page);
  check((await query()) === "state=running", "a view is replaced after the answer");
  await call(url, "DELETE", "/v1/views/taken%20view");
}

// Hidden keys of other kinds survive a read that fails when keys are saved.
export async function keptKeys({ page, go, url }) {
  const query = async () => (await call(url, "GET", "/v1/views")).views.find((view) => view.name === "hidden-keys")?.query;
  const before = await query();
  await call(url, "PUT", "/v1/views/hidden-keys", { page: "system", query: "kept=iban" });
  await go("system");
  await ready(page);
  await page.route("**/v1/views", (route) => route.fulfill({ status: 403, json: { error: { code: "forbidden", message: "no views now" } } }));
  await press(page, "Hide keys");
  await field(page, "Kind").fill("added");
  await field(page, "Keys").fill("card");
  await press(page, "Save");
  await form(page).getByText("no views now").waitFor();
  check((await query()) === "kept=iban", `nothing is saved without the present keys: ${await query()}`);
  await page.unroute("**/v1/views");
  await press(page, "Save");
  await closed(page);
  check((await query()) === "kept=iban&added=card", `the keys of other kinds stay: ${await query()}`);
  await (before === undefined ? call(url, "DELETE", "/v1/views/hidden-keys") : call(url, "PUT", "/v1/views/hidden-keys", { page: "system", query: before }));
}

// An enqueue whose answer is lost makes one job, also when the viewer presses the button again.
export async function lostAnswer({ page, go, url }) {
  await go("jobs?queue=lost-answer");
  await ready(page);
  const keys = [];
  await page.route("**/v1/jobs", async (route) => {
    if (route.request().method() !== "POST") return route.continue();
    keys.push(await route.request().headerValue("Idempotency-Key"));
    if (keys.length > 1) return route.continue();
    await route.fetch(); // the job is made
    await route.abort("connectionreset");
  });
  await press(page, "New job");
  await field(page, "Kind").fill("once");
  await press(page, "Enqueue");
  await form(page).getByText(/did not answer/).waitFor();
  await press(page, "Enqueue");
  await page.waitForURL(/#\/jobs\/\d+$/);
  const { jobs } = await call(url, "GET", "/v1/jobs?queue=lost-answer");
  check(jobs.length === 1 && page.url().endsWith(`/${jobs[0].id}`), `a lost answer and a second click make ${jobs.length} jobs`);
  check(keys.length === 2 && keys[0] && keys[0] === keys[1], `both tries have one key: ${keys}`);
  // Another dialog makes another job.
  await go("jobs?queue=lost-answer");
  await ready(page);
  await press(page, "New job");
  await field(page, "Kind").fill("once");
  await press(page, "Enqueue");
  await page.waitForURL((address) => /#\/jobs\/\d+$/.test(address.hash) && !address.hash.endsWith(`/${jobs[0].id}`));
  check((await call(url, "GET", "/v1/jobs?queue=lost-answer")).jobs.length === 2, "the same job from a new dialog is a second one");
  await page.unroute("**/v1/jobs");
}

// The check of a large store takes longer than other requests may.
export async function slowCheck({ browser, url }) {
  const { context, page, problems, go } = await open(browser, url);
  // Time limits of requests run on a clock that the test moves.
  await page.addInitScript(() => {
    AbortSignal.timeout = (ms) => {
      const abort = new AbortController();
      setTimeout(() => abort.abort(new DOMException("timeout", "TimeoutError")), ms);
      return abort.signal;
    };
  });
  await page.clock.install();
  await go("system");
  await ready(page);
  let give;
  const held = new Promise((resolve) => (give = resolve));
  await page.route("**/v1/verify", give);
  await press(page, "Check now");
  const route = await held;
  await page.clock.runFor("10:00");
  await route.fulfill({ json: { jobs: 1, problems: [] } });
  await page.getByText("No problems: 1 job was checked.").waitFor();
  // Another request gives up, and says that its change may have been made.
  await page.route("**/v1/jobs", (other) => (other.request().method() === "POST" ? undefined : other.continue()));
  await go("jobs?queue=never-made");
  await ready(page);
  await press(page, "New job");
  await field(page, "Kind").fill("k");
  const asked = page.waitForRequest((request) => request.method() === "POST");
  await press(page, "Enqueue");
  await asked;
  await page.clock.runFor("01:00");
  await form(page).getByText(/did not answer within 30 s/).waitFor();
  for (const text of problems) check(false, `slow check: ${text}`);
  await context.close();
  check(true, "");
}

// While the queues are not known, the page of sessions does not say that there are none.
export async function unknownSessions({ page, go, url }) {
  await call(url, "POST", "/v1/jobs", { queue: "talks", kind: "k", session: "t-1" });
  let asked = 0;
  await page.route(/\/v1\/queues(\?|$)/, (route) => (++asked, route.fulfill({ status: 403, json: { error: { code: "forbidden", message: "no queues now" } } })));
  await go("sessions");
  await page.getByText("no queues now").waitFor();
  check((await page.getByText("This queue has no sessions.").count()) === 0, `a failed read is not "no sessions"`);
  await page.unroute(/\/v1\/queues(\?|$)/);
  await press(page, "Try again");
  await page.locator("tbody tr").first().waitFor();
  // From one queue back to the menu's link, the first queue with sessions is looked up.
  await call(url, "PUT", "/v1/queues/a-silent-queue/limits", { concurrency: 1 });
  await go("sessions?queue=a-silent-queue");
  await page.getByText("This queue has no sessions.").waitFor();
  await page.getByRole("navigation", { name: "Pages" }).getByRole("link", { name: "Sessions", exact: true }).click();
  await page.locator("tbody tr").first().waitFor();
  check(asked > 0 && (await page.getByText("This queue has no sessions.").count()) === 0, "a queue with sessions is found again");
  await call(url, "DELETE", "/v1/queues/a-silent-queue");
}

// Steps that could not be read are not an empty table; only a parked workflow can be retried.
export async function unknownSteps({ page, go, url }) {
  const { id } = await call(url, "POST", "/v1/workflows", { name: "unread", steps: [{ name: "only", job: { queue: "wf-unread", kind: "k" } }] });
  await page.route(/\/steps\?/, (route) => route.fulfill({ status: 403, json: { error: { code: "forbidden", message: "no steps now" } } }));
  await go(`workflows/${id}`);
  await page.getByText("no steps now").waitFor();
  check((await page.getByRole("table", { name: "Steps" }).count()) === 0, "a failed read is no empty table");
  await page.unroute(/\/steps\?/);
  await press(page, "Try again");
  await page.getByRole("table", { name: "Steps" }).getByText("only").waitFor();
  await alterAnswers(page, `**/v1/workflows/${id}`, (body) => ({ ...body, state: "failed" }));
  await page.reload();
  await page.locator(".page-head .state-failed").waitFor();
  check((await page.getByRole("button", { name: "Retry", exact: true }).count()) === 0, "a failed workflow cannot be retried");
  await page.unroute(`**/v1/workflows/${id}`);
  await call(url, "POST", `/v1/workflows/${id}/cancel`);
}

// A long log says that its beginning is not loaded, and loads it.
export async function longLog({ page, go, url }) {
  const { jobs: folders } = await call(url, "GET", "/v1/host/jobs").catch(() => ({ jobs: [] }));
  if (folders.length === 0) return; // only one of the stores is tested with job folders
  const log = "first line\n" + "x".repeat(99_990) + "\nlast line\n";
  await page.route(/\/log\?/, (route) => {
    const query = new URL(route.request().url()).searchParams;
    const from = Math.max(0, log.length + Number(query.get("position")));
    return route.fulfill({ json: { text: log.slice(from), next: log.length, at_end: true, ended: true } });
  });
  await go("folders/triggered/report");
  await page.getByText("Only the end of the log is loaded.").waitFor();
  await page.getByLabel("Find").fill("first line");
  await page.getByText("No line matches.").waitFor();
  await press(page, "Load earlier lines");
  await page.getByRole("log").getByText("first line").waitFor();
  check((await page.getByText("Only the end of the log is loaded.").count()) === 0, "the whole log is loaded");
  await page.unroute(/\/log\?/);
}

// A job that becomes due is shown as such, on its page and in a list, also where the browser's clock is ahead.
export async function becomesDue({ browser, url }) {
  const { context, page, problems, go } = await open(browser, url);
  await page.clock.install({ time: Date.now() + 3_600_000 });
  const { id } = await call(url, "POST", "/v1/jobs", { queue: "due", kind: "k", delay: "2s" });
  await go(`jobs/${id}`);
  await page.locator(".page-head .state-available").waitFor();
  await go("jobs?queue=due");
  await ready(page);
  await page.getByText("Live").waitFor();
  const { jobs } = await call(url, "POST", "/v1/claim", { worker: "w-due", queues: ["due"], job: id, lease: "10m" });
  await page.locator("tbody .state-running").waitFor();
  await call(url, "POST", "/v1/finish", { worker: "w-due", results: [{ id, token: jobs[0].token, outcome: "retry", error: "again", after: "2s" }] });
  await page.locator("tbody .state-retryable").waitFor();
  await page.locator("tbody .state-available").waitFor();
  for (const text of problems) check(false, `becomes due: ${text}`);
  await context.close();
  check(true, "");
}

// Dead jobs that another person retries leave their group.
export async function retriedElsewhere({ browser, url }) {
  const { context, page, go } = await open(browser, url);
  await page.clock.install();
  const reads = openRequests(page, /\/v1\/(?!events)/);
  const { id } = await call(url, "POST", "/v1/jobs", { queue: "retried-elsewhere", kind: "k" });
  const { jobs } = await call(url, "POST", "/v1/claim", { worker: "w-elsewhere", queues: ["retried-elsewhere"], job: id, lease: "10m" });
  const result = { id, token: jobs[0].token, outcome: "dead", reason: "failed", description: "Elsewhere" };
  await call(url, "POST", "/v1/finish", { worker: "w-elsewhere", results: [result] });
  await go("errors?queue=retried-elsewhere");
  await page.getByRole("table", { name: "Errors" }).getByText("Elsewhere").waitFor();
  await page.getByText("Live").waitFor();
  // The reads that loading the page and the death caused end first.
  await page.clock.runFor("00:05");
  while (reads() > 0) await page.evaluate(() => 0);
  await call(url, "POST", `/v1/jobs/${id}/retry`);
  await page.getByText("Elsewhere").waitFor({ state: "detached" });
  await context.close();
  check(true, "");
}

// Numbers that a page did not read in full say so.
export async function partOfMany({ page, go, url }) {
  // More new jobs than the page looks at together.
  await go("jobs?queue=flood");
  await ready(page);
  await page.getByText("Live").waitFor();
  await call(url, "POST", "/v1/jobs", { jobs: Array.from({ length: 200 }, () => ({ queue: "flood", kind: "k" })) });
  await page.getByRole("button", { name: "50+ new jobs: show" }).waitFor();
  // A worker whose jobs are not among those that were read.
  const worker = { id: "w-many", queues: ["flood"], running: 900, last_seen_ms: 0, parked: false, command: null };
  const job = (id) => ({ id, queue: "flood", kind: "k", state: "running", worker: "w-other", started_at: "2026-01-01T00:00:00Z" });
  await page.route(/\/v1\/workers(\?|$)/, (route) => route.fulfill({ json: { workers: [worker] } }));
  await page.route(/\/v1\/jobs\?.*state=running/, (route) => route.fulfill({ json: { jobs: Array.from({ length: 500 }, (_, i) => job(i + 1)), next_cursor: "more" } }));
  await go("workers");
  await page.getByRole("link", { name: "900 jobs", exact: true }).waitFor();
  await page.getByText("50 of 900, the longest running first among the newest 500.").waitFor();
  await page.unroute(/\/v1\/workers(\?|$)/);
  await page.unroute(/\/v1\/jobs\?.*state=running/);
  // Timers after the first 1,000 schedules.
  const schedules = Array.from({ length: 1000 }, (_, i) => ({ name: `s-${i}`, job: { queue: "flood", kind: "k" } }));
  await page.route(/\/v1\/schedules\?/, (route) => route.fulfill({ json: { schedules, next: "s-999" } }));
  await go("timers");
  await page.getByText("Only timers among the first 1,000 schedules are shown.").waitFor();
  check((await page.getByText("There are no timers.").count()) === 0, "timers that were not read may exist");
  await page.unroute(/\/v1\/schedules\?/);
  // The next tick of each schedule, without the list of all schedules.
  await call(url, "PUT", "/v1/schedules/soonest", { every: "1m", job: { queue: "soonest", kind: "k" } });
  await go("");
  const ticks = page.getByRole("region", { name: "Ticks of the next hour" });
  await ticks.getByRole("link", { name: "soonest" }).waitFor();
  const names = await ticks.getByRole("link").allTextContents();
  check(names.filter((name) => name === "soonest").length === 1, `a schedule is listed once: ${names}`);
  check(!names.includes("hourly") || names.indexOf("soonest") < names.indexOf("hourly"), `the next tick comes first: ${names}`);
  await call(url, "DELETE", "/v1/schedules/soonest");
}

const focused = (page) => page.evaluate(() => `${document.activeElement.tagName} ${document.activeElement.textContent.slice(0, 60)}`);

// The keyboard's focus returns from a dialog to the button that opened it, and goes to the heading of a new page,
// before and after the page is loaded.
export async function keptFocus({ page, go, url }) {
  await call(url, "PUT", "/v1/queues/focus/limits", { concurrency: 1 });
  await go("queues/focus");
  const edit = page.getByRole("button", { name: "Edit limits", exact: true });
  for (const end of ["Escape", "Enter"]) {
    await edit.focus();
    await page.keyboard.press("Enter");
    await field(page, "Jobs at once").waitFor();
    await page.keyboard.press(end);
    await closed(page);
    check((await focused(page)) === "BUTTON Edit limits", `after a dialog that ended with ${end}, the focus is on ${await focused(page)}`);
  }
  const { id } = await call(url, "POST", "/v1/jobs", { queue: "focus", kind: "k" });
  const pages = [
    [`jobs?queue=focus`, String(id), `jobs/${id}`, `H1 Job ${id}`],
    ["queues?find=focus", "focus", "queues/focus", "H1 focus"],
  ];
  for (const [from, name, path, heading] of pages) {
    await go(from);
    await ready(page);
    let release;
    const released = new Promise((resolve) => (release = resolve));
    await page.route(`**/v1/${path}`, (route) => released.then(() => route.continue()).catch(() => {})); // a read that was given up
    await page.locator("tbody").getByRole("link", { name, exact: true }).first().focus();
    await page.keyboard.press("Enter");
    await page.waitForFunction(() => document.activeElement.tagName === "H1" && document.querySelector("main .loading"));
    check((await focused(page)) === heading, `while ${path} is loading, the focus is on ${await focused(page)}`);
    release();
    await ready(page);
    await page.unroute(`**/v1/${path}`);
    check((await focused(page)) === heading, `when ${path} is loaded, the focus is on ${await focused(page)}`);
  }
}

// A row of what happens now stays where it is while it has the focus.
export async function heldActivity({ page, go, url }) {
  await go("");
  await ready(page);
  await page.getByText("Live").waitFor();
  const { id } = await call(url, "POST", "/v1/jobs", { queue: "held", kind: "first-held" });
  const row = page.locator(".activity a", { hasText: "first-held" });
  await row.focus();
  await call(url, "POST", "/v1/jobs", { queue: "held", kind: "second-held" });
  await call(url, "POST", "/v1/claim", { worker: "w-held", queues: ["held"], job: id, lease: "10m" });
  await page.getByText(/^Last minute: [1-9]/).waitFor();
  check((await focused(page)) === "A first-held", `the focus is on ${await focused(page)}`);
  check((await page.locator(".activity", { hasText: "second-held" }).count()) === 0, "the rows stay");
  await page.locator("h1").focus();
  await page.locator(".activity", { hasText: "second-held" }).waitFor();
}

// Cron steps that do not divide the hour or the day are no intervals. Every form of the day fields reads as what it does.
export async function unevenSteps({ page, go, url }) {
  const words = [
    ["*/45 * * * *", "cron */45 * * * *"], ["0 */5 * * *", "cron 0 */5 * * *"], ["*/15 * * * *", "every 15 minutes"], ["30 */6 * * *", "every 6 hours at minute 30"],
    ["0 9 15W * ?", "at 09:00, on the Monday to Friday nearest to day 15"], ["0 9 LW * *", "at 09:00, on the last Monday to Friday of the month"],
    ["0 9 L-2 * *", "at 09:00, 2 days before the last day of the month"], ["0 0 9 ? * FRI#2", "at 09:00, on the second Friday of the month"],
    ["0 9 * * 5L", "at 09:00, on the last Friday of the month"], ["0 9 * * SAT-MON", "at 09:00, on Saturday, Sunday and Monday"],
    ["0 9 1 NOV-JAN *", "at 09:00, on day 1 in November, December and January"], ["30 22-2 * * *", "every hour at minute 30 from 22:00 to 02:59"],
    ["0 9 1W,15W * *", "cron 0 9 1W,15W * *"], ["0 9 * * MON-FRI#1", "cron 0 9 * * MON-FRI#1"],
  ];
  for (const [i, [cron]] of words.entries()) await call(url, "PUT", `/v1/schedules/uneven-${10 + i}`, { cron, job: { queue: "uneven", kind: "k" } });
  await go("schedules");
  for (const [i, [cron, text]] of words.entries()) {
    const row = page.getByRole("table", { name: "Schedules" }).locator("tbody tr", { hasText: `uneven-${10 + i}` });
    await row.waitFor();
    check((await row.textContent()).includes(text), `${cron} reads "${text}": ${await row.textContent()}`);
    await call(url, "DELETE", `/v1/schedules/uneven-${10 + i}`);
  }
}

// The axis names each day once in the week in which the clocks go back, and in that in which they go forward.
export async function clockChange({ browser, url }) {
  for (const time of ["2026-10-25T12:00:00Z", "2026-03-29T12:00:00Z"]) {
    const context = await browser.newContext({ viewport: { width: 1600, height: 900 }, timezoneId: "Europe/Berlin" });
    const page = await context.newPage();
    page.setDefaultTimeout(30_000);
    await page.clock.install({ time: new Date(time) });
    await page.goto(`${url}/ui/#/schedules?span=7d`);
    const labels = page.locator(".axis text");
    await labels.first().waitFor();
    const texts = await labels.allTextContents();
    check(texts.length > 5 && new Set(texts).size === texts.length, `each day has one label: ${texts.join(", ")}`);
    await context.close();
  }
}

// An expired job is listed as cancelled, and counted there.
export async function expiredCount({ page, go, url }) {
  const { id } = await call(url, "POST", "/v1/jobs", { queue: "expiring", kind: "k", expires_in: "1ms" });
  const ended = async () => {
    await call(url, "POST", "/v1/claim", { worker: "w-expiring", queues: ["expiring"], lease: "10m" });
    return (await call(url, "GET", `/v1/jobs/${id}`)).state === "cancelled";
  };
  const until = performance.now() + 15_000;
  while (performance.now() < until && !(await ended()));
  await go("jobs?queue=expiring&state=cancelled");
  await ready(page);
  const shown = await page.locator("tbody tr").count();
  await page.getByRole("navigation", { name: "State" }).getByRole("link", { name: /^cancelled\s*1$/ }).waitFor();
  check(shown === 1, `the list has ${shown} expired jobs`);
}

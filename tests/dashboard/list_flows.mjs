// Lists: which columns they have, which rows are found, and what an older page shows.
import { alterAnswers, call, check, eventually, open, ready } from "./support.mjs";

const names = (page, prefix) =>
  page.locator("tbody tr td:not(.select):first-of-type, tbody td.select + td").evaluateAll(
    (cells, start) => [...new Set(cells.map((cell) => cell.textContent.trim()))].filter((name) => name.startsWith(start)).join(" "), prefix);

// Columns are chosen per page; the choice survives a reload.
export async function columns({ page, go, url }) {
  await call(url, "PUT", "/v1/queues/photos/limits", { concurrency: 8 });
  await go(""); // a page that is open already would not read the limits again
  await go("queues");
  await ready(page);
  await page.locator("tr", { hasText: "photos" }).getByText("of 8").waitFor();
  check((await page.getByRole("columnheader", { name: "Completed" }).count()) === 0, "not every column is shown at first");
  await page.locator("summary", { hasText: "Columns" }).click();
  await page.getByLabel("Completed", { exact: true }).check();
  await page.getByRole("columnheader", { name: "Completed" }).waitFor();
  await page.reload();
  await page.getByRole("columnheader", { name: "Completed" }).waitFor();
  await go("workers");
  await ready(page);
  await page.getByRole("columnheader", { name: "Running jobs" }).first().waitFor();
  await go("queues");
  await page.locator("summary", { hasText: "Columns" }).click();
  await page.getByRole("button", { name: "Show the usual columns" }).click();
  await page.getByRole("columnheader", { name: "Completed" }).waitFor({ state: "detached" });
}

// A long list is filtered by name; the text is in the address.
export async function finding({ page, go, url }) {
  await call(url, "POST", "/v1/jobs", { jobs: Array.from({ length: 12 }, (_, i) => ({ queue: `tenant-${i}`, kind: "k" })) });
  await go("queues");
  await ready(page);
  const box = page.getByLabel("Find a queue");
  await box.fill("NANT-1");
  await page.waitForURL(/find=NANT-1/);
  await page.getByText(/^3 of \d+$/).waitFor();
  check((await names(page, "")) === "tenant-1 tenant-10 tenant-11", `rows are found by a part of their name: ${await names(page, "")}`);
  await page.getByRole("link", { name: "tenant-10" }).click();
  await page.getByRole("heading", { name: "tenant-10" }).waitFor();
  await page.goBack();
  await page.getByRole("heading", { name: "Queues", level: 1 }).waitFor();
  check((await page.getByLabel("Find a queue").inputValue()) === "NANT-1", "the filter is there after going back");
}

// The columns of the workers and of their jobs sort, each table by its own parameter.
export async function workerSorting({ page, go, url }) {
  for (const [worker, max] of [["sorted-1", 1], ["sorted-2", 3], ["sorted-3", 2]]) {
    await call(url, "POST", "/v1/jobs", { jobs: Array.from({ length: max }, () => ({ queue: "sorted", kind: worker })) });
    await call(url, "POST", "/v1/claim", { worker, queues: ["sorted"], max, lease: "10m" });
  }
  await go("workers?sort=-jobs");
  await ready(page);
  check((await names(page, "sorted-")) === "sorted-2 sorted-3 sorted-1", `workers are sorted by their jobs: ${await names(page, "sorted-")}`);
  await page.getByRole("table", { name: "Running jobs" }).getByRole("link", { name: /^Kind/ }).click();
  await page.waitForURL(/sort=-jobs&jobs=kind|jobs=kind&sort=-jobs/);
}

// A schedule that does not fire looks different, and says why. Its ledger can be read to its start.
export async function scheduleStates({ page, go, url }) {
  const job = { queue: "reports", kind: "report" };
  await call(url, "PUT", "/v1/schedules/switched-off", { cron: "0 4 * * *", job });
  await call(url, "POST", "/v1/schedules/switched-off/pause", { reason: "month end" });
  await call(url, "PUT", "/v1/schedules/over", { cron: "0 4 * * *", end_at: "2020-01-01T00:00:00Z", job });
  await go("schedules");
  await ready(page);
  const row = (name) => page.locator("tbody tr", { hasText: name });
  check(/paused/.test(await row("switched-off").textContent()) && /month end/.test(await row("switched-off").textContent()), "a paused schedule says so, with the reason");
  check((await row("switched-off").getAttribute("class")) === "off", "its row looks different");
  check(/ended/.test(await row("over").textContent()), "a schedule without a further tick is not shown as active");
  check(/active/.test(await row("nightly").textContent()), "the others are active");
  await go("schedules/switched-off");
  await page.getByText("It is paused: ticks are skipped until you resume it.", { exact: false }).waitFor();
  await go("schedules/over");
  await page.getByText("It has no further tick.").waitFor();
  await call(url, "PUT", "/v1/schedules/often", { cron: "0 4 1 1 *", overlap: "allow", job });
  const made = [];
  for (let i = 0; i < 55; ++i) made.push((await call(url, "POST", "/v1/schedules/often/trigger")).job);
  await go("schedules/often");
  await page.getByRole("link", { name: "Older", exact: true }).click();
  await page.waitForURL(/cursor=/);
  const ledger = page.getByRole("table", { name: "Ledger" });
  await ledger.getByRole("link", { name: String(made[0]), exact: true }).waitFor();
  await page.getByRole("link", { name: "Newest", exact: true }).click();
  await ledger.getByRole("link", { name: String(made.at(-1)), exact: true }).waitFor();
}

// A bulk action that ends after the viewer chose another filter refreshes what is shown now.
export async function bulkThenFilter({ page, go, url }) {
  await call(url, "POST", "/v1/jobs", { jobs: Array.from({ length: 3 }, () => ({ queue: "slow-bulk", kind: "k" })) });
  await go("jobs?queue=slow-bulk&state=available");
  await ready(page);
  await page.getByLabel("Select all jobs of this page").check();
  await page.getByRole("toolbar").getByRole("button", { name: "Cancel", exact: true }).click();
  await page.getByRole("dialog").getByLabel("Rate").fill("2/s");
  await page.getByRole("dialog").getByRole("button", { name: "Cancel (3)" }).click();
  await page.getByRole("button", { name: "Stop", exact: true }).waitFor();
  await page.getByRole("link", { name: /^cancelled/ }).click();
  await page.waitForFunction(() => /3 of 3/.test(document.body.textContent));
  await page.waitForFunction(() => document.querySelectorAll("tbody tr").length === 3);
  check((await page.locator("tbody .state-cancelled").count()) === 3, "the list of the current filter is complete");
}

// Only what is shown is selected, and an action takes the jobs in the states that were shown: a colleague's retry must
// not end in a deleted result.
export async function selection({ page, go, url }) {
  const made = await call(url, "POST", "/v1/jobs", { jobs: Array.from({ length: 4 }, () => ({ queue: "chosen", kind: "k" })) });
  const ids = made.jobs.map((job) => job.id);
  for (const id of ids) await call(url, "POST", `/v1/jobs/${id}/cancel`);
  await go("jobs?queue=chosen&state=cancelled");
  await ready(page);
  await page.getByText("Live").waitFor();
  await page.getByLabel("Select all jobs of this page").check();
  await page.getByText("4 selected").waitFor();
  await call(url, "POST", `/v1/jobs/${ids[0]}/retry`); // its row shows another state
  await page.getByText("3 selected").waitFor();
  await call(url, "DELETE", `/v1/jobs/${ids[1]}`); // its row shows that it is gone
  await page.getByText("2 selected").waitFor();
  await page.getByRole("toolbar").getByRole("button", { name: "Delete", exact: true }).click();
  const remove = page.getByRole("dialog").getByRole("button", { name: "Delete (2)" });
  await remove.waitFor();
  await call(url, "POST", `/v1/jobs/${ids[2]}/retry`);
  const { jobs } = await call(url, "POST", "/v1/claim", { worker: "w-chosen", queues: ["chosen"], job: ids[2], lease: "10m" });
  await call(url, "POST", "/v1/finish", { worker: "w-chosen", results: [{ id: ids[2], token: jobs[0].token, outcome: "complete", result: "kept" }] });
  await remove.click();
  await page.waitForFunction(() => /1 of 1/.test(document.body.textContent));
  check((await call(url, "GET", `/v1/jobs/${ids[2]}`)).result === "kept", "a job that completed after it was shown keeps its result");
  await eventually(() => fetch(`${url}/v1/jobs/${ids[3]}`), ({ status }) => status >= 404, "the other one is deleted");
  // Rows of several states: each in its own.
  const [dead] = (await call(url, "POST", "/v1/jobs", { jobs: [{ queue: "chosen", kind: "k" }] })).jobs;
  await call(url, "POST", `/v1/jobs/${dead.id}/cancel`);
  await go("jobs?queue=chosen&state=completed,cancelled");
  await ready(page);
  await page.waitForFunction(() => document.querySelectorAll("tbody tr").length === 2);
  await page.getByLabel("Select all jobs of this page").check();
  const asked = [];
  page.on("request", (request) => request.url().endsWith("/v1/bulk") && request.method() === "POST" && asked.push(request.postDataJSON()));
  await page.getByRole("toolbar").getByRole("button", { name: "Delete", exact: true }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Delete (2)" }).click();
  await page.waitForFunction(() => document.querySelectorAll("tbody tr").length === 0);
  const states = asked.filter((body) => !body.dry_run).map((body) => body.filter.state.join());
  check(states.sort().join() === "cancelled,completed", `each state has its action: ${states}`);
  // The page of one job.
  const [one] = (await call(url, "POST", "/v1/jobs", { jobs: [{ queue: "chosen", kind: "k" }] })).jobs;
  await call(url, "POST", `/v1/jobs/${one.id}/cancel`);
  await go(`jobs/${one.id}`);
  await page.getByRole("main").getByRole("button", { name: "Delete", exact: true }).click();
  const sure = page.getByRole("dialog").getByRole("button", { name: "Delete", exact: true });
  await sure.waitFor();
  await call(url, "POST", `/v1/jobs/${one.id}/retry`);
  const again = await call(url, "POST", "/v1/claim", { worker: "w-chosen", queues: ["chosen"], job: one.id, lease: "10m" });
  await call(url, "POST", "/v1/finish", { worker: "w-chosen", results: [{ id: one.id, token: again.jobs[0].token, outcome: "complete", result: "kept" }] });
  await sure.click();
  await page.getByText(`Job ${one.id} is completed now: not deleted.`).waitFor();
  check((await call(url, "GET", `/v1/jobs/${one.id}`)).result === "kept", "a job that completed while its dialog was open keeps its result");
  await go("jobs?state=failed");
  await page.getByText("Not a state of jobs: failed. Shown: any state.").waitFor();
  await go("jobs?state=failed,dead");
  await page.getByText("Not a state of jobs: failed. Shown: dead.").waitFor();
  for (const [where, name] of [["jobs?within", "2h"], ["errors?since", "toString"]]) {
    await go(`${where}=${name}`);
    await page.getByText(`Not a period: ${name}. Shown: any time.`).waitFor();
  }
}

// New rows are announced by what the server says of them: in the tab of their state, and not before they are in it.
export async function arrivals({ page, go, url }) {
  const enqueue = async (more = {}) => (await call(url, "POST", "/v1/jobs", { queue: "arrivals", kind: "k", ...more })).id;
  await enqueue({ delay: "1h" });
  await go("jobs?queue=arrivals&state=available");
  await ready(page);
  await page.getByText("Live").waitFor();
  await enqueue({ delay: "1h" });
  const id = await enqueue();
  await page.getByRole("button", { name: "1 new job", exact: false }).waitFor();
  check((await page.getByRole("button", { name: /2 new/ }).count()) === 0, "a job that is not due is not announced as available");
  await go("jobs?queue=arrivals&state=dead");
  await ready(page);
  const { jobs } = await call(url, "POST", "/v1/claim", { worker: "w-arrivals", queues: ["arrivals"], job: id, lease: "10m" });
  const trace = 'Traceback (most recent call last):\n  File "a.py", line 1, in <module>\nKeyError: order 17';
  await call(url, "POST", "/v1/finish", { worker: "w-arrivals", results: [{ id, token: jobs[0].token, outcome: "dead", reason: "failed", description: `exit code 1: ${trace}` }] });
  await page.getByRole("button", { name: /1 new job/ }).click();
  await page.locator("tbody").getByRole("link", { name: String(id), exact: true }).waitFor();
  check(await page.getByText("exit code 1: KeyError: order 17").count(), "the list has the exception, not the first line of its traceback");
  // A fast bulk action is over before it is seen running.
  await page.locator("tbody input").first().check();
  await page.getByRole("toolbar").getByRole("button", { name: "Delete", exact: true }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Delete (1)" }).click();
  await page.waitForFunction(() => document.querySelectorAll("tbody tr").length === 0);
}

// A schedule with more ticks than are listed has a band over the rest of the time.
export async function timelineBand({ page, go, url }) {
  await call(url, "PUT", "/v1/schedules/often", { every: "1m", job: { queue: "often", kind: "k" }, paused: false });
  await go("schedules?span=7d");
  await page.reload();
  const row = page.getByRole("img", { name: /^often: .*; every 1m, from / });
  await row.waitFor();
  await row.locator("text").filter({ hasText: "every 1m" }).waitFor();
  check((await page.getByText("Some ticks are not drawn").count()) === 0, "nothing is left out");
  await call(url, "DELETE", "/v1/schedules/often");
}

// The page of a limit key explains the job that waits longest, also among more jobs than it lists.
export async function longestWaiting({ page, go, url }) {
  const made = await call(url, "POST", "/v1/jobs", { queue: "keyed", kind: "first", limit_key: "acme" });
  const many = Array.from({ length: 150 }, () => ({ queue: "keyed", kind: "later", limit_key: "acme" }));
  await call(url, "POST", "/v1/jobs", { jobs: many });
  await go("queues/keyed/keys/acme");
  await page.getByText(`Why does job ${made.id} wait?`).waitFor();
  const available = page.getByRole("region", { name: /^Available/ });
  check((await available.getByRole("link").first().textContent()).startsWith(String(made.id)), "the job that waits longest is listed first");
}

// Back leads to the row that was left.
export async function backToRow({ page, go, url }) {
  await call(url, "POST", "/v1/jobs", { jobs: Array.from({ length: 50 }, () => ({ queue: "long-list", kind: "k" })) });
  await go("jobs?queue=long-list");
  await ready(page);
  await page.evaluate(() => scrollTo(0, 700));
  await page.waitForFunction(() => history.state?.y === 700);
  await page.locator("tbody tr").nth(20).locator("a").first().click();
  await page.waitForURL(/#\/jobs\/\d+$/);
  await page.waitForFunction(() => scrollY === 0);
  await page.goBack();
  await page.waitForFunction(() => scrollY === 700);
}

// From a job back to the list with its filters, also after the job was deleted.
export async function backToList({ page, go, url }) {
  const made = await call(url, "POST", "/v1/jobs", { jobs: Array.from({ length: 3 }, () => ({ queue: "kept/filters:1", kind: "k" })) });
  for (const { id } of made.jobs) await call(url, "POST", `/v1/jobs/${id}/cancel`);
  await go("jobs?queue=kept%2Ffilters%3A1&state=cancelled");
  await ready(page);
  await page.getByRole("link", { name: String(made.jobs[0].id), exact: true }).click();
  await page.getByRole("link", { name: "Back to the list" }).click();
  await page.waitForURL(/#\/jobs\?queue=kept%2Ffilters%3A1&state=cancelled$/);
  await ready(page);
  await page.getByRole("link", { name: String(made.jobs[1].id), exact: true }).click();
  await page.getByRole("button", { name: "Delete", exact: true }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Delete", exact: true }).click();
  await page.waitForURL(/#\/jobs\?queue=kept%2Ffilters%3A1&state=cancelled$/);
  await page.waitForFunction(() => document.querySelectorAll("tbody tr").length === 2);
  check(!(await page.getByRole("link", { name: String(made.jobs[1].id), exact: true }).count()), "the deleted job has left the list");
  // An action on selected rows keeps the filters too.
  await page.locator("tbody input").first().check();
  await page.getByRole("toolbar").getByRole("button", { name: "Delete", exact: true }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Delete (1)" }).click();
  await page.waitForFunction(() => /1 of 1/.test(document.body.textContent));
  check(/queue=kept%2Ffilters%3A1&state=cancelled$/.test(page.url()), "a bulk action keeps the filters");
}

// With a filter for which no count is kept, the server counts when it is asked.
export async function counting({ page, go, url }) {
  const jobs = [...Array.from({ length: 4 }, () => ({ queue: "counted", kind: "a" })), { queue: "counted", kind: "b" }];
  const made = await call(url, "POST", "/v1/jobs", { jobs });
  await call(url, "POST", `/v1/jobs/${made.jobs[0].id}/cancel`);
  await go("jobs?queue=counted");
  await ready(page);
  await page.getByRole("link", { name: /^any state\s*5$/ }).waitFor();
  check((await page.getByRole("button", { name: "Count the jobs that match" }).count()) === 0, "an exact count needs no button");
  await page.locator(".filters").getByLabel("Kind").fill("a");
  await page.keyboard.press("Enter");
  await page.waitForURL(/queue=counted&kind=a/);
  await page.waitForFunction(() => document.querySelectorAll("tbody tr").length === 4);
  check((await page.locator(".tab-count").count()) === 0, "no count is shown that ignores the filter");
  await page.getByRole("button", { name: "Count the jobs that match" }).click();
  await page.getByText(/^4 jobs match,/).waitFor();
  await page.getByRole("link", { name: /^cancelled/ }).click();
  await page.getByRole("button", { name: "Count the jobs that match" }).click();
  await page.getByText(/^1 job matches,/).waitFor();
}

// A filter shows only the dead jobs of the last night, not those of last month.
export async function errorsSince({ page, go }) {
  await alterAnswers(page, "**/v1/dead/groups*", (body) => {
    for (const group of body.groups) group.last.at = new Date(Date.now() - 30 * 3_600_000).toISOString();
    return body;
  });
  await go("errors");
  await ready(page);
  const rows = page.getByRole("table", { name: "Errors" }).locator("tbody tr");
  const all = await rows.count();
  check(all > 0, "without a window all groups are listed");
  await page.getByRole("combobox", { name: /^Died/ }).selectOption("24h");
  await page.waitForURL(/since=24h/);
  await page.getByText(`0 of ${all} groups have a job that died in this period.`, { exact: false }).waitFor();
  await page.getByRole("combobox", { name: /^Died/ }).selectOption("7d");
  await page.getByText(`${all} of ${all} groups`, { exact: false }).waitFor();
  check((await rows.count()) === all, "a window that reaches back lists them again");
  await page.unroute("**/v1/dead/groups*");
}

// A job that failed often shows its newest attempts first, and all of them on demand.
export async function manyAttempts({ page, go, url }) {
  const { id } = await call(url, "POST", "/v1/jobs", { queue: "failing", kind: "k", max_attempts: 100 });
  for (let i = 1; i <= 45; ++i) {
    const { jobs } = await call(url, "POST", "/v1/claim", { worker: "w-failing", queues: ["failing"], job: id, lease: "10m" });
    await call(url, "POST", "/v1/finish", { worker: "w-failing", results: [{ id, token: jobs[0].token, outcome: "retry", error: `error of attempt ${i}`, after: "0s" }] });
  }
  await go(`jobs/${id}`);
  await ready(page);
  const errors = page.getByRole("region", { name: "Errors (45)" });
  await errors.getByText("error of attempt 45").waitFor();
  check((await errors.locator("details").count()) === 20, "the newest 20 attempts are shown");
  await page.getByText("25 earlier attempts failed, since").waitFor();
  await errors.getByRole("button", { name: "Show all 45" }).click();
  check((await errors.locator("details").count()) === 45, "all attempts are shown on demand");
}

// Passwords and the like are covered until the viewer asks for them, in the list and on the page.
export async function covered({ page, go, url }) {
  const args = { user: "anna", password: "hunter2", nested: { api_key: "k-123", list: [1] }, credentials: { login: "root" }, tokens_used: 12, secret: "" };
  const { id } = await call(url, "POST", "/v1/jobs", { queue: "covered", kind: "k", args });
  await go("jobs?queue=covered");
  await ready(page);
  check(!/hunter2|k-123|root/.test(await page.locator("table").innerHTML()), "the list covers secrets, also in its tooltips");
  check(/anna/.test(await page.locator("table").textContent()), "but not other values");
  await go(`jobs/${id}`);
  const panel = page.getByRole("region", { name: "Args" }).first();
  await panel.getByText("hunter2").waitFor({ state: "detached" });
  check(/"tokens_used": 12/.test(await panel.textContent()), "a number is not a secret");
  await panel.getByLabel("Show 3 hidden values").check();
  await panel.getByText(/hunter2[^]*k-123[^]*root/).first().waitFor();
}

// An administrator chooses further keys of a kind. Their values are hidden for every viewer, wherever args are shown.
export async function hiddenKeys({ page, go, url, browser }) {
  const args = { user: "anna", iban: "DE12 3456", order: { card: 4111_1111_1111_1111 } };
  const made = await call(url, "POST", "/v1/jobs", { jobs: [{ queue: "banking", kind: "charge", args }, { queue: "banking", kind: "other", args }] });
  const secret = /DE12 3456|4111111111111111/;
  await go("system");
  await ready(page);
  const dialog = page.getByRole("dialog");
  await page.getByRole("button", { name: "Hide keys" }).click();
  await dialog.getByLabel("Kind").fill("charge");
  await dialog.getByLabel("Keys").fill("iban card");
  await dialog.getByRole("button", { name: "Save" }).click();
  await page.getByRole("table", { name: "Hidden keys" }).getByText("iban card").waitFor();
  const other = await open(browser, url);
  await other.go(`jobs?queue=banking&kind=charge`);
  await ready(other.page);
  check(!secret.test(await other.page.locator("table").innerHTML()), "the list hides the chosen keys");
  await other.go(`jobs/${made.jobs[0].id}`);
  const panel = other.page.getByRole("region", { name: "Args" }).first();
  await panel.getByText(/anna/).first().waitFor();
  check(!secret.test(await other.page.content()), "the job's page hides them, a number too");
  await panel.getByLabel("Show 2 hidden values").check();
  await panel.getByText(/DE12 3456/).first().waitFor();
  await other.go(`jobs/${made.jobs[0].id}/compare/${made.jobs[0].id}`);
  await other.page.getByText("Both are the same.").first().waitFor();
  check(!secret.test(await other.page.content()), "the comparison hides them");
  await other.go(`jobs/${made.jobs[1].id}`);
  await other.page.getByText(/DE12 3456/).first().waitFor(); // of another kind
  await other.context.close();
  await page.getByRole("table", { name: "Hidden keys" }).getByRole("button", { name: "Remove" }).click();
  await page.getByRole("table", { name: "Hidden keys" }).waitFor({ state: "detached" });
  check((await call(url, "GET", "/v1/views")).views.every((view) => view.name !== "hidden-keys"), "the last chosen key removes the view");
}

// The jobs of a rare error are listed, also if hundreds of other errors are newer.
export async function rareError({ page, go, url }) {
  const die = async (n, description) => {
    await call(url, "POST", "/v1/jobs", { jobs: Array.from({ length: n }, () => ({ queue: "dying", kind: "k" })) });
    const { jobs } = await call(url, "POST", "/v1/claim", { worker: "w-dying", queues: ["dying"], max: n, lease: "10m" });
    const results = jobs.map(({ id, token }) => ({ id, token, outcome: "dead", reason: "failed", description }));
    await call(url, "POST", "/v1/finish", { worker: "w-dying", results });
    return jobs;
  };
  const [rare] = await die(1, "RareError: once in a while");
  await die(450, "CommonError: again and again");
  await go("errors?queue=dying");
  await page.getByRole("link", { name: "RareError: once in a while" }).click();
  await page.locator("#group").getByRole("link", { name: String(rare.id), exact: true }).waitFor();
  await go("errors?queue=dying");
  await page.getByRole("link", { name: "CommonError: again and again" }).click();
  await page.getByRole("heading", { name: "k: 450 dead" }).waitFor();
  await page.waitForFunction(() => document.querySelectorAll("#group li").length === 50);
}

// While many jobs die, an open page asks for their groups every 2 seconds at most; the last one still shows.
export async function burst({ page, go, url }) {
  await go("errors?queue=bursting");
  await ready(page);
  await page.getByText("Live").waitFor();
  let requests = 0;
  page.on("request", (request) => void (requests += request.url().includes("/v1/dead/groups") ? 1 : 0));
  const from = performance.now();
  for (let i = 1; i <= 30; ++i) {
    const { id } = await call(url, "POST", "/v1/jobs", { queue: "bursting", kind: "k" });
    const { jobs } = await call(url, "POST", "/v1/claim", { worker: "w-bursting", queues: ["bursting"], job: id, lease: "10m" });
    await call(url, "POST", "/v1/finish", { worker: "w-bursting", results: [{ id, token: jobs[0].token, outcome: "dead", reason: "failed", description: "Burst" }] });
  }
  await page.getByRole("table", { name: "Errors" }).locator("tbody td.numeric", { hasText: /^30$/ }).first().waitFor();
  const most = (performance.now() - from) / 2_000 + 2;
  check(requests >= 1 && requests <= most, `${requests} requests for groups, at most ${most.toFixed(1)}`);
}

// A heading of the jobs table sorts all that match, not only the rows that were shown.
export async function sortingAll({ page, go, url }) {
  const jobs = Array.from({ length: 120 }, (_, i) => ({ queue: "sorted-all", kind: "k", priority: i === 3 ? 0 : 5 + (i % 4) }));
  const made = await call(url, "POST", "/v1/jobs", { jobs });
  await go("jobs?queue=sorted-all&sort=id");
  await ready(page);
  const first = () => page.locator("tbody tr").first().getByRole("link").first().textContent();
  await page.locator("tbody tr").nth(49).waitFor();
  check((await first()) === String(made.jobs[0].id), `the oldest of 120 jobs comes first: ${await first()}`);
  await page.getByRole("button", { name: "Show 50 more of 120" }).click();
  await page.locator("tbody tr").nth(99).waitFor();
  await page.getByRole("button", { name: "Show 20 more of 120" }).click();
  await page.locator("tbody tr").nth(119).waitFor();
  await page.getByRole("columnheader", { name: "Job" }).getByRole("link").click();
  await page.waitForURL((address) => !address.hash.includes("sort=id"));
  await page.waitForFunction((id) => document.querySelector("tbody tr a")?.textContent === id, String(made.jobs[119].id));
}

// More schedules than are drawn at once are drawn 40 at a time.
export async function timelineRows({ browser, url }) {
  const { context, page, go } = await open(browser, url);
  await page.clock.install();
  const name = (i) => `zz-${String(i).padStart(2, "0")}`;
  for (let i = 0; i < 41; ++i) await call(url, "PUT", `/v1/schedules/${name(i)}`, { cron: "0 4 1 1 *", job: { queue: "many", kind: "k" } });
  await go("schedules?find=zz-");
  await page.getByText("Schedules 1 to 40 of 41 are drawn.").waitFor();
  await page.getByRole("link", { name: "Next schedules" }).click();
  await page.waitForURL(/row=40/);
  await page.getByText("Schedules 41 to 41 of 41 are drawn.").waitFor();
  await page.getByRole("link", { name: "Previous schedules" }).click();
  await page.getByText("Schedules 1 to 40 of 41 are drawn.").waitFor();
  // None has a tick in the span, until one does.
  await page.getByText("No tick in this period.").waitFor();
  await call(url, "POST", `/v1/schedules/${name(7)}/trigger`);
  const tick = page.getByRole("img", { name: /^zz-07: 1 past/ });
  // The timeline is read again at most every 30 s.
  for (let i = 0; i < 100 && (await tick.count()) === 0; ++i) {
    await page.clock.runFor("00:05");
    await tick.waitFor({ timeout: 500 }).catch(() => {}); // the page's clock is ahead of the server's answers
  }
  check((await tick.count()) === 1, "a timeline without ticks draws the first one");
  for (let i = 0; i < 41; ++i) await call(url, "DELETE", `/v1/schedules/${name(i)}`);
  await context.close();
}

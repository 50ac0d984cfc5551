// The actions of the pages that have few: each is pressed, and its effect is looked up on the server.
import { alterAnswers, call, check, eventually, ready } from "./support.mjs";

const dialogOf = (page) => page.getByRole("dialog");
const field = (page, label) =>
  dialogOf(page).locator("label.field").filter({ has: page.locator(".field-label", { hasText: new RegExp(`^${label}$`) }) }).locator("input, textarea, select");
const press = (page, name) => page.getByRole("button", { name, exact: true }).first().click();
const answer = (page, name) => dialogOf(page).getByRole("button", { name, exact: true }).click();
const closed = (page) => dialogOf(page).waitFor({ state: "detached" });
const rowOf = (page, text) => page.locator("tbody tr", { hasText: text });

// How the program of an attempt ended is shown with its error.
export async function programOutcome({ page, go, url }) {
  const { id } = await call(url, "POST", "/v1/jobs", { queue: "programs", kind: "k" });
  const ends = [{ exit_code: 3, peak_memory: 5 * 1024 ** 2 }, { signal: "SIGKILL", oom: true }];
  for (const end of ends) {
    const { jobs } = await call(url, "POST", "/v1/claim", { worker: "w-programs", queues: ["programs"], job: id, lease: "10m" });
    await call(url, "POST", "/v1/finish", { worker: "w-programs", results: [{ id, token: jobs[0].token, outcome: "retry", error: "ended", after: "0s", ...end }] });
  }
  await go(`jobs/${id}`);
  const errors = page.getByRole("region", { name: "Errors (2)" });
  await errors.getByText("exit code 3").waitFor();
  const text = await errors.textContent();
  for (const part of ["exit code 3", "peak memory 5.0 MiB", "signal SIGKILL", "out of memory"]) check(text.includes(part), `an attempt says "${part}": ${text}`);
}

// Dead jobs of one group, the first of which died before `from`, the others later.
async function twoNights(url, queue) {
  const die = async (descriptions) => {
    await call(url, "POST", "/v1/jobs", { jobs: descriptions.map(() => ({ queue, kind: "k" })) });
    const { jobs } = await call(url, "POST", "/v1/claim", { worker: "w-redriven", queues: [queue], max: descriptions.length, lease: "10m" });
    const results = jobs.map(({ id, token }, i) => ({ id, token, outcome: "dead", reason: "failed", description: descriptions[i] }));
    await call(url, "POST", "/v1/finish", { worker: "w-redriven", results });
    return jobs.map(({ id }) => String(id));
  };
  const early = await die(["Gateway timeout", "Gateway timeout", "Bad address"]);
  return { early, late: await die(["Gateway timeout", "Gateway timeout", "Gateway timeout"]) };
}

// One group of dead jobs is redriven, and listed before; other groups stay dead.
export async function redrive({ page, go, url }) {
  const { early, late } = await twoNights(url, "redriven");
  await go("errors?queue=redriven");
  await rowOf(page, "Gateway timeout").getByRole("button", { name: "Redrive" }).click();
  await dialogOf(page).getByRole("heading", { name: "Redrive 5 jobs" }).waitFor();
  await dialogOf(page).getByText("5 jobs of redriven died with this error and are dead now.").waitFor();
  const listed = async () => (await dialogOf(page).locator(".preview a").allTextContents()).join(" ");
  check((await listed()) === [...early.slice(0, 2), ...late].join(" "), `the dialog lists what is taken: ${await listed()}`);
  await field(page, "Maximum number of jobs").fill("4");
  await dialogOf(page).getByRole("heading", { name: "Redrive 4 jobs" }).waitFor();
  check(!(await listed()).split(" ").includes(late[2]), "the oldest are taken");
  await field(page, "Rate").fill("100/s");
  await dialogOf(page).getByLabel(/Canary/).uncheck();
  await answer(page, "Redrive");
  await page.waitForURL(/#\/jobs\/\d+$/);
  await page.locator(".page-head .state-completed").waitFor();
  const { counts } = await call(url, "GET", "/v1/queues/redriven");
  check(counts.available === 4 && counts.dead === 2, `one group is redriven: ${JSON.stringify(counts)}`);
  check((await call(url, "GET", `/v1/jobs/${late[2]}`)).state === "dead", "and of it no more than was asked for");
}

// Only jobs that died in the chosen period are listed, counted and redriven. A canary waits for the viewer.
export async function redrivePeriod({ page, go, url }) {
  const { early, late } = await twoNights(url, "two-nights");
  // The early ones died three hours ago.
  await alterAnswers(page, "**/v1/dead?*", (body) => {
    for (const job of body.jobs) if (early.includes(String(job.id))) job.finished_at = new Date(Date.now() - 3 * 3_600_000).toISOString();
    return body;
  });
  await go("errors?queue=two-nights&since=1h");
  await rowOf(page, "Gateway timeout").locator(".spark .note", { hasText: /^3$/ }).waitFor();
  await rowOf(page, "Gateway timeout").getByRole("link").first().click();
  await page.getByRole("heading", { name: "Newest jobs of the period" }).waitFor();
  await page.locator("#group .plain-list li").nth(2).waitFor();
  check((await page.locator("#group .plain-list li").count()) === 3, "a group lists those of the period");
  await rowOf(page, "Gateway timeout").getByRole("button", { name: "Redrive" }).click();
  await dialogOf(page).getByRole("heading", { name: "Redrive 3 jobs" }).waitFor();
  await dialogOf(page).getByRole("combobox", { name: /^Died/ }).selectOption("24h");
  await dialogOf(page).getByRole("heading", { name: "Redrive 5 jobs" }).waitFor();
  await dialogOf(page).getByRole("combobox", { name: /^Died/ }).selectOption("custom");
  await dialogOf(page).getByLabel(/^from/).fill(await page.evaluate(() => {
    const hourAgo = new Date(Date.now() - 3_600_000 - new Date().getTimezoneOffset() * 60_000);
    return hourAgo.toISOString().slice(0, 16);
  }));
  await dialogOf(page).getByText("3 jobs of two-nights died with this error in this period and are dead now.").waitFor();
  const listed = (await dialogOf(page).locator(".preview a").allTextContents()).join(" ");
  check(listed === [...late].reverse().join(" "), `the dialog lists those of the period: ${listed}`);
  await answer(page, "Redrive");
  await closed(page);
  const bulk = page.getByRole("region", { name: "Bulk actions" });
  await bulk.getByRole("button", { name: "Continue" }).first().waitFor();
  const counts = async () => (await call(url, "GET", "/v1/queues/two-nights")).counts;
  check((await counts()).available === 1, "the canary takes one job");
  await bulk.getByRole("button", { name: "Continue" }).first().click();
  await eventually(counts, (now) => now.available === 3 && now.dead === 3, "those of the period are redriven, and no other");
  for (const id of early) check((await call(url, "GET", `/v1/jobs/${id}`)).state === "dead", `job ${id} died earlier and stays dead`);
  await page.unroute("**/v1/dead?*");
}

// A schedule is created with a preview, run, edited, backfilled and removed.
export async function oneSchedule({ page, go, url }) {
  await go("schedules");
  await ready(page);
  await press(page, "New schedule");
  await field(page, "Name").fill("made-here");
  await field(page, "When").fill("15 3 * * *");
  await field(page, "Time zone").fill("Asia/Tokyo");
  await field(page, "Kind").fill("report");
  await press(page, "Preview the next ticks");
  check(/03:15:00/.test(await dialogOf(page).locator(".ticks li").first().textContent()), "the preview shows ticks in the schedule's zone");
  await answer(page, "Save");
  await closed(page);
  await page.locator("tbody").getByRole("link", { name: "made-here" }).click();
  await press(page, "Run now");
  await eventually(() => call(url, "GET", "/v1/schedules/made-here"), (one) => one.fired === 1, "a schedule is run now");
  await press(page, "Edit schedule");
  await field(page, "Missed ticks").selectOption("all");
  await answer(page, "Save");
  await closed(page);
  check((await call(url, "GET", "/v1/schedules/made-here")).misfire === "all", "a schedule is edited");
  await press(page, "Pause");
  await field(page, "Reason").fill("holiday");
  await answer(page, "Pause");
  await page.locator(".page-head", { hasText: "holiday" }).waitFor();
  await press(page, "Resume");
  await page.locator(".page-head .state-paused").waitFor({ state: "detached" });
  await press(page, "Backfill");
  await field(page, "from ?").fill("2026-01-01T00:00");
  await field(page, "to ?").fill("2026-01-03T00:00");
  await answer(page, "Backfill");
  await page.getByText(/jobs are enqueued/).waitFor();
  await press(page, "Remove");
  await answer(page, "Remove");
  await page.waitForURL(/#\/schedules$/);
  check((await fetch(`${url}/v1/schedules/made-here`)).status === 404, "a schedule is removed");
}

// A workflow is started, paused, signalled, cancelled and forked from a step.
export async function workflow({ page, go, url }) {
  await go("workflows");
  await ready(page);
  await press(page, "Start a workflow");
  await answer(page, "Start a workflow");
  await page.waitForURL(/#\/workflows\/\d+$/);
  const id = page.url().split("/").pop();
  const state = () => call(url, "GET", `/v1/workflows/${id}`);
  await page.locator(".graph").getByRole("link", { name: "reserve waiting for a worker" }).waitFor();
  await press(page, "Pause");
  await page.getByRole("button", { name: "Resume", exact: true }).waitFor();
  check((await state()).paused, "a workflow is paused");
  await press(page, "Resume");
  await page.getByRole("button", { name: "Pause", exact: true }).waitFor();
  await press(page, "Send a signal");
  await field(page, "Name").fill("approved");
  await field(page, "Payload").fill('{"by":"anna"}');
  await answer(page, "Send a signal");
  await page.getByText("Signal approved is sent").waitFor();
  await press(page, "Cancel");
  await answer(page, "Cancel");
  await page.locator(".page-head .state-cancelled, .page-head .state-undone").waitFor();
  await press(page, "Run again from a step");
  await answer(page, "Run again from a step");
  await page.waitForURL((address) => /#\/workflows\/\d+$/.test(address.hash) && !address.hash.endsWith(`/${id}`));
  await page.getByText("Forked from").waitFor();
}

// A breaker is created, opened, closed and removed; opening and removing ask first.
export async function breakers({ page, go, url }) {
  await go("breakers");
  await ready(page);
  await press(page, "New breaker");
  await field(page, "Name").fill("made-here");
  await answer(page, "Save");
  await closed(page);
  const state = async () => (await call(url, "GET", "/v1/breakers/made-here")).state;
  await rowOf(page, "made-here").getByRole("button", { name: "Open" }).click();
  check((await state()) === "closed", "nothing is opened before the answer");
  await answer(page, "Open");
  await rowOf(page, "made-here").locator(".state-open").waitFor();
  await rowOf(page, "made-here").getByRole("button", { name: "Close" }).click();
  await rowOf(page, "made-here").locator(".state-closed").waitFor();
  check((await state()) === "closed", "a breaker is closed");
  await rowOf(page, "made-here").getByRole("button", { name: "Remove" }).click();
  await answer(page, "Remove");
  await rowOf(page, "made-here").waitFor({ state: "detached" });
}

// A lock is released after a question that names its holder.
export async function locks({ page, go, url }) {
  await call(url, "POST", "/v1/leases/nightly%2Frun/acquire", { holder: "web-7", ttl: "10m" });
  await go("locks");
  await rowOf(page, "nightly/run").getByRole("button", { name: "Release" }).click();
  await dialogOf(page).getByText(/web-7 may still work/).waitFor();
  await answer(page, "Release");
  await page.getByText("Lock nightly/run is released").waitFor();
  check((await fetch(`${url}/v1/leases/nightly%2Frun`)).status === 404, "a lock is released");
}

// A trigger is created, fired, paused and removed.
export async function triggers({ page, go, url }) {
  await go("triggers");
  await ready(page);
  await press(page, "New trigger");
  await field(page, "Name").fill("made-here");
  await answer(page, "Save");
  await closed(page);
  await page.getByText("The trigger's secret, shown once:").waitFor();
  await page.locator("tbody").getByRole("link", { name: "made-here" }).click();
  await press(page, "Edit");
  await dialogOf(page).locator("textarea").fill('{"http":{},"job":{"queue":"fired","kind":"k","args":{"order":{"$ref":"body.order"}}}}');
  await answer(page, "Save");
  await closed(page);
  await press(page, "Fire now");
  await field(page, "Body").fill('{"order":4711}');
  await answer(page, "Fire now");
  await closed(page);
  const made = await page.getByRole("region", { name: "Ledger" }).getByRole("link").first().textContent();
  check((await call(url, "GET", `/v1/jobs/${made}`)).args.order === 4711, "a trigger is fired with a body");
  await press(page, "Pause");
  await field(page, "Reason").fill("flood");
  await answer(page, "Pause");
  await page.locator(".page-head .state-paused").waitFor();
  check((await call(url, "GET", "/v1/triggers/made-here")).paused_reason === "flood", "a trigger is paused with a reason");
  await press(page, "Remove");
  await answer(page, "Remove");
  await page.waitForURL(/#\/triggers$/);
}

// A token's text is shown once; a revoked token says so.
export async function tokens({ page, go }) {
  await go("tokens");
  await ready(page);
  await press(page, "New token");
  await field(page, "Name").fill("made-here");
  await field(page, "Scopes").fill("read enqueue=mails");
  await answer(page, "Create");
  await page.locator(".once code", { hasText: /^mst_/ }).waitFor();
  await page.reload();
  await rowOf(page, "made-here").waitFor();
  check((await page.locator(".once").count()) === 0, "a token's text is not shown again");
  await rowOf(page, "made-here").getByRole("button", { name: "Revoke" }).click();
  await answer(page, "Revoke");
  await rowOf(page, "made-here").getByText("revoked", { exact: true }).waitFor();
}

// A continuous timer is woken and paused, and its time limit is changed.
export async function timers({ page, go, url }) {
  await call(url, "PUT", "/v1/schedules/outbox", { every: "1h", continuous: { timeout: "10m" }, job: { queue: "timers", kind: "outbox" } });
  const state = () => call(url, "GET", "/v1/schedules/outbox");
  await go("timers");
  const row = rowOf(page, "outbox");
  await row.getByRole("button", { name: "Wake" }).click();
  await page.getByText("outbox: done").first().waitFor();
  await row.getByRole("button", { name: "Time limit" }).click();
  await field(page, "Time limit of a run").fill("5m");
  await answer(page, "Save");
  await closed(page);
  check((await state()).timeout_override === "5m", "the time limit is changed");
  await row.getByRole("button", { name: "Pause" }).click();
  await field(page, "Reason").fill("night");
  await answer(page, "Pause");
  await row.locator(".state-paused").waitFor();
  check((await state()).paused_reason === "night", "a timer is paused with a reason");
  await press(page, "New timer");
  await field(page, "Name").fill("made-here");
  await field(page, "Kind").fill("batch");
  await field(page, "Time limit of a run").fill("10m");
  await answer(page, "Save");
  await rowOf(page, "made-here").waitFor();
  const made = await call(url, "GET", "/v1/schedules/made-here");
  check(made.continuous.timeout === "10m" && made.job.max_attempts === 3 && made.job.timeout === "none", `a timer is created: ${JSON.stringify(made)}`);
  await call(url, "DELETE", "/v1/schedules/made-here");
}

// A job that lost its worker is retried or cancelled by hand; cancelling asks first.
export async function quarantine({ page, go, url }) {
  await call(url, "PUT", "/v1/queues/crashing/limits", { quarantine_after: 1 });
  const { id } = await call(url, "POST", "/v1/jobs", { queue: "crashing", kind: "k" });
  await go("quarantine");
  await page.getByText("Live").waitFor();
  const { jobs } = await call(url, "POST", "/v1/claim", { worker: "w-crashing", queues: ["crashing"], max: 1, lease: "1s" });
  // A job that was never renewed has not started: its loss does not count.
  await call(url, "POST", "/v1/renew", { worker: "w-crashing", leases: jobs.map(({ id, token }) => ({ id, token })) });
  await rowOf(page, String(id)).getByRole("button", { name: "Cancel" }).click();
  await dialogOf(page).getByRole("heading", { name: `Cancel job ${id}?` }).waitFor();
  await answer(page, "Cancel");
  await eventually(() => call(url, "GET", `/v1/jobs/${id}`), (job) => job.state === "cancelled", "a job in quarantine is cancelled");
}

// The audit is filtered, and leads to what was changed; the store is checked.
export async function auditAndCheck({ page, go, url }) {
  await call(url, "POST", "/v1/jobs", { queue: "audited", kind: "k" });
  await call(url, "POST", "/v1/queues/audited/pause", { reason: "audit" });
  await go("audit");
  await ready(page);
  await page.getByLabel("Object").fill("queue/audited");
  await press(page, "Filter");
  await page.waitForURL(/object=queue%2Faudited/);
  await page.locator("tbody").getByRole("link", { name: "queue/audited" }).first().click();
  await page.getByRole("heading", { name: "audited", level: 1 }).waitFor();
  await go("system");
  await ready(page);
  await press(page, "Check now");
  await page.getByText(/^No problems: [\d,]+ jobs were checked\./).waitFor();
}

// A job folder is run with arguments, gets settings and new files.
export async function folder({ page, go, url }) {
  const { jobs: folders } = await call(url, "GET", "/v1/host/jobs").catch(() => ({ jobs: [] }));
  if (folders.length === 0) return; // only one of the stores is tested with job folders
  await go("folders/triggered/report");
  await ready(page);
  await press(page, "Run");
  await field(page, "Arguments").fill("--month 2026-10");
  await answer(page, "Run");
  await page.waitForURL(/run=/);
  await page.getByRole("log").getByText("Status changed to Success").waitFor();
  await press(page, "Settings");
  await page.waitForFunction(() => document.querySelector("dialog textarea").value.startsWith("{"));
  await dialogOf(page).locator("textarea").fill('{"schedule": "0 30 2 * * *"}');
  await answer(page, "Save");
  await closed(page);
  check((await call(url, "GET", "/v1/host/jobs/triggered/report/settings")).schedule === "0 30 2 * * *", "settings are saved");
  await page.getByLabel("Deploy", { exact: true }).and(page.locator("input")).setInputFiles({ name: "run.sh", mimeType: "text/plain", buffer: Buffer.from("#!/bin/sh\necho deployed here\n") });
  await dialogOf(page).getByText("run.sh replaces all files of the job.").waitFor();
  await answer(page, "Deploy");
  await page.getByText("report is deployed").waitFor();
  // The log says how a run ended a little before the run has ended.
  for (;;) {
    const { runs } = await call(url, "GET", "/v1/host/jobs/triggered/report/history");
    if (runs.every((run) => run.ended !== undefined)) break;
  }
  await press(page, "Run");
  await answer(page, "Run");
  await page.getByRole("log").getByText("deployed here").waitFor();
}

// A session that a dead job stopped says so, where the next job waits, and continues when it is resumed.
export async function sessions({ page, go, url }) {
  const job = { queue: "accounts", kind: "k", session: "customer/7", session_on_dead: "block" };
  const made = await call(url, "POST", "/v1/jobs", { jobs: [job, job] });
  const { jobs } = await call(url, "POST", "/v1/claim", { worker: "w-accounts", queues: ["accounts"], max: 1, lease: "10m" });
  await call(url, "POST", "/v1/finish", { worker: "w-accounts", results: [{ id: jobs[0].id, token: jobs[0].token, outcome: "dead", reason: "failed", description: "no" }] });
  await go(`jobs/${made.jobs[1].id}`);
  await page.getByRole("link", { name: "Its session" }).click();
  await page.waitForURL(/#\/sessions\?queue=accounts/);
  await rowOf(page, "customer/7").getByText("blocked").waitFor();
  await rowOf(page, "customer/7").getByRole("button", { name: "Resume" }).click();
  await page.getByText("Session customer/7 continues").waitFor();
  check((await call(url, "GET", "/v1/queues/accounts/sessions/customer%2F7")).stop === "none", "a session is resumed");
  // Without a queue in the address, the first one that has sessions is shown.
  await go("");
  await go("sessions");
  await page.locator("tbody tr").first().waitFor();
}

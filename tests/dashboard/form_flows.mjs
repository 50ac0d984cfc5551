// Forms and dialogs: what the viewer typed stays, and what another viewer changed is not overwritten.
import { call, check, ready } from "./support.mjs";

const dialogOf = (page) => page.getByRole("dialog");
const press = (page, name) => page.getByRole("button", { name, exact: true }).first().click();
const answer = (page, name) => dialogOf(page).getByRole("button", { name, exact: true }).click();

const field = (page, label) =>
  dialogOf(page).locator("label.field").filter({ has: page.locator(".field-label", { hasText: new RegExp(`^${label}$`) }) }).locator("input");

// Makes one job of the queue die.
async function die(url, queue) {
  await call(url, "POST", "/v1/jobs", { queue, kind: "k" });
  const { jobs } = await call(url, "POST", "/v1/claim", { worker: "w-forms", queues: [queue], lease: "10m" });
  const [{ id, token }] = jobs;
  await call(url, "POST", "/v1/finish", { worker: "w-forms", results: [{ id, token, outcome: "dead", reason: "failed", description: queue }] });
}

// A filter that is being typed survives the updates of its page.
export async function typedFilters({ page, go, url }) {
  await go("jobs?state=available");
  await ready(page);
  await page.getByText("Live").waitFor();
  const queue = page.locator(".filters").getByLabel("Queue");
  await queue.pressSequentially("pho");
  const counted = page.locator(".tab-count").first();
  const before = await counted.textContent();
  await call(url, "POST", "/v1/jobs", { queue: "typing", kind: "k" });
  await page.waitForFunction((old) => document.querySelector(".tab-count")?.textContent !== old, before);
  check((await queue.inputValue()) === "pho", `the queue that is typed stays: ${await queue.inputValue()}`);
  await queue.fill("");
  await go("errors");
  await ready(page);
  await page.getByText("Live").waitFor();
  const dead = page.locator(".filters").getByLabel("Queue");
  await dead.pressSequentially("pho");
  await die(url, "typing-dies");
  await page.getByRole("link", { name: "typing-dies" }).waitFor();
  check((await dead.inputValue()) === "pho", `a filter of the errors stays: ${await dead.inputValue()}`);
  const held = [];
  await page.route("**/v1/audit?*", (route) => void held.push(route));
  await go("audit");
  const who = page.locator(".filters").getByLabel("Who");
  await who.pressSequentially("ann");
  for (const route of held) await route.continue().catch(() => {}); // a request that was replaced is given up
  await page.unroute("**/v1/audit?*");
  await page.getByRole("table", { name: "Audit" }).waitFor();
  check((await who.inputValue()) === "ann", `a filter of the audit stays: ${await who.inputValue()}`);
}

// A trigger that is changed to HTTP gets a secret, which is shown once.
export async function triggerSecret({ page, go, url }) {
  await call(url, "PUT", "/v1/triggers/by-end", { ended: { queue: "forms" }, job: { queue: "forms-2", kind: "k" } });
  await go("triggers/by-end");
  await press(page, "Edit");
  await dialogOf(page).locator("textarea").fill('{"http":{},"job":{"queue":"forms-2","kind":"k"}}');
  await answer(page, "Save");
  await page.getByText("The trigger's secret, shown once:").waitFor();
  check((await page.locator(".once code").textContent()).length > 10, "the secret of a changed trigger is shown");
  await call(url, "DELETE", "/v1/triggers/by-end");
}

// A form that another viewer's change overtook is refused, also if the page under it shows the change already.
export async function twoEditors({ page, go, url }) {
  const { id } = await call(url, "POST", "/v1/jobs", { queue: "edited-twice", kind: "k", delay: "1h", args: { text: "first" } });
  await go(`jobs/${id}`);
  await page.getByText("Live").waitFor();
  await press(page, "Edit");
  const { version } = await call(url, "GET", `/v1/jobs/${id}`);
  await call(url, "PATCH", `/v1/jobs/${id}`, { args: { text: "second" }, version });
  await page.getByRole("region", { name: "Args", includeHidden: true }).getByText("second").first().waitFor();
  await dialogOf(page).locator("textarea").fill('{"text":"third"}');
  await answer(page, "Save");
  await dialogOf(page).locator("form > .field-error").waitFor();
  check((await call(url, "GET", `/v1/jobs/${id}`)).args.text === "second", "the args of the other viewer stay");
  await answer(page, "Go back");
  await call(url, "PUT", "/v1/queues/edited-twice/limits", { concurrency: 3 });
  await go("queues/edited-twice");
  await press(page, "Edit limits");
  await call(url, "PUT", "/v1/queues/edited-twice/limits", { concurrency: 5 });
  await page.getByRole("region", { name: "Limits", includeHidden: true }).getByText("5", { exact: true }).waitFor();
  await field(page, "Ageing").fill("1m");
  await answer(page, "Save");
  await dialogOf(page).getByText("Another viewer changed the limits.").waitFor();
  const { limits } = await call(url, "GET", "/v1/queues/edited-twice");
  check(limits.concurrency === 5 && !limits.ageing, `the limits of the other viewer stay: ${JSON.stringify(limits)}`);
  await answer(page, "Go back");
  await press(page, "Edit limits");
  await field(page, "Ageing").fill("1m");
  await answer(page, "Save");
  await dialogOf(page).waitFor({ state: "detached" });
  check((await call(url, "GET", "/v1/queues/edited-twice")).limits.ageing === "1m", "limits that no other viewer changed are saved");
}

// Args that repeat a key are refused. An answer that is no JSON is named as such.
export async function duplicateKeys({ page, go, url }) {
  const refused = await fetch(`${url}/v1/jobs`, {
    method: "POST", headers: { "Content-Type": "application/json" }, body: '{"queue":"repeated","kind":"k","args":{"order":1,"order":2}}',
  });
  check(refused.status === 400, `a repeated key is refused: ${refused.status}`);
  const { id } = await call(url, "POST", "/v1/jobs", { queue: "repeated", kind: "k", args: { order: 2 } });
  await go("jobs?queue=repeated");
  await page.locator("tbody").getByRole("link", { name: String(id), exact: true }).waitFor();
  await go(`jobs/${id}`);
  await page.getByRole("region", { name: "Args" }).getByText('"order": 2').first().waitFor();
  await page.route(`**/v1/jobs/${id}`, (route) => route.fulfill({ contentType: "application/json", body: '{"id":' }));
  await page.reload();
  await page.getByRole("alert").getByText("The server's answer is not valid JSON.").waitFor();
  await page.unroute(`**/v1/jobs/${id}`);
}

// A bulk action on everything that matches takes the jobs that its dialog counted, not those that came since.
export async function countedOnly({ page, go, url }) {
  const job = { queue: "counted-only", kind: "k" };
  await call(url, "POST", "/v1/jobs", { jobs: Array.from({ length: 55 }, () => job) });
  await go("jobs?queue=counted-only&state=available");
  await ready(page);
  await page.getByText("Live").waitFor();
  await page.getByLabel("Select all jobs of this page").check();
  await page.getByRole("button", { name: /^Select all 55/ }).click();
  await page.getByRole("toolbar").getByRole("button", { name: "Cancel", exact: true }).click();
  await dialogOf(page).getByRole("heading", { name: "Cancel: 55 jobs" }).waitFor();
  const late = await call(url, "POST", "/v1/jobs", job);
  await page.locator(".tab-count").getByText("56", { exact: true }).first().waitFor();
  await dialogOf(page).getByLabel("Rate").fill("");
  await answer(page, "Cancel (55)");
  await page.waitForFunction(() => /55 of 55/.test(document.body.textContent));
  check((await call(url, "GET", `/v1/jobs/${late.id}`)).state === "available", "a job that came after the count stays");
}

// A number that is too long for a job's id runs no other command of the palette.
export async function longNumber({ page, go }) {
  await go("queues");
  await ready(page);
  await page.keyboard.press("Control+k");
  await page.getByRole("combobox", { name: /Go to/ }).fill("1".repeat(20));
  await page.getByRole("option", { name: /^Search jobs/ }).waitFor();
  const offered = await dialogOf(page).getByRole("option").allTextContents();
  check(offered.length === 1, `a long number is only searched for, the palette offers: ${offered}`);
  await page.keyboard.press("Enter");
  await page.waitForURL(/#\/jobs\?q=1{20}$/);
}

// The page of one job and the form of a new one.
import { call, check, ready } from "./support.mjs";

const dialogOf = (page) => page.getByRole("dialog");
const field = (page, label) =>
  dialogOf(page).locator("label.field").filter({ has: page.locator(".field-label", { hasText: new RegExp(`^${label}$`) }) }).locator("input");

// Fails one attempt of a job for good.
async function die(url, queue, id, reason) {
  const { jobs } = await call(url, "POST", "/v1/claim", { worker: "w-die", queues: [queue], job: id, lease: "10m" });
  const results = [{ id, token: jobs[0].token, outcome: "dead", reason, description: "it broke" }];
  await call(url, "POST", "/v1/finish", { worker: "w-die", results });
}

// An address of a job that is gone has a heading and a title of its own.
export async function missingJob({ page, go }) {
  await go("jobs");
  await ready(page);
  await go("jobs/99999999");
  await page.getByRole("heading", { name: "Job 99999999", level: 1 }).waitFor();
  await page.getByText("Not found.").waitFor();
  await page.waitForFunction(() => /^Job 99999999 /.test(document.title)); // it follows the heading
  check(true, "");
  const icon = await page.locator("link[rel=icon]").getAttribute("href");
  check(icon.startsWith("data:image/svg+xml"), "the icon is part of the page");
}

// A step is retried by its workflow: its page links the workflow, and says why its own button is off.
export async function stepOfWorkflow({ page, go, url }) {
  const steps = [{ name: "charge", job: { queue: "steps", kind: "charge", max_attempts: 1 } }];
  const { id: workflow } = await call(url, "POST", "/v1/workflows", { name: "checkout", steps });
  const list = await call(url, "GET", "/v1/jobs?queue=steps");
  const id = list.jobs[0].id;
  await die(url, "steps", id, "max_attempts");
  await go(`jobs/${id}`);
  const retry = page.getByRole("button", { name: "Retry", exact: true });
  await retry.waitFor();
  check(await retry.isDisabled(), "a step of a workflow has no retry of its own");
  check((await retry.getAttribute("title")) === `The job is a step of workflow ${workflow}. Retry the workflow.`, "and says why");
  await page.locator(".outcome", { hasText: "No attempts left: it broke" }).waitFor();
  await page.locator(".facts").getByRole("link", { name: String(workflow), exact: true }).click();
  await page.waitForURL(new RegExp(`#/workflows/${workflow}$`));
}

// A job is taken from a worker that is gone, which asks first: another worker can claim it, and the old token is worthless.
export async function jobTakenBack({ page, go, url }) {
  const { id } = await call(url, "POST", "/v1/jobs", { queue: "gone", kind: "k" });
  const claim = () => call(url, "POST", "/v1/claim", { worker: "w-gone", queues: ["gone"], lease: "12h" });
  const { jobs } = await claim();
  await go(`jobs/${id}`);
  const button = page.getByRole("button", { name: "Take back", exact: true }).first();
  await button.click();
  await dialogOf(page).getByRole("heading", { name: `Take job ${id} from its worker?` }).waitFor();
  check((await call(url, "GET", `/v1/jobs/${id}`)).state === "running", "taking a job back asks first");
  await dialogOf(page).getByRole("button", { name: "Take back", exact: true }).click();
  await page.locator(".page-head .state-available").waitFor();
  await button.waitFor({ state: "detached" });
  const again = (await claim()).jobs[0];
  check(again.id === id && again.attempt === 1, `the attempt does not count: ${JSON.stringify(again)}`);
  const late = await call(url, "POST", "/v1/finish", { worker: "w-gone", results: [{ id, token: jobs[0].token, outcome: "complete" }] });
  check(late.results[0].status === "stale", `the old worker's outcome is refused: ${JSON.stringify(late)}`);
}

// The options of a new job reach the server, and the commands copied from a job have them.
export async function jobOptions({ page, go, url }) {
  await go("jobs?queue=options");
  await ready(page);
  await page.getByRole("button", { name: "New job" }).click();
  await field(page, "Kind").fill("resize");
  await dialogOf(page).getByText("More", { exact: true }).click();
  await field(page, "Tags").fill("vip eu");
  await field(page, "Attempts").fill("3");
  await field(page, "Time limit").fill("2m");
  await field(page, "Unique key").fill("order-17");
  await field(page, "Limit key").fill("acme");
  await dialogOf(page).getByRole("button", { name: "Enqueue" }).click();
  await page.waitForURL(/#\/jobs\/\d+$/);
  await ready(page);
  const job = await call(url, "GET", `/v1/jobs/${page.url().split("/").pop()}`);
  const { tags, max_attempts: attempts, timeout, unique_key: key, limit_key: limit } = job;
  check(JSON.stringify([tags, attempts, timeout, key, limit]) === '[["vip","eu"],3,"2m","order-17","acme"]', `the options of a new job: ${JSON.stringify(job)}`);
  await page.evaluate(() => {
    navigator.clipboard.writeText = (text) => Promise.resolve(void (window.copied = text));
  });
  const copied = async (form) => {
    await page.getByRole("combobox", { name: "Copy as" }).selectOption(form);
    return page.evaluate(() => window.copied);
  };
  const command = await copied("mainspring");
  for (const flag of ["--limit-key 'acme'", "--unique 'order-17'", "--max-attempts '3'", "--timeout '2m'", "--tag 'vip' --tag 'eu'"]) {
    check(command.includes(flag), `the copied command has ${flag}: ${command}`);
  }
  check((await copied("Python")).endsWith('priority=5, tags=["vip","eu"], limit_key="acme", key="order-17", max_attempts=3, timeout="2m"))'), "the copied Python has the options");
  await call(url, "POST", `/v1/jobs/${job.id}/cancel`);
  const body = /-d '(.*)'$/s.exec(await copied("curl"))[1];
  const again = await call(url, "POST", "/v1/jobs", JSON.parse(body));
  const copy = await call(url, "GET", `/v1/jobs/${again.id}`);
  check(copy.limit_key === "acme" && copy.unique_key === "order-17" && copy.timeout === "2m", "the copied request makes the same job");
}

// What recent jobs of a kind have becomes fields, choices and hints.
export async function learnedArgs({ page, go, url }) {
  const args = (i) => ({ size: i % 2 ? "small" : "large", order: i, express: true, password: "xyzzy" });
  await call(url, "POST", "/v1/jobs", { jobs: Array.from({ length: 8 }, (_, i) => ({ queue: "learned", kind: "k", args: args(i) })) });
  await call(url, "POST", "/v1/jobs", { queue: "learned", kind: "k", args: { size: "small" } });
  await go("jobs?queue=learned");
  await ready(page);
  await page.getByRole("button", { name: "New job" }).click();
  await page.waitForFunction(() => /"size": "small"/.test(document.querySelector("dialog textarea").value));
  await dialogOf(page).getByText("Other jobs of this kind also have:").waitFor();
  await dialogOf(page).getByRole("button", { name: "Edit as fields" }).click();
  for (const name of ["order", "express", "password"]) await dialogOf(page).getByRole("button", { name: `+ ${name}` }).click();
  const choices = await dialogOf(page).locator("datalist[id=args-size] option").evaluateAll((all) => all.map((one) => one.value).sort().join(" "));
  check(choices === "large small", `values that recur are offered: ${choices}`);
  check((await dialogOf(page).locator("datalist[id=args-order], datalist[id=args-password]").count()) === 0, "others and secrets are not");
  check((await field(page, "password").inputValue()) === "", "a secret is not copied from another job");
  await field(page, "order").fill("17");
  await dialogOf(page).getByRole("button", { name: "Edit as JSON" }).click();
  await dialogOf(page).locator("textarea").fill('{"size":3,"order":17,"express":true,"password":""}');
  await dialogOf(page).getByText("size: in other jobs of this kind it is a string.").waitFor();
  await dialogOf(page).locator("textarea").fill('{"size":"huge","order":17,"express":true,"password":""}');
  await dialogOf(page).getByRole("button", { name: "Enqueue" }).click();
  await page.waitForURL(/#\/jobs\/\d+$/);
  const made = await call(url, "GET", `/v1/jobs/${page.url().split("/").pop()}`);
  check(made.args.size === "huge" && made.args.order === 17, `another value may be typed: ${JSON.stringify(made.args)}`);
}

// What a program reports is listed while the page is open, and what its worker ignored is shown.
export async function progressLog({ page, go, url }) {
  const { id } = await call(url, "POST", "/v1/jobs", { queue: "reporting", kind: "k" });
  const { jobs } = await call(url, "POST", "/v1/claim", { worker: "w-reporting", queues: ["reporting"], job: id, lease: "10m" });
  const report = (more) => call(url, "POST", "/v1/renew", { worker: "w-reporting", leases: [{ id, token: jobs[0].token, ...more }], lease: "10m" });
  await go(`jobs/${id}`);
  await page.getByText("Live").waitFor();
  await report({ progress: { value: 0.1, text: "reads <b>rows</b>" } });
  await page.getByText("reads <b>rows</b>").first().waitFor();
  await report({ progress: { value: 0.9, text: "writes rows" }, warning: { text: "checkpoint: not an object", counts: { checkpoint: 1 } } });
  await page.getByText("Since this page was opened").click();
  const panel = page.getByRole("region", { name: "Progress" });
  await panel.locator("li", { hasText: "writes rows" }).waitFor();
  check((await panel.locator("li").allTextContents()).map((text) => /^(\D+?) ?\d/.exec(text)?.[1]).join() === "reads <b>rows</b>,writes rows", "reports are listed in order");
  await page.reload();
  await page.getByText("checkpoint: not an object").waitFor();
}

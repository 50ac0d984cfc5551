// What operators want to know or do, with the clicks and keys that it takes from the overview. The table in
// docs/guides/dashboard.md has the same numbers.
import { readFileSync } from "node:fs";

import { call, check, open, ready, startServer, stopServer } from "./support.mjs";

const MOST_CLICKS = 5;
const GUIDE = new URL("../../docs/guides/dashboard.md", import.meta.url);

async function fillForTasks(url) {
  const enqueue = (jobs) => call(url, "POST", "/v1/jobs", { jobs });
  const many = (n, job) => Array.from({ length: n }, (_, i) => ({ ...job, args: { order: 5000 + i } }));
  await enqueue(many(300, { queue: "payments", kind: "capture", max_attempts: 1 }));
  const { jobs } = await call(url, "POST", "/v1/claim", { worker: "w", queues: ["payments"], max: 300 });
  const results = jobs.map((job, i) => {
    const description = `${i % 3 ? "GatewayError: 503 from the bank" : "CardError: expired"}\n  at capture (charge.js:${i % 3 ? 12 : 80})`;
    return { id: job.id, token: job.token, outcome: "dead", reason: "failed", description };
  });
  await call(url, "POST", "/v1/finish", { worker: "w", results });
  const { jobs: mails } = await enqueue([...many(40, { queue: "mails", kind: "invoice", limit_key: "acme" }), { queue: "mails", kind: "invoice", limit_key: "globex" }]);
  await call(url, "POST", "/v1/jobs", { queue: "orders", kind: "ship", args: { order: 4711 } });
  await call(url, "PUT", "/v1/queues/mails/limits", { per_key: { concurrency: 2 } });
  await call(url, "POST", "/v1/claim", { worker: "w", queues: ["mails"], max: 2, lease: "10m" });
  await call(url, "PUT", "/v1/schedules/runaway", { every: "1m", overlap: "allow", job: { queue: "reports", kind: "poll" } });
  for (let i = 0; i < 5; ++i) await call(url, "POST", "/v1/schedules/runaway/trigger");
  await call(url, "PUT", "/v1/schedules/nightly", { cron: "30 2 * * *", job: { queue: "reports", kind: "report" } });
  return { waiting: mails[39].id };
}

const TASKS = {
  "What failed last night, and why": async ({ page, click }) => {
    await click(page.getByRole("link", { name: "Errors", exact: true }));
    await click(page.getByRole("link", { name: "24 hours" }));
    await click(page.getByRole("link", { name: /GatewayError: 503/ }));
    await page.locator("pre", { hasText: "charge.js:12" }).waitFor();
  },
  "Where order 4711 is": async ({ page, key, click }) => {
    for (const one of ["Control+k", ..."4711", "ArrowDown", "Enter"]) await key(one);
    await page.locator("tbody tr", { hasText: "4711" }).waitFor();
    await click(page.locator("tbody").getByRole("link", { name: "ship" }));
    await page.getByText("Why is it not running?").waitFor();
  },
  "Retry 50 of 300 dead jobs": async ({ page, click, url }) => {
    await click(page.getByRole("link", { name: /^300\s*Dead$/ }));
    await click(page.getByLabel("Select all jobs of this page"));
    await click(page.getByRole("toolbar").getByRole("button", { name: "Retry", exact: true }));
    await click(page.getByRole("dialog").getByRole("button", { name: "Retry (50)" }));
    await page.waitForFunction(() => /50 of 50/.test(document.body.textContent));
    check((await call(url, "GET", "/v1/queues/payments")).counts.dead === 250, "50 of 300 dead jobs are retried");
  },
  "Whose jobs wait, and why": async ({ page, click, waiting }) => {
    await click(page.getByRole("link", { name: "Queues", exact: true }));
    await click(page.getByRole("link", { name: "mails", exact: true }));
    await click(page.getByText("Limit keys", { exact: true }));
    await click(page.getByRole("link", { name: "acme", exact: true }));
    await page.getByText(/Why does job \d+ wait/).waitFor();
    await page.locator(".why", { hasText: /acme/ }).waitFor();
    check(waiting > 0, "a job of the key waits");
  },
  "Stop a runaway schedule": async ({ page, click, url }) => {
    await click(page.getByRole("link", { name: "Schedules", exact: true }));
    await click(page.getByRole("link", { name: /^Jobs made/ }));
    await page.locator("tbody tr:first-child", { hasText: /runaway/ }).waitFor(); // the one with the most jobs
    await click(page.locator("tbody tr").first().getByRole("link", { name: "runaway" }));
    await click(page.getByRole("button", { name: "Pause", exact: true }));
    await click(page.getByRole("dialog").getByRole("button", { name: "Pause", exact: true }));
    await page.getByRole("button", { name: "Resume", exact: true }).waitFor();
    check((await call(url, "GET", "/v1/schedules/runaway")).paused, "the schedule is paused");
  },
};

export async function tasks(t, browser) {
  const server = await startServer(t, "tasks");
  try {
    const filled = await fillForTasks(server.url);
    const guide = readFileSync(GUIDE, "utf8");
    for (const [name, task] of Object.entries(TASKS)) {
      const { context, page, problems, go } = await open(browser, server.url);
      await go("");
      await ready(page);
      await page.getByText("Live").waitFor();
      const used = { clicks: 0, keys: 0 };
      const click = (what) => (++used.clicks, what.click());
      const key = (what) => (++used.keys, page.keyboard.press(what));
      try {
        await task({ page, click, key, url: server.url, ...filled });
        check(used.clicks <= MOST_CLICKS, `${name}: ${used.clicks} clicks, at most ${MOST_CLICKS}`);
        const row = guide.split("\n").find((line) => line.startsWith(`| ${name} |`)) ?? "no such row";
        const numbers = `| ${used.clicks} | ${used.keys} |`;
        check(row.endsWith(numbers), `docs/guides/dashboard.md, "${name}": write ${numbers}, it has: ${row}`);
      } catch (problem) {
        check(false, `${name}: ${problem.message.split("\n").slice(0, 3).join(" ")}`);
      }
      for (const text of problems) check(false, `${name}: ${text}`);
      await context.close();
    }
  } finally {
    await stopServer(server);
  }
}

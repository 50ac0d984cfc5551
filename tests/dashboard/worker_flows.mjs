// What a viewer does with workers: quiet, resume and stop them.
import { call, check, ready } from "./support.mjs";

const dialogOf = (page) => page.getByRole("dialog");
const commandOf = async (url, id) => (await call(url, "GET", "/v1/workers")).workers.find((worker) => worker.id === id)?.command;

// The question names the worker and its running jobs. Selected workers are changed together.
export async function commands({ page, go, url }) {
  for (const [worker, max] of [["ordered-1", 2], ["ordered-2", 1]]) {
    await call(url, "POST", "/v1/jobs", { jobs: Array.from({ length: max }, () => ({ queue: "ordered", kind: "k" })) });
    await call(url, "POST", "/v1/claim", { worker, queues: ["ordered"], max, lease: "10m" });
  }
  await go("workers");
  await ready(page);
  await page.getByRole("button", { name: "Quiet worker ordered-1", exact: true }).click();
  await dialogOf(page).getByRole("heading", { name: "Quiet ordered-1?" }).waitFor();
  await dialogOf(page).getByText("2 jobs are running.").waitFor();
  await dialogOf(page).getByRole("button", { name: "Quiet", exact: true }).click();
  await page.getByRole("button", { name: "Resume worker ordered-1", exact: true }).waitFor();
  check((await commandOf(url, "ordered-1")) === "quiet", "a worker is quieted");
  check((await commandOf(url, "ordered-2")) === null, "another worker is not");
  for (const id of ["ordered-1", "ordered-2"]) await page.getByLabel(`Select worker ${id}`).check();
  await page.getByRole("toolbar").getByRole("button", { name: "Stop", exact: true }).click();
  await dialogOf(page).getByRole("heading", { name: "Stop 2 workers?" }).waitFor();
  await dialogOf(page).getByText("3 jobs are running.").waitFor();
  await dialogOf(page).getByRole("button", { name: "Stop", exact: true }).click();
  await page.getByText("2 workers stop").waitFor();
  for (const id of ["ordered-1", "ordered-2"]) check((await commandOf(url, id)) === "stop", `${id} stops`);
  await page.getByRole("button", { name: "Resume worker ordered-1", exact: true }).waitFor({ state: "detached" }); // a stopping worker cannot be resumed
}

// A token without the scope sees why the buttons are disabled.
export async function scopedCommands({ page, go }) {
  await page.route("**/v1/session", (route) => route.fulfill({ json: { who: "reader", everything: false, scopes: ["read", "admin=other*"] } }));
  await go("workers");
  await page.reload(); // the scopes are read once
  await ready(page);
  const button = page.getByRole("button", { name: "Stop worker w-1", exact: true });
  await button.waitFor();
  await page.waitForFunction(() => document.querySelector('button[aria-label="Stop worker w-1"]')?.disabled);
  check((await button.getAttribute("title"))?.includes("needs the scope admin for "), "a disabled button says which scope is missing");
  await page.unroute("**/v1/session");
  await go("queues");
  await page.reload();
  await ready(page);
}

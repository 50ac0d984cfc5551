// What a token does not allow stays as it is.
import { call, check, open, ready } from "./support.mjs";

const press = (page, name) => page.getByRole("button", { name, exact: true }).first().click();

// Without read:payload a definition whose args are hidden cannot be saved over them; a fork copies the hidden input.
export async function withoutPayloads(browser, url, token, adminToken) {
  const admin = { Authorization: `Bearer ${adminToken}` };
  const job = { queue: "mails", kind: "k", args: { order: 17 } };
  await call(url, "PUT", "/v1/schedules/hidden-args", { cron: "0 4 1 1 *", job }, admin);
  await call(url, "PUT", "/v1/triggers/hidden-args", { http: {}, job }, admin);
  const { id } = await call(url, "POST", "/v1/workflows", { name: "hidden", input: { order: 17 }, steps: [{ name: "pay", job }] }, admin);
  await call(url, "POST", `/v1/workflows/${id}/cancel`, undefined, admin);
  const { context, page, go } = await open(browser, url);
  await context.request.post(`${url}/v1/session`, { headers: { Authorization: `Bearer ${token}` } });
  for (const [hash, name] of [["schedules/hidden-args", "Edit schedule"], ["triggers/hidden-args", "Edit"]]) {
    await go(hash);
    const button = page.getByRole("button", { name, exact: true });
    await button.waitFor();
    check((await button.isDisabled()) && /needs the scope read:payload for mails/.test(await button.getAttribute("title")), `${hash} cannot be edited`);
  }
  await go("schedules/hidden-args");
  await ready(page);
  await page.keyboard.press("Control+k");
  await page.getByRole("combobox", { name: /Go to/ }).fill("edit schedule");
  await page.getByRole("option", { name: /Search jobs/ }).waitFor();
  check((await page.getByRole("option", { name: "Edit schedule", exact: true }).count()) === 0, "the palette does not offer it either");
  await page.keyboard.press("Escape");
  await go(`workflows/${id}`);
  await press(page, "Run again from a step");
  await page.getByRole("dialog").getByRole("button", { name: "Run again from a step" }).click();
  await page.waitForURL((address) => /#\/workflows\/\d+$/.test(address.hash) && !address.hash.endsWith(`/${id}`));
  const fork = await call(url, "GET", `/v1/workflows/${page.url().split("/").pop()}`, undefined, admin);
  check(fork.input?.order === 17, `a fork has the input of the original: ${JSON.stringify(fork.input)}`);
  await context.close();
}

// Without an answer about the session no page is drawn, which would offer everything. It is asked again.
export async function noSession({ browser, url }) {
  const { context, page, go } = await open(browser, url);
  await page.clock.install();
  await page.route("**/v1/session", (route) => route.fulfill({ status: 503, json: { error: { code: "unavailable", message: "the store is busy" } } }));
  await go("queues");
  await page.getByRole("alert").getByText("the store is busy").waitFor();
  check((await page.getByRole("navigation").count()) === 0, "without a session no page is drawn");
  await page.unroute("**/v1/session");
  await page.clock.runFor("00:10");
  await page.getByRole("heading", { name: "Queues", level: 1 }).waitFor();
  await context.close();
}

// A session that ends leads to the sign-in as soon as the event stream is refused.
export async function endedSession({ browser, url }) {
  const { context, page, go } = await open(browser, url);
  await go("queues");
  await page.getByText("Live").waitFor();
  const refused = (route) => route.fulfill({ status: 401, json: { error: { code: "unauthenticated", message: "no session" } } });
  for (const path of ["**/v1/session", "**/v1/events"]) await page.route(path, refused);
  // A window that is shown again opens a new stream.
  for (const hidden of [true, false]) {
    await page.evaluate((value) => {
      Object.defineProperty(document, "hidden", { value, configurable: true });
      document.dispatchEvent(new Event("visibilitychange"));
    }, hidden);
  }
  await page.getByLabel("Access token").waitFor();
  check(true, "");
  await context.close();
}

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

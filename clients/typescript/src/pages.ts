// Lists that the server sends in pages. A page is read when the one before has been used up.
import { type Core, need, query } from "./core.js";

type Filter = Readonly<Record<string, string | number | boolean | undefined>>;

/** `cursor`: its name in the request, and in the answer. */
export async function* pages(
  core: Core,
  path: string,
  items: string,
  [parameter, next]: readonly [string, string],
  filter: Filter = {},
): AsyncGenerator<Record<string, unknown>, void, undefined> {
  let cursor: string | undefined;
  do {
    const where = query({ ...filter, [parameter]: cursor });
    const page = await core.call({ method: "GET", path: path + where });
    const list = page[items] as Record<string, unknown>[];
    yield* need(list, Array.isArray(list), `list of ${items}`);
    const found = page[next];
    cursor = found === null || found === undefined ? undefined : String(found);
  } while (cursor !== undefined);
}

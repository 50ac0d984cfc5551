// Vitest: a `test` whose fixtures are a server of the file and a client of it.
import { test as base } from "vitest";

import type { Mainspring } from "./index.js";
import { type Namespace, namespace, startServer, type TestServer } from "./testing.js";

export interface Fixtures {
  /** The server of this file. */
  server: TestServer;
  /** A client of it, closed after the test. */
  mainspring: Mainspring;
  /** Names of the test alone; what has them ends with the test. */
  namespace: Namespace;
}

export const test = base.extend<Fixtures>({
  server: [
    async ({}, use) => {
      const server = await startServer();
      await use(server);
      await server.stop();
    },
    { scope: "file" },
  ],
  mainspring: async ({ server }, use) => {
    const client = server.client();
    await use(client);
    client.close();
  },
  namespace: async ({ mainspring }, use) => {
    const space = await namespace(mainspring);
    await use(space);
    await space.reset();
  },
});

// Vitest: a `test` whose fixtures are a server of the file and a client of it.
import { test as base } from "vitest";

import type { Mainspring } from "./index.js";
import { startServer, type TestServer } from "./testing.js";

export interface Fixtures {
  /** The server of this file. */
  server: TestServer;
  /** A client of it, closed after the test. */
  mainspring: Mainspring;
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
});

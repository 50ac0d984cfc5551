// The program of the thread that renews leases; the build turns it into a text inside the package.
import { parentPort, workerData } from "node:worker_threads";

import type { ServerAddress } from "./http.js";
import { type Envelope, RenewLoop } from "./renew_loop.js";

const loop = new RenewLoop(workerData as ServerAddress, (message) =>
  parentPort?.postMessage(message),
);
parentPort?.on("message", (envelope: Envelope) => loop.receive(envelope));

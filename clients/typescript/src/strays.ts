// Errors that nothing catches: a promise that is rejected without a handler, or an exception in a
// callback. Such an error of a job's handler fails its attempt. Without this module it would end
// the process, and with it the attempts of all other jobs.
//
// Listeners of the program get such errors as well. Other errors do what they do without a worker: listeners of the program get them, else the process
// ends.
import { sharedValue } from "./shared.js";
import { current } from "./trace.js";

// One pair of listeners in a process.
const watch = sharedValue("strays.1", () => ({ workers: 0, onRejection, onException }));

/** Catches the errors of handlers until `unwatchStrays`. */
export function watchStrays(): void {
  watch.workers += 1;
  if (watch.workers > 1) return;
  process.on("unhandledRejection", watch.onRejection);
  process.on("uncaughtException", watch.onException);
}

export function unwatchStrays(): void {
  watch.workers -= 1;
  if (watch.workers > 0) return;
  process.off("unhandledRejection", watch.onRejection);
  process.off("uncaughtException", watch.onException);
}

/** Whether the error that a listener gets is one of a handler. */
export const isStray = (): boolean => current.getStore()?.stray !== undefined;

function onRejection(reason: unknown): void {
  const stray = current.getStore()?.stray;
  if (stray !== undefined) return stray(reason, "a promise was rejected and nothing caught it");
  if (process.listenerCount("unhandledRejection") > 1 || onlyWarns()) return;
  throw reason; // as Node.js does without a listener
}

function onException(error: unknown, origin: string): void {
  const stray = origin === "uncaughtException" ? current.getStore()?.stray : undefined;
  if (stray !== undefined) return stray(error, "nothing caught an exception");
  if (process.listenerCount("uncaughtException") > 1) return;
  process.off("uncaughtException", onException);
  queueMicrotask(() => {
    throw error;
  });
}

function onlyWarns(): boolean {
  const flags = `${process.execArgv.join(" ")} ${process.env["NODE_OPTIONS"] ?? ""}`;
  return /--unhandled-rejections[= ](warn|none)/.test(flags);
}

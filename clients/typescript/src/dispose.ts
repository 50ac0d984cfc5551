/// <reference lib="esnext.disposable" preserve="true" />
// Symbol.asyncDispose, also where the runtime is older than it.
export const asyncDispose: typeof Symbol.asyncDispose =
  Symbol.asyncDispose ?? Symbol.for("nodejs.asyncDispose");

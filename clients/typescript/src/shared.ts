// A program may load this package twice: by import and by require, or in two versions. What both
// copies must agree on is found by symbols of the process.

/** Makes `instanceof` accept objects of the same class in another copy. */
export function sharedClass(
  name: string,
  made: { readonly prototype: object } & (abstract new (...args: never[]) => unknown),
): void {
  const brand = Symbol.for(`mainspring.${name}`);
  Object.defineProperty(made.prototype, brand, { value: true });
  Object.defineProperty(made, Symbol.hasInstance, {
    value(this: unknown, value: unknown): boolean {
      try {
        const own = Function.prototype[Symbol.hasInstance].call(this as never, value);
        // A subclass inherits this method, but not what it accepts.
        if (own || this !== made) return own;
        return typeof value === "object" && value !== null && brand in value;
      } catch {
        return false; // a proxy that was revoked
      }
    },
  });
}

/** The value of the first copy that asks. */
export function sharedValue<T>(name: string, make: () => T): T {
  const all = globalThis as Record<symbol, unknown>;
  return (all[Symbol.for(`mainspring.${name}`)] ??= make()) as T;
}

// Milliseconds of the monotonic clock, the same in all threads of the process.
export function now(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}

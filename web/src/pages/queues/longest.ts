// The jobs that wait longest. The server lists jobs newest first only.
import { get, getJobPage, type Query, type Schemas } from "../../api/client";

type Job = Schemas["Job"];
export interface Longest {
  jobs: Job[]; // oldest first
  cut: boolean; // there are newer ones
}

// Each step is one request.
const MAX_STEPS = 12;

// The oldest jobs that match, up to `limit`. `since`: no job that matches is much older. While a page is not all of
// them, halve the time in which they were created.
export async function longestWaiting(query: Query, since: string | undefined, limit: number, signal: AbortSignal): Promise<Longest> {
  const read = (to?: number) =>
    get<Schemas["JobPage"]>("/v1/jobs", { ...query, limit, to: to === undefined ? undefined : new Date(to).toISOString() }, signal);
  const oldestFirst = (page: Schemas["JobPage"]) => [...page.jobs].reverse();
  // A search ends at its limit of work, perhaps without a job.
  let page = await getJobPage(query, limit, signal);
  if (page.next_cursor === null) return { jobs: oldestFirst(page), cut: false };
  let low = Date.parse(since ?? page.jobs.at(-1)?.created_at ?? "");
  let high = Date.now();
  for (let step = 0; step < MAX_STEPS && high - low > 1; ++step) {
    const middle = low + (high - low) / 2;
    const older = await read(middle);
    if (older.jobs.length === 0 && older.next_cursor === null) {
      low = middle;
      continue;
    }
    high = middle;
    if (older.jobs.length > 0) page = older;
    if (older.next_cursor === null) break;
  }
  return { jobs: oldestFirst(page), cut: true };
}

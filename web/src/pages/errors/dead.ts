// The jobs of a group of dead jobs.
import { get, type Schemas } from "../../api/client";
import { bounds, type Period } from "../../components/period";

export type Group = Schemas["DeadGroups"]["groups"][number];
export type DeadJob = Schemas["Job"];

const PAGE = 1000;
// Longer than this a viewer does not wait for a list.
const READ_MS = 4_000;

export interface Dead {
  jobs: DeadJob[]; // newest first
  more: boolean; // some were not looked at
}

export const diedAt = (job: DeadJob): number => Date.parse(job.finished_at ?? "");

// Those that died in the period, up to `most`. The server leaves out jobs of other groups from each page: read on until
// there are enough, none is left, or the time is over.
export async function deadJobs(group: Group, queue: string, period: Period, most: number, signal?: AbortSignal): Promise<Dead> {
  const until = performance.now() + READ_MS;
  const { from, to } = bounds(period);
  const jobs: DeadJob[] = [];
  let cursor: string | null | undefined;
  do {
    const query = { fingerprint: group.fingerprint, kind: group.kind, queue, limit: PAGE, cursor };
    const page = await get<Schemas["JobPage"]>("/v1/dead", query, signal);
    jobs.push(...page.jobs.filter((job) => diedAt(job) >= from && diedAt(job) < to));
    cursor = page.next_cursor;
  } while (cursor !== null && jobs.length <= most && performance.now() < until);
  return { jobs: jobs.slice(0, most), more: cursor !== null || jobs.length > most };
}

// Whether one of its jobs may have died in the period: the server knows the first and the last death.
export function diedIn(group: Group, period: Period): boolean {
  const { from, to } = bounds(period);
  return Date.parse(group.last?.at ?? "") >= from && Date.parse(group.first?.at ?? "") < to;
}

// Requests to the server's HTTP API. The same API that every other client uses.
import { formatJson, parseJson } from "./json";
import type { components } from "./schema";
import type { JobPage, Queue } from "./shapes";

export type Schemas = components["schemas"];

// The dashboard is served at PREFIX/ui/; the API is at PREFIX/.
export const apiRoot = new URL("..", document.baseURI.replace(/[?#].*$/, ""));

export class ApiError extends Error {
  constructor(
    readonly status: number, // 0: the server did not answer
    readonly code: string,
    message: string,
    readonly field?: string,
  ) {
    super(message);
  }
}

export type Query = Record<string, string | number | bigint | boolean | undefined | null | (string | number)[]>;

export function apiUrl(path: string, query: Query = {}): string {
  const url = new URL(path.replace(/^\//, ""), apiRoot);
  for (const [name, value] of Object.entries(query)) {
    if (value === undefined || value === null || value === "") continue;
    for (const one of Array.isArray(value) ? value : [value]) url.searchParams.append(name, String(one));
  }
  return url.href;
}

// Encodes one segment of a path. Names may hold slashes.
export const segment = (name: string | number | bigint): string => encodeURIComponent(String(name));

const REQUEST_TIMEOUT_MS = 30_000;
let onUnauthenticated: () => void = () => {};
export function whenUnauthenticated(callback: () => void): void {
  onUnauthenticated = callback;
}

export interface RequestOptions {
  query?: Query;
  body?: unknown; // JSON, or a Blob that is sent as it is
  headers?: Record<string, string>;
  signal?: AbortSignal;
  slow?: boolean; // no time limit: the server works on it for as long as it takes
}

// Throws ApiError for every answer but 2xx, and for none.
export async function request<T>(method: string, path: string, options: RequestOptions = {}): Promise<T> {
  const { query, body, headers = {}, signal } = options;
  const binary = body instanceof Blob;
  // An upload takes as long as the network needs.
  const timeout = options.slow || binary ? undefined : AbortSignal.timeout(REQUEST_TIMEOUT_MS);
  let response: Response;
  let text: string;
  try {
    response = await fetch(apiUrl(path, query), {
      method,
      credentials: "same-origin",
      cache: "no-store",
      headers: body === undefined || binary ? headers : { "Content-Type": "application/json", ...headers },
      body: body === undefined ? undefined : binary ? body : formatJson(body, 0),
      signal: AbortSignal.any([signal, timeout].filter((one) => one !== undefined)),
    });
    text = await response.text();
  } catch (error) {
    if (signal?.aborted) throw error;
    const code = timeout?.aborted ? "timeout" : "unreachable";
    throw new ApiError(0, code, code);
  }
  if (response.ok) return (text === "" ? undefined : parse(response, text)) as T;
  if (response.status === 401) onUnauthenticated();
  throw errorOf(response, text);
}

function parse(response: Response, text: string): unknown {
  if (!(response.headers.get("Content-Type") ?? "").includes("json")) return text;
  try {
    return parseJson(text);
  } catch (problem) {
    throw new ApiError(response.status, "unreadable", String(problem));
  }
}

function errorOf(response: Response, text: string): ApiError {
  try {
    const { error } = JSON.parse(text) as Schemas["Error"];
    return new ApiError(response.status, error.code, error.message, error.field);
  } catch {
    return new ApiError(response.status, "http", `${response.status} ${response.statusText}`);
  }
}

export const get = <T>(path: string, query?: Query, signal?: AbortSignal): Promise<T> =>
  request<T>("GET", path, { query, signal });

const missing = new Set<string>();
// undefined where the server does not have the route: another node may run an older version. A queue or job that is
// not there is an error as usual.
export async function getIfThere<T>(path: string, query?: Query, signal?: AbortSignal): Promise<T | undefined> {
  if (missing.has(path)) return undefined;
  try {
    return await get<T>(path, query, signal);
  } catch (problem) {
    if (!(problem instanceof ApiError) || problem.status !== 404 || !problem.message.includes("/openapi.json")) throw problem;
    missing.add(path);
    return undefined;
  }
}

const MAX_LISTED = 1000;
// A list by name, up to MAX_LISTED. The server also ends its pages by their bytes.
export async function getNamed<T extends { next: string | null }>(path: string, field: keyof T, signal?: AbortSignal): Promise<T> {
  const all = await get<T>(path, { limit: MAX_LISTED }, signal);
  const items = all[field] as unknown[];
  while (all.next !== null && items.length < MAX_LISTED) {
    const page = await get<T>(path, { limit: MAX_LISTED - items.length, after: all.next }, signal);
    items.push(...(page[field] as unknown[]));
    all.next = page.next;
  }
  return all;
}

const MAX_QUEUE_PAGES = 10;
// All queues, so that their counts add up: 10,000 at most.
export async function getQueues(signal?: AbortSignal): Promise<{ queues: Queue[] }> {
  const queues: Queue[] = [];
  let after: string | undefined;
  for (let i = 0; i < MAX_QUEUE_PAGES; ++i) {
    const page = await get<{ queues: Queue[]; next?: string | null }>("/v1/queues", { after }, signal);
    queues.push(...page.queues);
    if (page.next == null) break;
    after = page.next;
  }
  return { queues };
}

// The newest jobs that match, up to `limit`. A page of the server may be short, even empty, and have a next one.
export async function getJobs(query: Query, limit: number, signal?: AbortSignal): Promise<Schemas["JobPage"]> {
  const all = await get<Schemas["JobPage"]>("/v1/jobs", { ...query, limit }, signal);
  while (all.next_cursor !== null && all.jobs.length < limit) {
    const page = await get<Schemas["JobPage"]>("/v1/jobs", { ...query, limit: limit - all.jobs.length, cursor: all.next_cursor }, signal);
    all.jobs.push(...page.jobs);
    all.next_cursor = page.next_cursor;
  }
  return all;
}

// Longer than this a page of search results does not wait for its next row.
const SEARCH_MS = 1500;
// One page of jobs. A request of a search ends at its limit of work, perhaps without a row: continue until the page is
// full, nothing is left, or the time is over. The cursor then continues where the search stopped.
export async function getJobPage(query: Query, limit: number, signal?: AbortSignal): Promise<JobPage> {
  const until = performance.now() + SEARCH_MS;
  const all = await get<JobPage>("/v1/jobs", { ...query, limit }, signal);
  while (all.next_cursor !== null && all.jobs.length < limit && performance.now() < until) {
    const page = await get<JobPage>("/v1/jobs", { ...query, limit: limit - all.jobs.length, cursor: all.next_cursor }, signal);
    all.jobs.push(...page.jobs);
    all.next_cursor = page.next_cursor;
    if (page.examined !== undefined) all.examined = (all.examined ?? 0) + page.examined;
  }
  return all;
}

export const post = <T>(path: string, body?: unknown): Promise<T> => request<T>("POST", path, { body });
export const patch = <T>(path: string, body?: unknown): Promise<T> => request<T>("PATCH", path, { body });
export const put = <T>(path: string, body?: unknown): Promise<T> => request<T>("PUT", path, { body });
export const remove = <T>(path: string): Promise<T> => request<T>("DELETE", path);

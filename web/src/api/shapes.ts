// Answers of routes whose schemas the generated types do not hold yet.
import type { Schemas } from "./client";

export interface Times {
  count: number;
  p50_ms: number | null;
  p95_ms: number | null;
  p99_ms: number | null;
}
export interface HistoryPoint {
  at?: string;
  enqueued: number;
  started: number;
  completed: number;
  failed: number;
  dead: number;
  cancelled: number;
  wait: Times;
  run: Times;
}
export interface History {
  from: string;
  to: string;
  step: string;
  points: HistoryPoint[];
  total: HistoryPoint;
}
export interface Backlog {
  jobs: number;
  arrivals_per_second: number;
  completions_per_second: number;
  service_ms: number | null;
  drain_seconds: number | null;
  oldest_ms: number | null;
}
export interface QueuePause {
  reason?: string | null;
  by?: string | null;
  at?: string | null;
  until?: string | null;
}
export type Queue = Schemas["Queue"] & { backlog?: Backlog; pause?: QueuePause | null };
export interface Setting {
  name: string;
  value?: string | number | boolean | null; // secrets as ***
  default?: string | number | boolean | null;
  source: string; // default, file, credential, environment or flag
  where?: string; // with the source: file /etc/mainspring/config.toml
  secret?: boolean;
}
export interface SettingList {
  settings: Setting[];
}
export interface StoreFacts {
  kind: string;
  bytes: number; // with free_bytes
  free_bytes?: number;
  wal_bytes?: number;
  disk_free_bytes?: number;
  jobs: number;
  live: number;
  finished: number;
  schema?: number;
  path?: string;
}
export interface View {
  name: string;
  page: string;
  query: string;
  by?: string;
  updated_at?: string;
}
export interface Mark {
  id: number;
  at: string;
  text: string;
  by?: string;
  source?: string;
}
export interface Bulk {
  id: number;
  state: string;
  action: string;
  matched?: number | null;
  error?: string;
  changed?: number;
  skipped?: number;
  failed?: number;
  started_at?: string;
  finished_at?: string;
  by?: string;
}
export interface BulkPreview {
  matched: number;
  exact?: boolean;
  sample?: (number | bigint)[];
}
export interface Upcoming {
  from: string;
  to: string;
  ticks: { schedule: string; nominal: string; note?: string | null }[];
  truncated?: boolean;
  cut?: string[]; // schedules with more ticks than are listed
  due?: { at: string; jobs: number }[];
  windows?: { pool: string; min: number | null; max: number | null; from: string; to: string }[]; // of worker pools
}
export type Worker = Schemas["WorkerList"]["workers"][number] & {
  host?: string;
  pid?: number;
  version?: string;
  language?: string;
  slots?: number;
};
export type JobPage = Schemas["JobPage"] & { examined?: number; of?: number };

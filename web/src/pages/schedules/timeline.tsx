// All schedules on one time axis: past ticks from their ledgers, future ones from the server's forecast.
import { useEffect, useRef, useState } from "preact/hooks";

import { ApiError, get, getIfThere, segment, type Schemas } from "../../api/client";
import { changes } from "../../api/events";
import type { Upcoming } from "../../api/shapes";
import { Empty, Panel, Show, Tabs } from "../../components/basics";
import { TimeAxis } from "../../components/chart";
import { useData } from "../../data";
import { axisTime, count, dateTime } from "../../format";
import { link, useRoute, withQuery, type Route } from "../../router";
import { useSettings } from "../../settings";
import { t } from "../../texts";
import { statusOf, type Schedule } from "./page";
import { describe } from "./words";

// Each drawn schedule needs its ledger: one request. Links lead to the others.
const MAX_ROWS = 40;
const MAX_TICKS = 10_000;
const LEDGER_LIMIT = 500;
const REFRESH_MS = 30_000;
const ROW = 22;
const SPANS = { "24h": 86_400_000, "7d": 7 * 86_400_000 } as const;
type Span = keyof typeof SPANS;
type Outcome = "fired" | "failed" | "skipped" | "coming";

interface Tick {
  time: number;
  outcome: Outcome;
  note?: string;
}
// A time with more ticks than are listed.
interface Band {
  from: number;
  to: number;
}
interface Data {
  now: number;
  rows: { schedule: Schedule; ticks: Tick[]; bands: Band[] }[];
  due: { at: number; jobs: number }[];
  pools: { name: string; windows: Window[] }[];
  truncated: boolean;
}
// A time in which the calendar of a worker pool sets another min or max.
type Window = NonNullable<Upcoming["windows"]>[number];

const outcomeOf = (row: Schemas["LedgerRow"]): Outcome =>
  row.state === "skipped" ? "skipped" : row.job_state === "dead" ? "failed" : "fired";

// A schedule that another viewer removed has none.
async function pastTicks(name: string, from: number, signal: AbortSignal): Promise<{ ticks: Tick[]; cut: boolean }> {
  const path = `/v1/schedules/${segment(name)}/ledger`;
  const ledger = await get<Schemas["Ledger"]>(path, { limit: LEDGER_LIMIT }, signal).catch((problem) => {
    if (problem instanceof ApiError && problem.status === 404) return undefined;
    throw problem;
  });
  if (!ledger) return { ticks: [], cut: false };
  const ticks = ledger.ticks
    .filter((row) => row.nominal !== undefined && Date.parse(row.nominal) >= from)
    .map((row) => ({ time: Date.parse(row.nominal!), outcome: outcomeOf(row), note: row.note ?? row.reason }));
  return { ticks, cut: ledger.next_cursor !== null && ticks.length === ledger.ticks.length };
}

async function read(schedules: Schedule[], span: Span, signal: AbortSignal): Promise<Data | undefined> {
  const now = Date.now();
  const upcoming = await getIfThere<Upcoming>("/v1/upcoming", { within: span, limit: MAX_TICKS }, signal);
  if (!upcoming) return undefined;
  const coming = new Map<string, Tick[]>();
  for (const tick of upcoming.ticks) {
    const list = coming.get(tick.schedule) ?? [];
    list.push({ time: Date.parse(tick.nominal), outcome: "coming", note: tick.note ?? undefined });
    coming.set(tick.schedule, list);
  }
  const pasts = await Promise.all(schedules.map((one) => pastTicks(one.name, now - SPANS[span], signal)));
  const cut = new Set(upcoming.cut);
  const rowOf = (schedule: Schedule, i: number) => {
    const past = pasts[i]!;
    const next = coming.get(schedule.name) ?? [];
    const bands: Band[] = [];
    if (past.cut) bands.push({ from: now - SPANS[span], to: past.ticks.at(-1)!.time });
    if (cut.has(schedule.name) && next.length > 0) bands.push({ from: next.at(-1)!.time, to: now + SPANS[span] });
    return { schedule, ticks: [...past.ticks, ...next], bands };
  };
  return {
    now,
    rows: schedules.map(rowOf),
    pools: byPool(upcoming.windows ?? []),
    due: (upcoming.due ?? []).map((one) => ({ at: Date.parse(one.at), jobs: one.jobs })),
    truncated: upcoming.ticks.length >= MAX_TICKS || (upcoming.truncated === true && cut.size === 0),
  };
}

function byPool(windows: Window[]): Data["pools"] {
  const names = [...new Set(windows.map((one) => one.pool))].sort();
  return names.map((name) => ({ name, windows: windows.filter((one) => one.pool === name) }));
}

export function Timeline(props: { schedules: Schedule[] }) {
  const route = useRoute();
  const span: Span = route.query.get("span") === "7d" ? "7d" : "24h";
  const all = props.schedules.length;
  const first = firstRow(route, all);
  const shown = props.schedules.slice(first, first + MAX_ROWS);
  const key = shown.map((one) => `${one.name} ${one.version} ${one.paused}`).join("\n");
  const data = useData(`timeline ${span} ${key}`, (signal) => read(shown, span, signal).then((ticks) => ({ ticks })), (event) => event.type === "enqueued" || changes(event, "schedule"), REFRESH_MS);
  if (data.data && !data.data.ticks) return null; // an older server
  if (all === 0 && !data.data?.ticks?.pools.length) return null;
  return (
    <Panel
      title={t.schedules.timeline.title}
      actions={
        <Tabs
          label={t.chart.range}
          current={span}
          tabs={(Object.keys(SPANS) as Span[]).map((one) => ({
            key: one,
            text: t.schedules.timeline.ranges[one],
            href: withQuery(route, { span: one === "24h" ? undefined : one }),
          }))}
        />
      }
    >
      <Show of={data}>
        {({ ticks }) =>
          ticks && (ticks.rows.some((row) => row.ticks.length > 0) || ticks.pools.length > 0 ? <Chart data={ticks} span={SPANS[span]} /> : <Empty title={t.schedules.timeline.empty} />)
        }
      </Show>
      {all > MAX_ROWS && (
        <nav class="pager" aria-label={t.schedules.timeline.title}>
          <span class="note">{t.schedules.timeline.drawn(first + 1, first + shown.length, all)}</span>
          {first > 0 && <a href={withQuery(route, { row: first - MAX_ROWS || undefined })}>{t.schedules.timeline.previous}</a>}
          {first + MAX_ROWS < all && <a href={withQuery(route, { row: first + MAX_ROWS })}>{t.schedules.timeline.next}</a>}
        </nav>
      )}
    </Panel>
  );
}

// The first drawn row, of the address: a multiple of MAX_ROWS.
function firstRow(route: Route, all: number): number {
  const row = Number(route.query.get("row") ?? 0);
  return row > 0 && row < all ? row - (row % MAX_ROWS) : 0;
}

interface ClockChange {
  time: number;
  text: string;
}

// The instants between `from` and `to` at which the clock of a zone changes.
function clockChanges(zones: string[], from: number, to: number): ClockChange[] {
  const out: ClockChange[] = [];
  for (const zone of new Set(zones)) {
    const before = axisTime.offsetMs(from, zone);
    if (axisTime.offsetMs(to, zone) === before) continue;
    let [low, high] = [from, to];
    while (high - low > 60_000) {
      const middle = (low + high) / 2;
      if (axisTime.offsetMs(middle, zone) === before) low = middle;
      else high = middle;
    }
    out.push({ time: high, text: t.schedules.timeline.clockChange(zone, offsetText(before), offsetText(axisTime.offsetMs(to, zone))) });
  }
  return out;
}
function offsetText(ms: number): string {
  const minutes = Math.round(Math.abs(ms) / 60_000);
  return `UTC${ms < 0 ? "−" : "+"}${Math.floor(minutes / 60)}${minutes % 60 ? `:${String(minutes % 60).padStart(2, "0")}` : ""}`;
}

function Chart(props: { data: Data; span: number }) {
  const { now, rows, due, pools, truncated } = props.data;
  useSettings();
  const frame = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(0);
  useEffect(() => {
    const observer = new ResizeObserver(([entry]) => setWidth(Math.floor(entry!.contentRect.width)));
    observer.observe(frame.current!);
    return () => observer.disconnect();
  }, []);
  const from = now - props.span;
  const to = now + props.span;
  const x = (time: number) => ((time - from) / (to - from)) * width;
  const changes = clockChanges([...rows.map((row) => row.schedule.time_zone), Intl.DateTimeFormat().resolvedOptions().timeZone], from, to);
  const notes = rows.flatMap((row) => row.ticks.filter((tick) => tick.note && tick.outcome === "coming").map((tick) => ({ name: row.schedule.name, ...tick })));
  const lines = (
    <>
      <line class="now-line" x1={x(now)} x2={x(now)} y1={0} y2={ROW} />
      {changes.map((change) => (
        <line key={change.text} class="clock-line" x1={x(change.time)} x2={x(change.time)} y1={0} y2={ROW}>
          <title>{change.text}</title>
        </line>
      ))}
    </>
  );
  return (
    <div class="swim">
      <div class="swim-row">
        <span class="swim-name note">{t.schedules.timeline.all}</span>
        <div ref={frame}>{width > 0 && <Heat rows={rows} due={due} from={from} to={to} width={width} now={now} />}</div>
      </div>
      {rows.map(({ schedule, ticks, bands }) => (
        <div class="swim-row" key={schedule.name}>
          <a class={`swim-name ${statusOf(schedule) === "active" ? "" : "off"}`} href={link(["schedules", schedule.name])} title={schedule.name}>
            {schedule.name}
          </a>
          <div>{width > 0 && <Track schedule={schedule} ticks={ticks} bands={bands} x={x} width={width} lines={lines} />}</div>
        </div>
      ))}
      {pools.map((pool) => (
        <div class="swim-row" key={`pool ${pool.name}`}>
          <span class="swim-name" title={pool.name}>
            {t.schedules.timeline.pool(pool.name)}
          </span>
          <div>{width > 0 && <PoolTrack {...pool} x={x} width={width} lines={lines} />}</div>
        </div>
      ))}
      <div class="swim-row">
        <span class="swim-name" />
        <div>
          <svg width={width} height={18} aria-hidden="true">
            <TimeAxis from={from} to={to} x={x} y={12} width={width} />
          </svg>
        </div>
      </div>
      <p class="note legend">
        {(["fired", "failed", "skipped", "coming"] as Outcome[]).map((one) => (
          <span key={one} class="legend-item">
            <svg width="8" height="14" aria-hidden="true">
              <path class={`tick-${one}`} d="M4 1v12" />
            </svg>
            {t.schedules.timeline.legend[one]}
          </span>
        ))}
        {truncated && <span>{t.schedules.timeline.truncated}</span>}
      </p>
      {(changes.length > 0 || notes.length > 0) && (
        <p class="note">
          <strong>{t.schedules.timeline.notes}:</strong>{" "}
          {[...changes.map((one) => `${one.text}, ${dateTime(new Date(one.time))}`), ...notes.slice(0, 5).map((one) => `${one.name}: ${one.note}, ${dateTime(new Date(one.time))}`)].join("; ")}
        </p>
      )}
    </div>
  );
}

const BAND_LETTER = 6.5; // pixels of a letter in a band

// One path per outcome: a schedule may have thousands of ticks.
function Track(props: {
  schedule: Schedule; ticks: Tick[]; bands: Band[]; x: (time: number) => number; width: number; lines: preact.ComponentChildren;
}) {
  const { schedule, ticks, bands, x } = props;
  const often = describe(schedule);
  const of = (outcome: Outcome) => ticks.filter((tick) => tick.outcome === outcome);
  const path = (some: Tick[]) => [...new Set(some.map((tick) => Math.round(x(tick.time))))].map((at) => `M${at}.5 4v14`).join("");
  const past = ticks.filter((tick) => tick.outcome !== "coming");
  return (
    <svg
      width={props.width}
      height={ROW}
      role="img"
      aria-label={[
        t.schedules.timeline.row(schedule.name, past.length, of("skipped").length, ticks.length - past.length),
        ...bands.map((band) => t.schedules.timeline.band(often, dateTime(new Date(band.from)), dateTime(new Date(band.to)))),
      ].join("; ")}
    >
      <line class="track" x1={0} x2={props.width} y1={ROW / 2} y2={ROW / 2} />
      {bands.map((band) => {
        const wide = x(band.to) - x(band.from);
        return (
          <g key={band.from}>
            <rect class="tick-band" x={x(band.from)} width={Math.max(1, wide)} y={4} height={ROW - 8}>
              <title>{t.schedules.timeline.band(often, dateTime(new Date(band.from)), dateTime(new Date(band.to)))}</title>
            </rect>
            {wide > often.length * BAND_LETTER && (
              <text class="tick-often" x={x((band.from + band.to) / 2)} y={ROW / 2 + 4}>
                {often}
              </text>
            )}
          </g>
        );
      })}
      {props.lines}
      {(["coming", "fired", "skipped", "failed"] as Outcome[]).map((one) => (
        <path key={one} class={`tick-${one}`} d={path(of(one))} />
      ))}
      {ticks
        .filter((tick) => tick.note && tick.outcome === "coming")
        .slice(0, 50)
        .map((tick) => (
          <path key={tick.time} class="tick-note" d={`M${x(tick.time) - 4} 1h8l-4 6z`}>
            <title>{`${dateTime(new Date(tick.time))}: ${tick.note}`}</title>
          </path>
        ))}
    </svg>
  );
}

// The windows of one pool, each with its limits.
function PoolTrack(props: { name: string; windows: Window[]; x: (time: number) => number; width: number; lines: preact.ComponentChildren }) {
  const words = t.schedules.timeline;
  const textOf = (one: Window) => words.window(words.limits(one.min, one.max), dateTime(new Date(one.from)), dateTime(new Date(one.to)));
  return (
    <svg width={props.width} height={ROW} role="img" aria-label={`${words.pool(props.name)}: ${props.windows.map(textOf).join("; ")}`}>
      <line class="track" x1={0} x2={props.width} y1={ROW / 2} y2={ROW / 2} />
      {props.windows.map((one) => {
        const left = Math.max(0, props.x(Date.parse(one.from)));
        const wide = Math.min(props.width, props.x(Date.parse(one.to))) - left;
        const limits = words.limits(one.min, one.max);
        return (
          <g key={`${one.from} ${limits}`}>
            <rect class="tick-window" x={left} width={Math.max(1, wide)} y={4} height={ROW - 8}>
              <title>{textOf(one)}</title>
            </rect>
            {wide > limits.length * BAND_LETTER && (
              <text class="tick-often" x={left + wide / 2} y={ROW / 2 + 4}>
                {limits}
              </text>
            )}
          </g>
        );
      })}
      {props.lines}
    </svg>
  );
}

const BIN_PX = 6;

// Where many schedules fire at once: darker is more.
function Heat(props: { rows: Data["rows"]; due: Data["due"]; from: number; to: number; width: number; now: number }) {
  const { from, to, width } = props;
  const bins = Math.max(1, Math.floor(width / BIN_PX));
  const ticks = new Array<number>(bins).fill(0);
  const jobs = new Array<number>(bins).fill(0);
  const binOf = (time: number) => Math.min(bins - 1, Math.max(0, Math.floor(((time - from) / (to - from)) * bins)));
  for (const row of props.rows) for (const tick of row.ticks) ++ticks[binOf(tick.time)]!;
  for (const one of props.due) if (one.at >= from && one.at <= to) jobs[binOf(one.at)]! += one.jobs;
  const most = Math.max(1, ...ticks.map((n, i) => n + jobs[i]!));
  return (
    <svg width={width} height={ROW} aria-hidden="true">
      {ticks.map((n, i) => {
        const all = n + jobs[i]!;
        if (all === 0) return null;
        return (
          <rect key={i} class="heat" x={(i * width) / bins} width={width / bins} y={3} height={ROW - 6} opacity={0.25 + 0.75 * (all / most)}>
            <title>{`${dateTime(new Date(from + ((to - from) * i) / bins))}: ${t.schedules.timeline.due(count(jobs[i]!), count(n))}`}</title>
          </rect>
        );
      })}
      <line class="now-line" x1={width / 2} x2={width / 2} y1={0} y2={ROW} />
    </svg>
  );
}

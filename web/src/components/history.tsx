// What happened over time: throughput, failures, wait and run time, with deploy marks.
import { useState } from "preact/hooks";

import { getIfThere, post, remove, segment } from "../api/client";
import { changes, viewerIsActive } from "../api/events";
import type { History, HistoryPoint, Mark } from "../api/shapes";
import { useData } from "../data";
import { axisNumber, compact, count, duration, shortDuration } from "../format";
import { useRoute, withQuery } from "../router";
import { t } from "../texts";
import { At, Button, Empty, Field, Panel, Show, Tabs } from "./basics";
import { Sparkline, timeScale, TimeChart, type Series } from "./chart";
import { act, confirm, FormDialog, notify } from "./feedback";

export const RANGES = {
  "1h": { ms: 3_600_000, step: "1m", refreshMs: 5_000 },
  "24h": { ms: 86_400_000, step: "15m", refreshMs: 30_000 },
  "7d": { ms: 7 * 86_400_000, step: "1h", refreshMs: 60_000 },
} as const;
export type Range = keyof typeof RANGES;
export const rangeOf = (text: string | null): Range => (text === "24h" || text === "7d" ? text : "1h");

const MAX_MARKS = 1000;

// The last range up to now. `undefined` data: the server keeps no history.
export function useHistory(filter: { queue?: string; kind?: string }, range: Range) {
  const { ms, step, refreshMs } = RANGES[range];
  return useData(
    `history ${range} ${filter.queue ?? ""} ${filter.kind ?? ""}`,
    async (signal) => {
      const from = new Date(Date.now() - ms).toISOString();
      return { history: await getIfThere<History>("/v1/history", { queue: filter.queue, kind: filter.kind, from, step }, signal) };
    },
    (event) =>
      viewerIsActive(event) || (event.job !== undefined && event.type !== "progress" && (!filter.queue || event.queue === filter.queue)),
    refreshMs,
  );
}

export function RangeTabs(props: { range: Range }) {
  const route = useRoute();
  return (
    <Tabs
      label={t.chart.range}
      current={props.range}
      tabs={(Object.keys(RANGES) as Range[]).map((one) => ({
        key: one,
        text: t.chart.ranges[one],
        href: withQuery(route, { range: one === "1h" ? undefined : one }),
      }))}
    />
  );
}

export function HistoryPanel(props: { queue?: string; kind?: string; only?: "failures" }) {
  const range = rangeOf(useRoute().query.get("range"));
  const history = useHistory(props, range);
  const [marking, setMarking] = useState(false);
  const from = new Date(Date.now() - RANGES[range].ms).toISOString();
  const marks = useData(`marks ${range}`, async (signal) => ({
    list: (await getIfThere<{ marks: Mark[] }>("/v1/marks", { from, limit: MAX_MARKS }, signal))?.marks ?? [],
  }), (event) => changes(event, "mark"));
  if (history.data && !history.data.history) return null; // an older server
  return (
    <Panel
      title={t.chart.title}
      actions={
        <>
          <RangeTabs range={range} />
          <Button needs={["admin", "*"]} onClick={() => setMarking(true)}>{t.chart.addMark}</Button>
        </>
      }
    >
      <Show of={history}>
        {({ history: data }) => data && <Charts history={data} marks={marks.data?.list ?? []} only={props.only} />}
      </Show>
      {(marks.data?.list.length ?? 0) > 0 && <MarkList marks={marks.data!.list} reload={marks.reload} />}
      {marking && <MarkDialog onClose={() => setMarking(false)} done={marks.reload} />}
    </Panel>
  );
}

function Charts(props: { history: History; marks: Mark[]; only?: "failures" }) {
  const { history, marks, only } = props;
  const points = history.points;
  const sum = history.total;
  if (sum.enqueued + sum.started + sum.completed + sum.failed + sum.dead + sum.cancelled === 0) {
    return <Empty title={t.chart.empty}>{t.chart.emptyHint}</Empty>;
  }
  const times = points.map((point) => point.at!);
  const of = (name: string, tone: Series["tone"], value: (point: HistoryPoint) => number | null, shape?: Series["shape"]): Series => ({
    name, tone, values: points.map(value), shape,
  });
  const common = { times, end: history.to, marks };
  // The last step is not over: a count below the one before it would look like a drop.
  const soFar = (value: (point: HistoryPoint) => number) => (point: HistoryPoint) =>
    point === points.at(-1) && points.length > 1 && value(point) < value(points.at(-2)!) ? null : value(point);
  const throughput = (
    <TimeChart
      {...common}
      label={t.chart.throughput(history.step)}
      format={axisNumber}
      series={[
        of(t.chart.enqueued, "muted", soFar((point) => point.enqueued)),
        of(t.chart.completed, "good", soFar((point) => point.completed)),
      ]}
    />
  );
  const failures = (
    <TimeChart
      {...common}
      label={t.chart.failures(history.step)}
      format={axisNumber}
      series={[
        // A job that dies has failed too: the bars are stacked.
        of(t.chart.failed, "warn", (point) => Math.max(0, point.failed - point.dead), "bars"),
        of(t.chart.dead, "bad", (point) => point.dead, "bars"),
        ...(sum.cancelled > 0 ? [of(t.chart.cancelled, "muted", (point) => point.cancelled, "bars")] : []),
      ]}
    />
  );
  const percentiles = (label: string, times: (point: HistoryPoint) => HistoryPoint["wait"]) => (
    <TimeChart
      {...common}
      label={label}
      format={duration}
      axisFormat={shortDuration}
      scale={timeScale}
      series={[
        of("p50", "accent", (point) => times(point).p50_ms),
        of("p95", "warn", (point) => times(point).p95_ms),
        of("p99", "bad", (point) => times(point).p99_ms),
      ]}
    />
  );
  if (only) return failures;
  return (
    <div class="charts">
      {throughput}
      {failures}
      {percentiles(t.chart.wait, (point) => point.wait)}
      {percentiles(t.chart.run, (point) => point.run)}
    </div>
  );
}

function MarkList(props: { marks: Mark[]; reload: () => void }) {
  const drop = async (mark: Mark) => {
    const yes = await confirm({ title: t.chart.confirmRemoveMark(mark.text), text: t.chart.confirmRemoveMarkText, action: t.remove, danger: true });
    if (yes && (await act(() => remove(`/v1/marks/${segment(mark.id)}`), t.chart.markRemoved(mark.text)))) props.reload();
  };
  return (
    <details>
      <summary>{t.chart.markList(props.marks.length)}</summary>
      <ul class="plain-list">
        {[...props.marks].sort((a, b) => Date.parse(b.at) - Date.parse(a.at)).map((mark) => (
          <li key={mark.id}>
            <span>{mark.text}</span>
            <span class="note">{mark.source !== "worker" ? mark.by : mark.by === "calendar" ? t.chart.byCalendar : t.chart.byWorker}</span>
            <At at={mark.at} />
            <Button needs={["admin", "*"]} onClick={() => drop(mark)} aria-label={`${t.remove} ${mark.text}`}>
              {t.remove}
            </Button>
          </li>
        ))}
      </ul>
    </details>
  );
}

function MarkDialog(props: { onClose: () => void; done: () => void }) {
  const [text, setText] = useState("");
  const submit = async () => {
    await post("/v1/marks", { text: text.trim() });
    notify(t.chart.marked(text.trim()));
    props.done();
  };
  return (
    <FormDialog title={t.chart.addMark} action={t.save} onClose={props.onClose} onSubmit={submit}>
      <Field label={t.chart.markText} hint={t.chart.markHint}>
        <input required maxLength={100} value={text} onInput={(e) => setText(e.currentTarget.value)} />
      </Field>
    </FormDialog>
  );
}

// Completed jobs of one queue in the last hour, small.
export function QueueSparkline(props: { queue: string }) {
  const { ms } = RANGES["1h"];
  const history = useData(
    `sparkline ${props.queue}`,
    async (signal) => {
      const from = new Date(Date.now() - ms).toISOString();
      return { history: await getIfThere<History>("/v1/history", { queue: props.queue, from, step: "2m" }, signal) };
    },
    (event) => event.queue === props.queue && event.type !== "progress",
    15_000,
  );
  const data = history.data?.history;
  if (!data) return <span class="note">{t.none}</span>;
  const bad = data.total.failed > 0 && data.total.failed * 10 > data.total.completed;
  return (
    <span class="spark">
      <Sparkline
        values={data.points.map((point) => point.completed + point.failed)}
        tone={bad ? "bad" : "accent"}
        label={t.chart.sparkline(count(data.total.completed), count(data.total.failed))}
      />
      <span class="note">{compact(data.total.completed)}</span>
    </span>
  );
}

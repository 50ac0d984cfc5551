// Charts over time, drawn as SVG: a sparkline, and a chart with axes, marks, a cursor and a table with the same numbers.
import { useEffect, useRef, useState } from "preact/hooks";

import { axisTime, dateTime } from "../format";
import { useSettings } from "../settings";
import { t } from "../texts";

export interface Series {
  name: string;
  tone: "accent" | "good" | "warn" | "bad" | "muted"; // colour and dash pattern
  values: (number | null)[]; // one per time; null: nothing happened
  shape?: "line" | "bars"; // bars are stacked
}
export interface ChartMark {
  at: string;
  text: string;
}

export interface Scale {
  top: number;
  step: number; // distance of the grid lines
}
const GRID_LINES = 3;

function decimalStep(rough: number): number {
  const power = 10 ** Math.floor(Math.log10(rough));
  return [1, 2, 5, 10].map((n) => n * power).find((n) => n >= rough) ?? rough;
}

const scaleOf = (max: number, step: number): Scale => ({ top: Math.ceil(max / step) * step, step });

// Steps of 1, 2 or 5 times a power of ten.
export const countScale = (max: number): Scale => (max > 0 ? scaleOf(max, Math.max(1, decimalStep(max / GRID_LINES))) : { top: 1, step: 1 });

const [SECOND, MINUTE, HOUR, DAY] = [1_000, 60_000, 3_600_000, 86_400_000];
const TIME_STEPS_MS = [
  ...[1, 2, 5, 10, 15, 20, 30].map((n) => n * SECOND),
  ...[1, 2, 5, 10, 15, 20, 30].map((n) => n * MINUTE),
  ...[1, 2, 3, 6, 12].map((n) => n * HOUR),
];

// Steps of whole seconds, minutes, hours or days, for values in milliseconds.
export function timeScale(max: number): Scale {
  if (!(max > 0)) return { top: 1, step: 1 };
  const rough = max / GRID_LINES;
  if (rough <= SECOND / 2) return scaleOf(max, Math.max(1, decimalStep(rough)));
  return scaleOf(max, TIME_STEPS_MS.find((step) => step >= rough) ?? Math.ceil(decimalStep(rough / DAY)) * DAY);
}

const HEIGHT = 150;
const PAD = { right: 12, top: 22, bottom: 22 };
const LABEL_GAP_PX = 6;
const LABEL_CHARACTER_PX = 7.2; // of the axis font, rounded up
const MIN_LEFT_PX = 50; // charts below each other align
const LABEL_PX = 76;
const MARK_CHARACTERS = 20;
const CHARACTER_PX = 7;

interface Axis extends Scale {
  labels: { value: number; text: string }[];
  left: number; // room for the labels
}

function axisOf(props: { series: Series[]; times: string[]; scale?: (max: number) => Scale; format: (value: number) => string }): Axis {
  const bars = props.series.filter((one) => one.shape === "bars");
  const sums = props.times.map((_, i) => bars.reduce((sum, one) => sum + (one.values[i] ?? 0), 0));
  const lines = props.series.filter((one) => one.shape !== "bars").flatMap((one) => one.values.map((value) => value ?? 0));
  const scale = (props.scale ?? countScale)(Math.max(0, ...sums, ...lines));
  const labels = Array.from({ length: Math.round(scale.top / scale.step) + 1 }, (_, i) => i * scale.step).map((value) => ({ value, text: props.format(value) }));
  const widest = Math.max(...labels.map((label) => label.text.length));
  return { ...scale, labels, left: Math.max(MIN_LEFT_PX, Math.ceil(widest * LABEL_CHARACTER_PX) + LABEL_GAP_PX) };
}

function useWidth() {
  const frame = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(0);
  useEffect(() => {
    const observer = new ResizeObserver(([entry]) => setWidth(Math.floor(entry!.contentRect.width)));
    observer.observe(frame.current!);
    return () => observer.disconnect();
  }, []);
  return { frame, width };
}

export function TimeChart(props: {
  label: string;
  times: string[]; // the starts of the steps, in order
  end: string;
  series: Series[];
  format: (value: number) => string;
  axisFormat?: (value: number) => string; // of the axis; left out: format
  scale?: (max: number) => Scale;
  marks?: ChartMark[];
}) {
  const { times, series, format } = props;
  const axis = axisOf({ ...props, format: props.axisFormat ?? format });
  useSettings();
  const { frame, width } = useWidth();
  const [at, setAt] = useState<number>();
  const [table, setTable] = useState(false);
  const cursor = at === undefined ? undefined : Math.min(at, times.length - 1);
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === "ArrowLeft") setAt(Math.max(0, (cursor ?? times.length) - 1));
    else if (event.key === "ArrowRight") setAt(Math.min(times.length - 1, (cursor ?? -1) + 1));
    else if (event.key === "Escape") setAt(undefined);
    else return;
    event.preventDefault();
  };
  return (
    <figure class="chart">
      <figcaption>
        <strong>{props.label}</strong>
        <span class="legend">
          {series.map((one) => (
            <span key={one.name} class={`legend-item tone-${one.tone}`}>
              <svg width="18" height="8" aria-hidden="true">
                {one.shape === "bars" ? <rect width="18" height="8" /> : <line x1="0" x2="18" y1="4" y2="4" />}
              </svg>
              {one.name} {cursor !== undefined && <b>{one.values[cursor] == null ? t.none : format(one.values[cursor]!)}</b>}
            </span>
          ))}
          <span class="note" aria-live="polite">
            {cursor !== undefined && dateTime(times[cursor]!)}
          </span>
        </span>
        <button type="button" class="link" aria-expanded={table} onClick={() => setTable(!table)}>
          {table ? t.chart.hideTable : t.chart.showTable}
        </button>
      </figcaption>
      <div
        ref={frame}
        class="chart-frame"
        tabIndex={0}
        role="group"
        aria-label={t.chart.keys(props.label)}
        onKeyDown={onKeyDown}
        onPointerMove={(event) => setAt(indexAt(event, times, props.end, axis.left, width))}
        onPointerLeave={() => setAt(undefined)}
      >
        {width > 0 && times.length > 0 && <Plot {...props} axis={axis} width={width} cursor={cursor} />}
      </div>
      {table && <ChartTable {...props} />}
    </figure>
  );
}

function indexAt(event: PointerEvent, times: string[], end: string, left: number, width: number): number | undefined {
  const box = (event.currentTarget as HTMLElement).getBoundingClientRect();
  const from = Date.parse(times[0] ?? end);
  const share = (event.clientX - box.left - left) / Math.max(1, width - left - PAD.right);
  const time = from + share * (Date.parse(end) - from);
  if (share < 0 || share > 1) return undefined;
  const next = times.findIndex((one) => Date.parse(one) > time);
  return next < 0 ? times.length - 1 : Math.max(0, next - 1);
}

function Plot(props: Parameters<typeof TimeChart>[0] & { axis: Axis; width: number; cursor?: number }) {
  const { axis, times, series, width, cursor } = props;
  const from = Date.parse(times[0]!);
  const to = Date.parse(props.end);
  const plotWidth = width - axis.left - PAD.right;
  const x = (time: number) => axis.left + ((time - from) / Math.max(1, to - from)) * plotWidth;
  const bars = series.filter((one) => one.shape === "bars");
  const lines = series.filter((one) => one.shape !== "bars");
  const base = HEIGHT - PAD.bottom;
  const y = (value: number) => base - (value / axis.top) * (base - PAD.top);
  const xs = times.map((one) => x(Date.parse(one)));
  const slot = xs.length > 1 ? xs[1]! - xs[0]! : plotWidth;
  return (
    <svg width={width} height={HEIGHT} aria-hidden="true">
      {axis.labels.map(({ value, text }) => (
        <g key={value} class="grid">
          <line x1={axis.left} x2={width - PAD.right} y1={y(value)} y2={y(value)} />
          <text x={axis.left - LABEL_GAP_PX} y={y(value) + 4} text-anchor="end">
            {text}
          </text>
        </g>
      ))}
      <TimeAxis from={from} to={to} x={x} y={HEIGHT - 6} width={width} />
      {bars.map((one, n) =>
        one.values.map((value, i) => {
          if (!value) return null;
          const below = bars.slice(0, n).reduce((sum, other) => sum + (other.values[i] ?? 0), 0);
          const height = Math.max(1, y(below) - y(below + value));
          return <rect key={`${n} ${i}`} class={`bar tone-${one.tone}`} x={xs[i]! + slot * 0.1} width={Math.max(1, slot * 0.8)} y={y(below + value)} height={height} />;
        }),
      )}
      {lines.map((one) => (
        <path key={one.name} class={`line tone-${one.tone}`} d={linePath(one.values, xs, y, slot)} />
      ))}
      <Marks marks={props.marks ?? []} from={from} to={to} x={x} base={base} />
      {cursor !== undefined && <line class="cursor" x1={xs[cursor]! + slot / 2} x2={xs[cursor]! + slot / 2} y1={PAD.top} y2={base} />}
    </svg>
  );
}

// Through the middles of the steps; a step without a value interrupts the line.
function linePath(values: (number | null)[], xs: number[], y: (value: number) => number, slot: number): string {
  let path = "";
  values.forEach((value, i) => {
    if (value === null) return;
    const alone = values[i - 1] == null;
    const point = `${(xs[i]! + slot / 2).toFixed(1)} ${y(value).toFixed(1)}`;
    path += alone ? `M${point}` : `L${point}`;
    if (alone && values[i + 1] == null) path += "h1.5";
  });
  return path;
}

const AXIS_STEPS_MS = [5, 10, 15, 30, 60, 180, 360, 720, 1440, 2880].map((minutes) => minutes * 60_000);

// Whole hours and days of the shown zone. Days begin at midnight also after a clock change; hours keep the offset of the start.
export function ticksOf(from: number, to: number, step: number, zone?: string): number[] {
  const offset = axisTime.offsetMs(from, zone);
  const ticks: number[] = [];
  for (let local = Math.ceil((from + offset) / step) * step; ; local += step) {
    const time = local - (step < DAY ? offset : axisTime.offsetMs(local - offset, zone));
    if (!(time <= to)) return ticks;
    if (time >= from) ticks.push(time);
  }
}

export function TimeAxis(props: { from: number; to: number; x: (time: number) => number; y: number; width: number; zone?: string }) {
  const { from, to, x } = props;
  const most = Math.max(2, Math.floor(props.width / LABEL_PX));
  const step = AXIS_STEPS_MS.find((one) => (to - from) / one <= most) ?? AXIS_STEPS_MS.at(-1)!;
  return (
    <g class="axis">
      {ticksOf(from, to, step, props.zone).map((time) => (
        <text key={time} x={x(time)} y={props.y} text-anchor={x(time) > props.width - 30 ? "end" : "middle"}>
          {axisTime.label(time, step, props.zone)}
        </text>
      ))}
    </g>
  );
}

function Marks(props: { marks: ChartMark[]; from: number; to: number; x: (time: number) => number; base: number }) {
  let labelled = -Infinity;
  const shown = props.marks
    .map((mark) => ({ ...mark, time: Date.parse(mark.at) }))
    .filter((mark) => mark.time >= props.from && mark.time <= props.to)
    .sort((a, b) => a.time - b.time);
  return (
    <g class="marks">
      {shown.map((mark, i) => {
        const at = props.x(mark.time);
        const text = mark.text.length > MARK_CHARACTERS ? `${mark.text.slice(0, MARK_CHARACTERS - 1)}…` : mark.text;
        const size = text.length * CHARACTER_PX;
        const left = at + size > props.x(props.to); // no room to the right
        const start = left ? at - size : at;
        const room = start > labelled;
        if (room) labelled = start + size + 8;
        return (
          <g key={i}>
            <title>{`${mark.text} · ${dateTime(mark.at)}`}</title>
            <line x1={at} x2={at} y1={room ? 14 : PAD.top} y2={props.base} />
            {room && (
              <text x={left ? at - 3 : at + 3} y={12} text-anchor={left ? "end" : "start"}>
                {text}
              </text>
            )}
          </g>
        );
      })}
    </g>
  );
}

function ChartTable(props: Parameters<typeof TimeChart>[0]) {
  return (
    <div class="table-frame chart-table" tabIndex={0} role="region" aria-label={props.label}>
      <table aria-label={props.label}>
        <thead>
          <tr>
            <th scope="col">{t.chart.from}</th>
            {props.series.map((one) => (
              <th key={one.name} scope="col" class="numeric">
                {one.name}
              </th>
            ))}
            <th scope="col">{t.chart.marks}</th>
          </tr>
        </thead>
        <tbody>
          {props.times.map((time, i) => {
            const next = props.times[i + 1] ?? props.end;
            const marks = (props.marks ?? []).filter((mark) => Date.parse(mark.at) >= Date.parse(time) && Date.parse(mark.at) < Date.parse(next));
            return (
              <tr key={time}>
                <td data-title={t.chart.from}>{dateTime(time)}</td>
                {props.series.map((one) => (
                  <td key={one.name} class="numeric" data-title={one.name}>
                    {one.values[i] == null ? t.none : props.format(one.values[i]!)}
                  </td>
                ))}
                <td data-title={t.chart.marks}>{marks.map((mark) => mark.text).join(", ")}</td>
              </tr>
            );
          })}
        </tbody>
      </table>
    </div>
  );
}

// A line without axes. Its numbers are in `label`, for readers of the screen.
export function Sparkline(props: { values: number[]; label: string; tone?: Series["tone"] }) {
  const { values } = props;
  const width = 110;
  const height = 24;
  const top = Math.max(1, ...values);
  const points = values.map((value, i) => {
    const x = values.length > 1 ? (i / (values.length - 1)) * (width - 2) + 1 : width / 2;
    return `${x.toFixed(1)},${(height - 2 - (value / top) * (height - 4)).toFixed(1)}`;
  });
  return (
    <svg class={`sparkline tone-${props.tone ?? "accent"}`} width={width} height={height} viewBox={`0 0 ${width} ${height}`} preserveAspectRatio="none" role="img" aria-label={props.label}>
      <title>{props.label}</title>
      <polyline points={points.join(" ")} />
    </svg>
  );
}

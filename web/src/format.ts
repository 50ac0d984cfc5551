// Numbers, durations and times as people read them.
import { currentZone } from "./settings";
import { t } from "./texts";

const UNITS: [number, string][] = [
  [86_400_000, "d"],
  [3_600_000, "h"],
  [60_000, "m"],
  [1_000, "s"],
];

// 350 ms, 4.2 s, 3 m 20 s, 2 d 4 h: two units at most.
export function duration(ms: number): string {
  if (!Number.isFinite(ms)) return t.none;
  const sign = ms < 0 ? "-" : "";
  ms = Math.abs(ms);
  if (ms < 1) return ms === 0 ? "0 s" : `${sign}<1 ms`;
  if (ms < 1_000) return `${sign}${Math.round(ms)} ms`;
  if (ms < 10_000) return `${sign}${(ms / 1_000).toFixed(1)} s`;
  const parts: string[] = [];
  let rest = Math.round(ms / 1_000) * 1_000;
  for (const [size, unit] of UNITS) {
    const count = Math.floor(rest / size);
    if (count === 0 && parts.length === 0) continue;
    rest -= count * size;
    if (count > 0) parts.push(`${count} ${unit}`);
    if (parts.length === 2 || (parts.length === 1 && count === 0)) break;
  }
  return sign + parts.join(" ");
}

// Without a fraction of zero: 500 ms, 2 s, 15 m.
export const shortDuration = (ms: number): string => duration(ms).replace(".0 ", " ");

export const capital = (text: string): string => text.slice(0, 1).toUpperCase() + text.slice(1);

const numbers = new Intl.NumberFormat("en");
export const count = (n: number | bigint): string => numbers.format(n);
const compactNumbers = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
export const compact = (n: number): string => compactNumbers.format(n);

// Whole numbers of an axis, short.
export const axisNumber = (n: number): string => (n < 10 && !Number.isInteger(n) ? n.toFixed(1) : compact(n));

export function bytes(n: number): string {
  for (const unit of ["B", "KiB", "MiB", "GiB"]) {
    if (n < 1024) return `${n < 10 && unit !== "B" ? n.toFixed(1) : Math.round(n)} ${unit}`;
    n /= 1024;
  }
  return `${n.toFixed(1)} TiB`;
}

// The time zone's rules come from the browser. `zone`: an IANA name, else the viewer's choice.
export function dateTime(at: string | Date, zone?: string): string {
  const date = typeof at === "string" ? new Date(at) : at;
  if (Number.isNaN(date.getTime())) return String(at);
  const timeZone = zone ?? (currentZone() === "utc" ? "UTC" : undefined);
  const options: Intl.DateTimeFormatOptions = {
    year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit", second: "2-digit",
    hourCycle: "h23", timeZone, timeZoneName: "short",
  };
  try {
    const parts = new Map(new Intl.DateTimeFormat("en", options).formatToParts(date).map((p) => [p.type, p.value]));
    const day = `${parts.get("year")}-${parts.get("month")}-${parts.get("day")}`;
    return `${day} ${parts.get("hour")}:${parts.get("minute")}:${parts.get("second")} ${parts.get("timeZoneName")}`;
  } catch {
    return date.toISOString(); // a zone that this browser does not know
  }
}

// "in 3 m", "20 s ago", "now".
export function relative(at: string | Date, now = Date.now()): string {
  const ms = new Date(at).getTime() - now;
  if (Math.abs(ms) < 1_000) return t.now;
  const span = shortDuration(Math.round(Math.abs(ms) / 1_000) * 1_000);
  return ms > 0 ? t.inTime(span) : t.ago(span);
}

// What <input type="datetime-local"> holds, in the viewer's choice of zone; undefined: it is empty.
export function instantOf(text: string): string | undefined {
  return text ? new Date(currentZone() === "utc" ? `${text}Z` : text).toISOString() : undefined;
}
export function inputOf(instant: string): string {
  const date = new Date(instant);
  if (Number.isNaN(date.getTime())) return "";
  const ahead = currentZone() === "utc" ? 0 : date.getTimezoneOffset() * 60_000;
  return new Date(date.getTime() - ahead).toISOString().slice(0, 16);
}
export const zoneName = (): string => (currentZone() === "utc" ? t.utcShort : "");

// Labels of time axes.
export const axisTime = {
  // What the zone's clock is ahead of UTC by, at `time`.
  offsetMs(time: number, zone?: string): number {
    const timeZone = zone ?? (currentZone() === "utc" ? "UTC" : undefined);
    try {
      const parts = Object.fromEntries(
        new Intl.DateTimeFormat("en", {
          year: "numeric", month: "numeric", day: "numeric", hour: "numeric", minute: "numeric", second: "numeric",
          hourCycle: "h23", timeZone,
        })
          .formatToParts(time)
          .map((part) => [part.type, Number(part.value)]),
      );
      const local = Date.UTC(parts.year!, parts.month! - 1, parts.day, parts.hour, parts.minute, parts.second);
      return local - Math.floor(time / 1000) * 1000;
    } catch {
      return 0;
    }
  },
  label(time: number, stepMs: number, zone?: string): string {
    const timeZone = zone ?? (currentZone() === "utc" ? "UTC" : undefined);
    const days = stepMs >= 86_400_000;
    const format = (options: Intl.DateTimeFormatOptions) => new Intl.DateTimeFormat("en", { ...options, hourCycle: "h23", timeZone }).format(time);
    try {
      const clock = format({ hour: "2-digit", minute: "2-digit" });
      return days || clock === "00:00" ? `${format({ weekday: "short" })} ${format({ day: "numeric" })}` : clock;
    } catch {
      return "";
    }
  },
};

// A schedule in words. Forms of cron that have no short sentence are shown as they are.
import { dateTime } from "../../format";
import { t } from "../../texts";

interface Timing {
  cron?: string;
  every?: string;
  at?: string;
}

export function describe(one: Timing): string {
  if (one.every) return t.schedules.every(one.every);
  if (one.at) return t.schedules.at(dateTime(one.at));
  return one.cron ? (cronInWords(one.cron) ?? t.schedules.cron(one.cron)) : t.none;
}

const MACROS: Record<string, string> = {
  "@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *", "@monthly": "0 0 1 * *", "@weekly": "0 0 * * 0",
  "@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@hourly": "0 * * * *",
};
const DAYS = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];
const MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const MAX_TIMES = 4;
const two = (n: number): string => String(n).padStart(2, "0");
const clock = (hour: number, minute: number): string => `${two(hour)}:${two(minute)}`;

// "1,3-5" as numbers; undefined for any other form. A long range is not a list. With `span`, the length of the field, a
// range may go backwards: 5-1 of 7 weekdays.
function listOf(field: string, span?: number): number[] | undefined {
  const out: number[] = [];
  for (const part of field.split(",")) {
    const range = /^(\d{1,2})(?:-(\d{1,2}))?$/.exec(part);
    if (!range) return undefined;
    const first = Number(range[1]);
    let last = range[2] === undefined ? first : Number(range[2]);
    if (last < first && span) last += span;
    if (last < first || out.length + last - first > 31) return undefined;
    for (let n = first; n <= last; ++n) out.push(span === undefined || n <= span ? n : n - span);
  }
  return out;
}
const rangeOf = (field: string): [number, number] | undefined => {
  const range = /^(\d{1,2})-(\d{1,2})$/.exec(field);
  return range ? [Number(range[1]), Number(range[2])] : undefined;
};
// A step that does not divide `all` is no interval: */45 is minute 0 and 45.
const stepOf = (field: string, all: number): number | undefined => {
  const step = Number(/^\*\/(\d{1,2})$/.exec(field)?.[1]);
  return all % step === 0 ? step : undefined;
};

// What repeats within the day, or the times of the day.
function timeInWords(minute: string, hour: string): { text: string; daily: boolean } | undefined {
  const minutes = listOf(minute);
  const hours = listOf(hour);
  if (minutes && hours && minutes.length * hours.length <= MAX_TIMES) {
    const times = hours.flatMap((h) => minutes.map((m) => clock(h, m)));
    return { text: t.schedules.atTimes(times), daily: true };
  }
  const each = stepOf(minute, 60);
  const often =
    minute === "*" ? t.schedules.everyMinute : each ? t.schedules.everyMinutes(each) : minutes?.length === 1 ? t.schedules.hourly(two(minutes[0]!)) : undefined;
  const hourStep = stepOf(hour, 24);
  if (hourStep && minutes?.length === 1) return { text: t.schedules.everyHours(hourStep, two(minutes[0]!)), daily: false };
  if (!often) return undefined;
  if (hour === "*") return { text: often, daily: false };
  const range = rangeOf(hour);
  if (range) return { text: t.schedules.between(often, clock(range[0], 0), clock(range[1], 59)), daily: false };
  return undefined;
}

function named(field: string, names: string[], first: number): string {
  return field.toLowerCase().replace(/[a-z]{3}/g, (word) => (names.includes(word) ? String(names.indexOf(word) + first) : word));
}

// One of the special days of a month: L L-2 15W LW 5L 5#2; undefined for any other form.
function specialDay(day: string, weekday: string): string | undefined {
  const nth = /^(\d)(?:#([1-5l])|(l))$/i.exec(weekday);
  const name = nth ? t.schedules.days[Number(nth[1]) % 7] : undefined;
  if (day === "*") return name && (Number(nth![2]) ? t.schedules.nthDay(Number(nth![2]), name) : t.schedules.lastOf(name));
  const special = /^(?:l(?:-(\d{1,2}))?|(\d{1,2})w|(lw))$/i.exec(day);
  if (!special || weekday !== "*") return undefined;
  if (special[3]) return t.schedules.lastWorkday;
  if (special[2]) return t.schedules.nearest(Number(special[2]));
  return Number(special[1]) ? t.schedules.beforeLastDay(Number(special[1])) : t.schedules.lastDay;
}

function daysInWords(day: string, month: string, weekday: string): string | undefined {
  const months = month === "*" ? [] : listOf(month, 12);
  if (!months) return undefined;
  const inMonths = months.length === 0 ? "" : ` ${t.schedules.inMonths(months.map((n) => t.schedules.months[n - 1] ?? String(n)))}`;
  if (day === "*" && weekday === "*") return inMonths.trim();
  const special = specialDay(day, weekday);
  if (special) return special + inMonths;
  if (day !== "*" && weekday !== "*") return undefined;
  if (weekday !== "*") {
    if (weekday === "1-5") return t.schedules.workdays + inMonths;
    const list = listOf(weekday, 7);
    return list && t.schedules.onDays([...new Set(list.map((n) => t.schedules.days[n % 7]!))]) + inMonths;
  }
  const list = listOf(day, 31);
  return list && t.schedules.onDates(list) + (inMonths || ` ${t.schedules.eachMonth}`);
}

function cronInWords(cron: string): string | undefined {
  const fields = (MACROS[cron.trim()] ?? cron).trim().split(/\s+/).map((field) => (field === "?" ? "*" : field));
  if (fields.length === 6) {
    if (fields[0] !== "0") return undefined; // seconds
    fields.shift();
  }
  if (fields.length !== 5) return undefined;
  const [minute, hour, day, month, weekday] = fields as [string, string, string, string, string];
  const time = timeInWords(minute, hour);
  const days = daysInWords(day, named(month, MONTHS, 1), named(weekday, DAYS, 0));
  if (!time || days === undefined) return undefined;
  if (days === "") return time.daily ? t.schedules.daily(time.text) : time.text;
  return t.schedules.both(time.text, days);
}

// A schedule in words, for the common forms of cron; other forms are shown as they are.
import { t } from "../../texts";

interface Timing {
  cron?: string;
  every?: string;
  at?: string;
}

export function describe(one: Timing): string {
  if (one.every) return t.schedules.every(one.every);
  if (one.at) return t.schedules.at(one.at);
  return one.cron ? cronInWords(one.cron) : t.none;
}

const MACROS: Record<string, string> = {
  "@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *", "@monthly": "0 0 1 * *", "@weekly": "0 0 * * 0",
  "@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@hourly": "0 * * * *",
};
const number = (text: string | undefined): number | undefined => (text !== undefined && /^\d{1,2}$/.test(text) ? Number(text) : undefined);
const two = (n: number): string => String(n).padStart(2, "0");

function cronInWords(cron: string): string {
  const fields = (MACROS[cron.trim()] ?? cron).trim().split(/\s+/);
  const raw = t.schedules.cron(cron);
  if (fields.length !== 5) return raw;
  const [minute, hour, day, month, weekday] = fields as [string, string, string, string, string];
  const step = /^\*\/(\d{1,2})$/;
  const rest = `${day} ${month} ${weekday}`;
  const m = number(minute);
  const h = number(hour);
  if (rest === "* * *") {
    if (minute === "*" && hour === "*") return t.schedules.everyMinute;
    const minutes = step.exec(minute);
    if (minutes && hour === "*") return t.schedules.everyMinutes(Number(minutes[1]));
    if (m !== undefined && hour === "*") return t.schedules.hourly(two(m));
    const hours = step.exec(hour);
    if (m !== undefined && hours) return t.schedules.everyHours(Number(hours[1]), two(m));
    if (m !== undefined && h !== undefined) return t.schedules.daily(`${two(h)}:${two(m)}`);
  }
  if (m === undefined || h === undefined || month !== "*") return raw;
  const time = `${two(h)}:${two(m)}`;
  if (day === "*" && weekday === "1-5") return t.schedules.weekdays(time);
  const wd = number(weekday);
  if (day === "*" && wd !== undefined && wd <= 7) return t.schedules.weekly(t.schedules.days[wd % 7]!, time);
  const d = number(day);
  if (weekday === "*" && d !== undefined) return t.schedules.monthly(d, time);
  return raw;
}

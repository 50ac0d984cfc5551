// A period: the last hours or days, or from one instant to another.
import { useState } from "preact/hooks";

import { inputOf, instantOf, zoneName } from "../format";
import type { Route } from "../router";
import { useSettings } from "../settings";
import { t } from "../texts";

export const WINDOWS: Record<string, number> = { "15m": 900_000, "1h": 3_600_000, "24h": 86_400_000, "7d": 604_800_000 };

export interface Period {
  within: string; // of WINDOWS, or "" for from and to
  unknown?: string; // what the address has instead of one of WINDOWS
  from: string;
  to: string;
}
export const ANY_TIME: Period = { within: "", from: "", to: "" };

// `parameter` of the address holds `within`.
export function periodOf(route: Route, parameter: string): Period {
  const get = (name: string) => route.query.get(name) ?? "";
  const within = get(parameter);
  const known = Object.keys(WINDOWS).includes(within);
  return { ...(known ? { within } : { within: "", unknown: within || undefined }), from: get("from"), to: get("to") };
}

export const isBounded = (period: Period): boolean => period.within !== "" || period.from !== "" || period.to !== "";

// The first instant of the period, and the first one after it.
export function bounds(period: Period, now = Date.now()): { from: number; to: number } {
  if (period.within) return { from: now - WINDOWS[period.within]!, to: Infinity };
  return { from: period.from ? Date.parse(period.from) : -Infinity, to: period.to ? Date.parse(period.to) : Infinity };
}

export function PeriodFields(props: { label: string; period: Period; onChange: (period: Period) => void }) {
  const { period, onChange } = props;
  const [picking, setPicking] = useState(false);
  const custom = (picking || period.from !== "" || period.to !== "") && period.within === "";
  useSettings(); // the fields show times in the chosen zone
  const instant = (name: "from" | "to") => (
    <label>
      {t.jobs[name]} {zoneName()}{" "}
      <input
        type="datetime-local"
        value={inputOf(period[name])}
        onChange={(e) => onChange({ ...period, within: "", [name]: instantOf(e.currentTarget.value) ?? "" })}
      />
    </label>
  );
  return (
    <>
      <label>
        {props.label}{" "}
        <select
          value={custom ? "custom" : period.within}
          onChange={(e) => {
            const value = e.currentTarget.value;
            setPicking(value === "custom");
            onChange({ ...ANY_TIME, within: value === "custom" ? "" : value });
          }}
        >
          <option value="">{t.jobs.anyTime}</option>
          {Object.keys(WINDOWS).map((one) => (
            <option key={one} value={one}>
              {t.jobs.last(one)}
            </option>
          ))}
          <option value="custom">{t.jobs.customTime}</option>
        </select>
      </label>
      {custom && instant("from")}
      {custom && instant("to")}
      {period.unknown && (
        <span class="note" role="status">
          {t.jobs.unknownPeriod(period.unknown)}
        </span>
      )}
    </>
  );
}

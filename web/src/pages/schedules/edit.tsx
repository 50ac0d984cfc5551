// Creates or replaces a schedule; shows the next ticks before it is saved.
import { useState } from "preact/hooks";

import { get, post, put, segment, type Schemas } from "../../api/client";
import { formatJson } from "../../api/json";
import { typedJson } from "../../api/typed_json";
import { ArgsField } from "../../components/args_field";
import { At, Button, Field } from "../../components/basics";
import { FormDialog, mayCreate, messageOf, notify } from "../../components/feedback";
import { t } from "../../texts";
import type { Schedule } from "./page";

type Timing = "cron" | "every" | "at";

const OVERLAPS = ["skip", "buffer_one", "buffer_all", "cancel_other", "terminate_other", "allow"] as const;
const MISFIRES = ["skip", "once", "all"] as const;

export function ScheduleDialog(props: { of?: Schedule; onClose: () => void; done: () => void }) {
  const { of } = props;
  const [name, setName] = useState(of?.name ?? "");
  const [timing, setTiming] = useState<Timing>(of?.every ? "every" : of?.at ? "at" : "cron");
  const [when, setWhen] = useState(of?.cron ?? of?.every ?? of?.at ?? "0 3 * * *");
  const [zone, setZone] = useState(of?.time_zone ?? Intl.DateTimeFormat().resolvedOptions().timeZone ?? "UTC");
  const [queue, setQueue] = useState(of?.job?.queue ?? "default");
  const [kind, setKind] = useState(of?.job?.kind ?? "");
  const [args, setArgs] = useState(formatJson(of?.job?.args ?? {}));
  const [overlap, setOverlap] = useState<string>(of?.overlap ?? "skip");
  const [misfire, setMisfire] = useState<string>(of?.misfire ?? "once");
  const [jitter, setJitter] = useState<string>(of?.jitter ?? "0s");
  const [ticks, setTicks] = useState<Schemas["Preview"]["ticks"]>();
  const [problem, setProblem] = useState("");

  const definition = (): Record<string, unknown> => {
    const value = typedJson("args", args) ?? {};
    // What this form does not show stays as it is.
    const kept: Record<string, unknown> = {};
    for (const key of ["repeated_hour", "misfire_window", "misfire_cap", "start_at", "end_at", "max_runs", "pause_on_failure", "continuous"] as const) {
      if (of?.[key] !== undefined) kept[key] = of[key];
    }
    return { ...kept, [timing]: when.trim(), time_zone: zone, overlap, misfire, jitter, job: { ...of?.job, queue, kind, args: value } };
  };
  const preview = async () => {
    setProblem("");
    try {
      const answer = await post<Schemas["Preview"]>("/v1/schedules/preview", { schedule: definition(), count: 5 });
      setTicks(answer.ticks);
    } catch (error) {
      setTicks(undefined);
      setProblem(messageOf(error));
    }
  };
  const submit = async () => {
    const value = definition();
    const path = `/v1/schedules/${segment(name)}`;
    if (!of && !(await mayCreate(name, () => get(path)))) return false;
    const answer = await put<Schedule>(path, value);
    notify(t.schedules.saved(name, answer.outcome ?? ""));
    props.done();
  };
  return (
    <FormDialog title={of ? t.schedules.edit : t.schedules.create} action={t.save} onClose={props.onClose} onSubmit={submit} wide>
      <Field label={t.name}>
        <input required disabled={of !== undefined} value={name} onInput={(e) => setName(e.currentTarget.value)} />
      </Field>
      <div class="form-row">
        <Field label={t.schedules.timing}>
          <select value={timing} onChange={(e) => setTiming(e.currentTarget.value as Timing)}>
            {(["cron", "every", "at"] as Timing[]).map((one) => (
              <option key={one} value={one}>
                {t.schedules.timings[one]}
              </option>
            ))}
          </select>
        </Field>
        <Field label={t.schedules.when} hint={t.schedules.timingHints[timing]}>
          <input required value={when} onInput={(e) => setWhen(e.currentTarget.value)} />
        </Field>
        <Field label={t.schedules.zone}>
          <input value={zone} onInput={(e) => setZone(e.currentTarget.value)} />
        </Field>
      </div>
      <div class="form-row">
        <Field label={t.jobs.queue}>
          <input required value={queue} onInput={(e) => setQueue(e.currentTarget.value)} />
        </Field>
        <Field label={t.jobs.kind}>
          <input required value={kind} onInput={(e) => setKind(e.currentTarget.value)} />
        </Field>
      </div>
      <ArgsField label={t.jobs.args} rows={4} value={args} onInput={setArgs} />
      <div class="form-row">
        <Field label={t.schedules.overlap} hint={t.schedules.overlapHint}>
          <select value={overlap} onChange={(e) => setOverlap(e.currentTarget.value)}>
            {OVERLAPS.map((one) => (
              <option key={one} value={one}>
                {t.schedules.overlaps[one]}
              </option>
            ))}
          </select>
        </Field>
        <Field label={t.schedules.misfire} hint={t.schedules.misfireHint}>
          <select value={misfire} onChange={(e) => setMisfire(e.currentTarget.value)}>
            {MISFIRES.map((one) => (
              <option key={one} value={one}>
                {t.schedules.misfires[one]}
              </option>
            ))}
          </select>
        </Field>
        <Field label={t.schedules.jitter} hint={t.schedules.jitterHint}>
          <input value={jitter} onInput={(e) => setJitter(e.currentTarget.value)} />
        </Field>
      </div>
      <Button onClick={preview}>{t.schedules.preview}</Button>
      {problem && (
        <p class="field-error" role="alert">
          {problem}
        </p>
      )}
      {ticks && (
        <ol class="ticks">
          {ticks.map((tick) => (
            <li key={tick.nominal}>
              <At at={tick.fires_at ?? tick.nominal} zone={zone} /> {tick.note && <span class="note">{tick.note}</span>}
            </li>
          ))}
        </ol>
      )}
    </FormDialog>
  );
}

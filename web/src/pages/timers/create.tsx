// Creates a continuous timer, with the same defaults as `mainspring timers set`.
import { useState } from "preact/hooks";

import { get, put, segment } from "../../api/client";
import { Field } from "../../components/basics";
import { FormDialog, mayCreate, notify } from "../../components/feedback";
import { t } from "../../texts";
import type { Schedule } from "../schedules/page";

const MAX_ATTEMPTS = 3;

export function CreateDialog(props: { onClose: () => void; done: () => void }) {
  const [form, setForm] = useState({ name: "", queue: "default", kind: "", every: "5m", timeout: "20m" });
  const text = (name: keyof typeof form, label: string, hint?: string) => (
    <Field label={label} hint={hint}>
      <input required value={form[name]} onInput={(e) => setForm({ ...form, [name]: e.currentTarget.value })} />
    </Field>
  );
  const submit = async () => {
    const name = form.name.trim();
    const path = `/v1/schedules/${segment(name)}`;
    if (!(await mayCreate(name, () => get(path)))) return false;
    const answer = await put<Schedule>(path, {
      every: form.every.trim(),
      continuous: { timeout: form.timeout.trim() },
      // The run ends itself; its time limit may change meanwhile.
      job: { queue: form.queue.trim(), kind: form.kind.trim(), timeout: "none", max_attempts: MAX_ATTEMPTS },
    });
    notify(t.timers.saved(name, answer.outcome ?? ""));
    props.done();
  };
  return (
    <FormDialog title={t.timers.create} action={t.save} onClose={props.onClose} onSubmit={submit}>
      {text("name", t.name)}
      <div class="form-row">
        {text("queue", t.jobs.queue)}
        {text("kind", t.jobs.kind)}
      </div>
      <div class="form-row">
        {text("timeout", t.timers.timeout, t.timers.newTimeoutHint)}
        {text("every", t.timers.every, t.timers.everyHint)}
      </div>
    </FormDialog>
  );
}

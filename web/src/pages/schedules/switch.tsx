// Pauses or resumes several schedules in one request: the selected ones, those with a prefix, or all.
import { useState } from "preact/hooks";

import { post } from "../../api/client";
import { Field } from "../../components/basics";
import { FormDialog, notify } from "../../components/feedback";
import { t } from "../../texts";

interface Switched {
  changed: string[];
  unchanged: string[];
  missing: string[];
}

export function SwitchDialog(props: { verb: "pause" | "resume"; names?: string[]; onClose: () => void; done: () => void }) {
  const { verb, names } = props;
  const [which, setWhich] = useState<"prefix" | "all">("prefix");
  const [prefix, setPrefix] = useState("");
  const [reason, setReason] = useState("");
  const pausing = verb === "pause";
  const submit = async () => {
    const body: Record<string, unknown> = names ? { names } : which === "all" ? { all: true } : { prefix };
    if (pausing && reason.trim() !== "") body.reason = reason.trim();
    const { changed } = await post<Switched>(`/v1/schedules/${verb}`, body);
    notify(t.schedules.changed(changed.length, pausing ? t.schedules.pausedVerb : t.schedules.resumedVerb));
    props.done();
  };
  const title = names
    ? pausing ? t.schedules.confirmPause(names.length) : t.schedules.confirmResume(names.length)
    : pausing ? t.schedules.pauseSeveral : t.schedules.resumeSeveral;
  return (
    <FormDialog title={title} action={pausing ? t.queues.pause : t.queues.resume} danger={pausing} onClose={props.onClose} onSubmit={submit}>
      <p class="note">{pausing ? t.schedules.confirmPauseText : t.schedules.confirmResumeText}</p>
      {!names && (
        <div class="form-row">
          <Field label={t.schedules.pauseWhich}>
            <select value={which} onChange={(e) => setWhich(e.currentTarget.value as "prefix" | "all")}>
              <option value="prefix">{t.schedules.byPrefix}</option>
              <option value="all">{t.schedules.everything}</option>
            </select>
          </Field>
          {which === "prefix" && (
            <Field label={t.schedules.prefix}>
              <input required value={prefix} onInput={(e) => setPrefix(e.currentTarget.value)} />
            </Field>
          )}
        </div>
      )}
      {pausing && (
        <Field label={t.reason}>
          <input maxLength={200} value={reason} onInput={(e) => setReason(e.currentTarget.value)} />
        </Field>
      )}
    </FormDialog>
  );
}

// Changes a job that has not started.
import { useState } from "preact/hooks";

import { patch, segment, type Schemas } from "../../api/client";
import { formatJson } from "../../api/json";
import { typedJson } from "../../api/typed_json";
import { ArgsField } from "../../components/args_field";
import { Field } from "../../components/basics";
import { FormDialog, notify } from "../../components/feedback";
import { t } from "../../texts";

export function EditJobDialog(props: { job: Schemas["Job"]; onClose: () => void; done: () => void }) {
  // The page under the dialog may read the job again. The form and its version stay those of the job that was opened.
  const [job] = useState(props.job);
  // Without read:payload the args are hidden: they stay as they are.
  const hidden = job.args === null || job.args === undefined;
  const before = hidden ? "" : formatJson(job.args);
  const [args, setArgs] = useState(before);
  const [priority, setPriority] = useState(String(job.priority ?? 5));
  const [runAt, setRunAt] = useState(job.state === "scheduled" ? (job.run_at ?? "") : "");
  const [tags, setTags] = useState((job.tags ?? []).join(" "));
  const submit = async () => {
    const body: Record<string, unknown> = {};
    if (args !== before) body.args = typedJson("args", args) ?? {};
    if (Number(priority) !== (job.priority ?? 5)) body.priority = Number(priority);
    if (runAt.trim() !== "" && runAt.trim() !== job.run_at) body.run_at = runAt.trim();
    const list = tags.split(/\s+/).filter(Boolean);
    if (list.join(" ") !== (job.tags ?? []).join(" ")) body.tags = list;
    // A change by another viewer since this page was read is not overwritten.
    if (Object.keys(body).length > 0) await patch(`/v1/jobs/${segment(job.id)}`, { ...body, version: job.version });
    notify(t.job.edited);
    props.done();
  };
  return (
    <FormDialog title={t.job.editTitle(String(job.id))} action={t.save} onClose={props.onClose} onSubmit={submit} wide>
      {hidden ? (
        <p class="note">{t.job.hidden}</p>
      ) : (
        <ArgsField label={t.job.args} rows={8} value={args} onInput={setArgs} />
      )}
      <div class="form-row">
        <Field label={t.jobs.priority} hint={t.jobs.priorityHint}>
          <input type="number" min={0} max={9} value={priority} onInput={(e) => setPriority(e.currentTarget.value)} />
        </Field>
        <Field label={t.job.runAt} hint={t.job.runAtHint}>
          <input value={runAt} onInput={(e) => setRunAt(e.currentTarget.value)} />
        </Field>
        <Field label={t.job.tags} hint={t.job.tagsHint}>
          <input value={tags} onInput={(e) => setTags(e.currentTarget.value)} />
        </Field>
      </div>
    </FormDialog>
  );
}

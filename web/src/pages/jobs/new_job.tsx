// A form that enqueues one job; also "run again with changed args".
import { useState } from "preact/hooks";

import { post, segment, type Schemas } from "../../api/client";
import { formatJson } from "../../api/json";
import { typedJson } from "../../api/typed_json";
import { Field } from "../../components/basics";
import { FormDialog, notify } from "../../components/feedback";
import { link, navigate } from "../../router";
import { t } from "../../texts";

export function NewJobDialog(props: { queue?: string; like?: Schemas["Job"]; onClose: () => void }) {
  const { like } = props;
  const [queue, setQueue] = useState(like?.queue ?? (props.queue || "default"));
  const [kind, setKind] = useState(like?.kind ?? "");
  const [priority, setPriority] = useState(String(like?.priority ?? 5));
  const [delay, setDelay] = useState("");
  const [args, setArgs] = useState(like ? (like.args == null ? "" : formatJson(like.args)) : "{}");
  // Without read:payload the args of `like` are hidden: the copy gets them on the server.
  const hidden = like !== undefined && (like.args === null || like.args === undefined);
  const submit = async () => {
    const value = hidden && args === "" ? undefined : (typedJson("args", args) ?? {});
    const wait = delay.trim();
    const made = like
      ? await post<Schemas["EnqueuedJob"]>(`/v1/jobs/${segment(like.id)}/clone`, {
          ...(value === undefined ? {} : { args: value }),
          queue,
          priority: Number(priority),
          ...(wait === "" ? {} : { run_at: wait }),
        })
      : await post<Schemas["EnqueuedJob"]>("/v1/jobs", { queue, kind, args: value, priority: Number(priority), ...(wait === "" ? {} : { delay: wait }) });
    notify(t.jobs.created(String(made.id)));
    navigate(link(["jobs", made.id]));
  };
  return (
    <FormDialog title={like ? t.job.clone : t.jobs.create} action={t.jobs.createAction} onClose={props.onClose} onSubmit={submit} wide>
      <div class="form-row">
        <Field label={t.jobs.queue}>
          <input required value={queue} onInput={(e) => setQueue(e.currentTarget.value)} />
        </Field>
        <Field label={t.jobs.kind}>
          <input required disabled={like !== undefined} value={kind} onInput={(e) => setKind(e.currentTarget.value)} />
        </Field>
      </div>
      <Field label={t.jobs.args} hint={hidden ? t.job.hidden : t.jobs.argsHint}>
        <textarea rows={8} spellcheck={false} value={args} onInput={(e) => setArgs(e.currentTarget.value)} />
      </Field>
      <div class="form-row">
        <Field label={t.jobs.priority} hint={t.jobs.priorityHint}>
          <input type="number" min={0} max={9} value={priority} onInput={(e) => setPriority(e.currentTarget.value)} />
        </Field>
        <Field label={like ? t.job.runAt : t.jobs.delay} hint={like ? t.job.runAtHint : t.jobs.delayHint}>
          <input value={delay} onInput={(e) => setDelay(e.currentTarget.value)} />
        </Field>
      </div>
    </FormDialog>
  );
}

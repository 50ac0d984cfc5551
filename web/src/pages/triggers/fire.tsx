// Fires a trigger by hand, with what an event of its source would carry.
import { useState } from "preact/hooks";

import { post, segment, type Schemas } from "../../api/client";
import { typedJson } from "../../api/typed_json";
import { Field } from "../../components/basics";
import { FormDialog, notify } from "../../components/feedback";
import { JsonField } from "../../components/json_field";
import { t } from "../../texts";

type Trigger = Schemas["Trigger"];
// What the args of the job can refer to, by source.
const partOf = (trigger: Trigger): "body" | "file" | "job" => (trigger.http ? "body" : trigger.folder ? "file" : "job");

export function FireDialog(props: { trigger: Trigger; onClose: () => void; done: () => void }) {
  const { trigger } = props;
  const part = partOf(trigger);
  const [event, setEvent] = useState("");
  const [text, setText] = useState("");
  const submit = async () => {
    const value = typedJson(part, text);
    const body: Record<string, unknown> = {};
    if (event.trim() !== "") body.event = event.trim();
    if (value !== undefined) body[part] = value;
    const { job, duplicate } = await post<Schemas["TriggerFired"]>(`/v1/triggers/${segment(trigger.name)}/fire`, body);
    notify(duplicate ? t.triggers.duplicate : job === null ? t.triggers.noJob : t.triggers.firedJob(String(job)));
    props.done();
  };
  return (
    <FormDialog title={t.triggers.fire} action={t.triggers.fire} onClose={props.onClose} onSubmit={submit}>
      <Field label={t.triggers.event} hint={t.triggers.eventHint}>
        <input value={event} onInput={(e) => setEvent(e.currentTarget.value)} />
      </Field>
      <JsonField label={t.triggers.parts[part]} hint={t.triggers.partHint} rows={6} value={text} onInput={setText} />
    </FormDialog>
  );
}

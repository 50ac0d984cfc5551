// Asks for the reason of a pause, for what is paused by POST PATH/pause.
import { useState } from "preact/hooks";

import { post } from "../api/client";
import { t } from "../texts";
import { Field } from "./basics";
import { FormDialog, notify } from "./feedback";

export function PauseDialog(props: { name: string; path: string; text: string; onClose: () => void; done: () => void }) {
  const { name, path } = props;
  const [reason, setReason] = useState("");
  const submit = async () => {
    await post(`${path}/pause`, reason.trim() === "" ? undefined : { reason: reason.trim() });
    notify(t.pausing.done(name));
    props.done();
  };
  return (
    <FormDialog title={t.pausing.title(name)} action={t.queues.pause} danger onClose={props.onClose} onSubmit={submit}>
      <p class="note">{props.text}</p>
      <Field label={t.reason} hint={t.pausing.hint}>
        <input maxLength={200} value={reason} onInput={(e) => setReason(e.currentTarget.value)} />
      </Field>
    </FormDialog>
  );
}

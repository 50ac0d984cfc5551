// A form for what is defined by JSON: its name, and the definition as text.
import { useState } from "preact/hooks";

import { get, put } from "../api/client";
import { formatJson } from "../api/json";
import { typedJson } from "../api/typed_json";
import { t } from "../texts";
import { Field } from "./basics";
import { FormDialog, mayCreate, notify } from "./feedback";
import { JsonField } from "./json_field";

export function DefinitionDialog(props: {
  title: string;
  name?: string; // undefined: a new one, whose name is typed
  value: unknown;
  hint: string;
  path: (name: string) => string;
  onClose: () => void;
  done: (answer: unknown) => void;
}) {
  const [name, setName] = useState(props.name ?? "");
  const [text, setText] = useState(formatJson(props.value));
  const submit = async () => {
    const value = typedJson("definition", text) ?? {};
    const path = props.path(name.trim());
    if (props.name === undefined && !(await mayCreate(name.trim(), () => get(path)))) return false;
    const answer = await put<unknown>(path, value);
    notify(t.definition.saved(name.trim()));
    props.done(answer);
  };
  return (
    <FormDialog title={props.title} action={t.save} onClose={props.onClose} onSubmit={submit} wide>
      <Field label={t.name}>
        <input required disabled={props.name !== undefined} value={name} onInput={(e) => setName(e.currentTarget.value)} />
      </Field>
      <JsonField label={t.definition.label} hint={props.hint} rows={10} value={text} onInput={setText} />
    </FormDialog>
  );
}

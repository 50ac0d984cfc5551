// A field for JSON. It names the line and column of a mistake once the viewer leaves it.
import { useState } from "preact/hooks";

import { jsonProblem } from "../api/typed_json";
import { t } from "../texts";
import { Field } from "./basics";

export function JsonField(props: { label: string; hint?: string; rows: number; value: string; onInput: (text: string) => void }) {
  const [problem, setProblem] = useState<string>();
  return (
    <Field label={props.label} hint={props.hint ?? t.jobs.argsHint} error={problem}>
      <textarea
        rows={props.rows}
        spellcheck={false}
        aria-invalid={problem !== undefined}
        value={props.value}
        onInput={(e) => (setProblem(undefined), props.onInput(e.currentTarget.value))}
        onBlur={(e) => setProblem(jsonProblem(e.currentTarget.value))}
      />
    </Field>
  );
}

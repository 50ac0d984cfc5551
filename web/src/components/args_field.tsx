// Args as JSON, or as one field per key. The server knows no schema of a kind: the value that is there gives the types.
import { useState } from "preact/hooks";

import { formatJson, isNumber, parseExact } from "../api/json";
import { t } from "../texts";
import { Field } from "./basics";
import { JsonField } from "./json_field";

type Values = Record<string, unknown>;

// undefined: not an object with keys, so there is nothing to make fields of.
function objectOf(text: string): Values | undefined {
  try {
    const value = parseExact(text);
    const plain = typeof value === "object" && value !== null && !Array.isArray(value) && Object.keys(value).length > 0;
    return plain ? (value as Values) : undefined;
  } catch {
    return undefined;
  }
}

export function ArgsField(props: { label: string; hint?: string; rows: number; value: string; onInput: (text: string) => void }) {
  const [fields, setFields] = useState(false);
  const values = objectOf(props.value);
  return (
    <>
      {fields && values ? (
        <Fields label={props.label} values={values} onInput={(next) => props.onInput(formatJson(next))} />
      ) : (
        <JsonField {...props} />
      )}
      {values && (
        <button type="button" class="link" onClick={() => setFields(!fields)}>
          {fields ? t.args.asJson : t.args.asFields}
        </button>
      )}
    </>
  );
}

function Fields(props: { label: string; values: Values; onInput: (values: Values) => void }) {
  const { values, onInput } = props;
  return (
    <fieldset>
      <legend>{props.label}</legend>
      <div class="form-row">
        {Object.entries(values).map(([key, value]) => (
          <ValueField key={`${key} ${typeof value}`} name={key} value={value} onInput={(next) => onInput({ ...values, [key]: next })} />
        ))}
      </div>
    </fieldset>
  );
}

const LONG = 60; // characters; a longer text gets several lines

function ValueField(props: { name: string; value: unknown; onInput: (value: unknown) => void }) {
  const { name, value, onInput } = props;
  if (typeof value === "boolean") {
    return (
      <Field label={name}>
        <select value={String(value)} onChange={(e) => onInput(e.currentTarget.value === "true")}>
          <option value="true">true</option>
          <option value="false">false</option>
        </select>
      </Field>
    );
  }
  if (typeof value === "string") {
    const long = value.length > LONG || value.includes("\n");
    return (
      <Field label={name}>
        {long ? (
          <textarea rows={3} value={value} onInput={(e) => onInput(e.currentTarget.value)} />
        ) : (
          <input value={value} onInput={(e) => onInput(e.currentTarget.value)} />
        )}
      </Field>
    );
  }
  return <ParsedField {...props} />;
}

// Numbers keep their digits. What cannot be parsed stays in the field, which then keeps the form from being sent.
function ParsedField(props: { name: string; value: unknown; onInput: (value: unknown) => void }) {
  const { name, value, onInput } = props;
  const number = isNumber(value);
  const short = formatJson(value, 0);
  const [text, setText] = useState(number || short.length <= LONG ? short : formatJson(value));
  const [problem, setProblem] = useState<string>();
  const onText = (event: { currentTarget: HTMLInputElement | HTMLTextAreaElement }) => {
    const field = event.currentTarget;
    setText(field.value);
    let bad: string | undefined;
    try {
      const next = parseExact(field.value);
      if (number && !isNumber(next)) throw new Error();
      onInput(next);
    } catch {
      bad = number ? t.args.notNumber(field.value) : t.args.notJson;
    }
    field.setCustomValidity(bad ?? "");
    setProblem(bad);
  };
  return (
    <Field label={name} error={problem}>
      {number ? <input inputMode="decimal" value={text} onInput={onText} /> : <textarea rows={3} spellcheck={false} value={text} onInput={onText} />}
    </Field>
  );
}

// Args as JSON, or as one field per key. Types and choices come from the value that is there and from recent jobs of the
// kind.
import { useState } from "preact/hooks";

import { formatJson, isNumber, parseExact } from "../api/json";
import { t } from "../texts";
import { emptyOf, typeOf, type KeyShape, type Shape } from "./args_shape";
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

export function ArgsField(props: { label: string; hint?: string; rows: number; value: string; shape?: Shape; onInput: (text: string) => void }) {
  const [fields, setFields] = useState(false);
  const values = objectOf(props.value);
  return (
    <>
      {fields && values ? (
        <Fields label={props.label} values={values} shape={props.shape} onInput={(next) => props.onInput(formatJson(next))} />
      ) : (
        <JsonField {...props} />
      )}
      {values && (
        <button type="button" class="link" onClick={() => setFields(!fields)}>
          {fields ? t.args.asJson : t.args.asFields}
        </button>
      )}
      {values && props.shape && <Differences values={values} shape={props.shape} onInput={(next) => props.onInput(formatJson(next))} />}
    </>
  );
}

// What other jobs of the kind have and these args do not, and values of another type. It is a hint: the server takes both.
function Differences(props: { values: Values; shape: Shape; onInput: (values: Values) => void }) {
  const { values, shape, onInput } = props;
  const missing = [...shape.keys].filter(([name]) => !Object.hasOwn(values, name));
  const other = Object.entries(values).filter(([name, value]) => {
    const type = shape.keys.get(name)?.type;
    return type && type !== typeOf(value);
  });
  return (
    <div role="status">
      {other.map(([name]) => (
        <p key={name} class="note">{t.args.otherType(name, shape.keys.get(name)!.type)}</p>
      ))}
      {missing.length > 0 && (
        <p class="note">
          {t.args.others}{" "}
          {missing.map(([name, key]) => (
            <button key={name} type="button" class="link" title={t.args.inJobs(key.jobs, shape.jobs)} onClick={() => onInput({ ...values, [name]: emptyOf(key) })}>
              + {name}
            </button>
          ))}
        </p>
      )}
    </div>
  );
}

function Fields(props: { label: string; values: Values; shape?: Shape; onInput: (values: Values) => void }) {
  const { values, shape, onInput } = props;
  return (
    <fieldset>
      <legend>{props.label}</legend>
      <div class="form-row">
        {Object.entries(values).map(([key, value]) => (
          <ValueField key={`${key} ${typeof value}`} name={key} value={value} known={shape?.keys.get(key)} onInput={(next) => onInput({ ...values, [key]: next })} />
        ))}
      </div>
    </fieldset>
  );
}

const LONG = 60; // characters; a longer text gets several lines

// Values that recur are offered; any other one may be typed.
function ValueField(props: { name: string; value: unknown; known?: KeyShape; onInput: (value: unknown) => void }) {
  const { name, value, known, onInput } = props;
  const list = known && known.values.length > 0 ? `args-${name}` : undefined;
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
          <input list={list} value={value} onInput={(e) => onInput(e.currentTarget.value)} />
        )}
        {list && <Choices id={list} values={known!.values} />}
      </Field>
    );
  }
  return <ParsedField {...props} list={list} />;
}

const Choices = (props: { id: string; values: string[] }) => (
  <datalist id={props.id}>
    {props.values.map((one) => (
      <option key={one} value={one} />
    ))}
  </datalist>
);

// Numbers keep their digits. What cannot be parsed stays in the field, which then keeps the form from being sent.
function ParsedField(props: { name: string; value: unknown; known?: KeyShape; list?: string; onInput: (value: unknown) => void }) {
  const { name, value, known, list, onInput } = props;
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
      {number ? <input inputMode="decimal" list={list} value={text} onInput={onText} /> : <textarea rows={3} spellcheck={false} value={text} onInput={onText} />}
      {number && list && <Choices id={list} values={known!.values} />}
    </Field>
  );
}

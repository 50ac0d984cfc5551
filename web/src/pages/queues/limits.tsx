// Forms that change a queue's limits and retention.
import { useState } from "preact/hooks";

import { ApiError, get, put, segment, type Schemas } from "../../api/client";
import { formatJson } from "../../api/json";
import type { Queue } from "../../api/shapes";
import { Field } from "../../components/basics";
import { FormDialog, notify } from "../../components/feedback";
import { useData } from "../../data";
import { t } from "../../texts";

type Rate = NonNullable<Schemas["QueueLimits"]["rate"]>;
const invalid = (field: string, text: string) => new ApiError(400, "invalid_argument", text, field);

function numberOf(field: string, text: string, least = 1): number | null {
  if (text.trim() === "") return null;
  const value = Number(text);
  if (!Number.isSafeInteger(value) || value < least) throw invalid(field, t.queues.notNumber(text, least));
  return value;
}

type RateKind = NonNullable<Rate["kind"]>;
interface RateForm {
  text: string; // "100/1m" or "100 per 1m"
  kind: RateKind;
  burst: string;
}
const rateForm = (rate: Rate | null | undefined): RateForm => ({
  text: rate ? `${rate.count}/${rate.per}` : "",
  kind: rate?.kind ?? "bucket",
  burst: rate?.burst ? String(rate.burst) : "",
});

function rateOf(field: string, { text, kind, burst }: RateForm): unknown {
  if (text.trim() === "") return null;
  const parts = /^\s*(\d+)\s*(?:\/|per)\s*(\w+)\s*$/.exec(text);
  if (!parts) throw invalid(field, t.queues.notRate(text));
  const most = kind === "bucket" ? numberOf(`${field}.burst`, burst, 0) : null;
  return { count: Number(parts[1]), per: /^\d/.test(parts[2]!) ? parts[2] : `1${parts[2]}`, kind, ...(most === null ? {} : { burst: most }) };
}

function RateFields(props: { label: string; rate: RateForm; set: (rate: RateForm) => void }) {
  const { label, rate, set } = props;
  return (
    <div class="form-row">
      <Field label={label} hint={t.queues.rateHint}>
        <input value={rate.text} onInput={(e) => set({ ...rate, text: e.currentTarget.value })} />
      </Field>
      <Field label={t.queues.rateKind}>
        <select value={rate.kind} onChange={(e) => set({ ...rate, kind: e.currentTarget.value as RateKind })}>
          {(Object.keys(t.queues.rateKinds) as RateKind[]).map((one) => (
            <option key={one} value={one}>
              {t.queues.rateKinds[one]}
            </option>
          ))}
        </select>
      </Field>
      <Field label={t.queues.burst} hint={t.queues.burstHint}>
        <input disabled={rate.kind !== "bucket"} value={rate.burst} onInput={(e) => set({ ...rate, burst: e.currentTarget.value })} />
      </Field>
    </div>
  );
}

// Bounds of a weight, as the server checks them.
const MIN_WEIGHT = 0.001;
const MAX_WEIGHT = 1_000;
const isWeight = (value: number): boolean => value >= MIN_WEIGHT && value <= MAX_WEIGHT;
const isCost = (value: number): boolean => Number.isSafeInteger(value) && value >= 1;

// One "name = number" per line.
function mapOf(field: string, text: string, valid: (value: number) => boolean, rule: string): Record<string, number> | null {
  const out: Record<string, number> = {};
  for (const line of text.split("\n")) {
    if (line.trim() === "") continue;
    const at = line.lastIndexOf("=");
    const value = Number(line.slice(at + 1));
    if (at < 1 || line.slice(at + 1).trim() === "" || !valid(value)) throw invalid(field, t.queues.notPair(line, rule));
    out[line.slice(0, at).trim()] = value;
  }
  return Object.keys(out).length > 0 ? out : null;
}
const mapText = (map: Record<string, number> | null | undefined): string =>
  Object.entries(map ?? {}).map(([key, n]) => `${key} = ${n}`).join("\n");

// The server keeps no version of limits.
async function checkUnchanged(queue: Queue): Promise<void> {
  const now = await get<Queue>(`/v1/queues/${segment(queue.name)}`);
  if (formatJson(now.limits) !== formatJson(queue.limits)) throw new ApiError(409, "conflict", t.queues.limitsChanged);
}

export function LimitsDialog(props: { queue: Queue; onClose: () => void; done: () => void }) {
  const [queue] = useState(props.queue); // as it was when the dialog opened
  const limits = queue.limits;
  const key = limits?.per_key;
  const breakers = useData("breakers", (signal) => get<Schemas["BreakerList"]>("/v1/breakers", {}, signal));
  const [form, setForm] = useState({
    concurrency: String(limits?.concurrency ?? ""),
    keyConcurrency: String(key?.concurrency ?? ""),
    fair: key?.fair ?? false,
    weights: mapText(key?.weights),
    ageing: limits?.ageing ?? "",
    breaker: limits?.breaker ?? "",
    quarantine: String(limits?.quarantine_after ?? ""),
    costs: mapText(limits?.costs),
    searchable: (limits?.searchable ?? []).join("\n"),
  });
  const [rate, setRate] = useState(rateForm(limits?.rate));
  const [keyRate, setKeyRate] = useState(rateForm(key?.rate));
  const text = (name: Exclude<keyof typeof form, "fair">, label: string, hint?: string, list?: string) => (
    <Field label={label} hint={hint}>
      <input list={list} value={form[name]} onInput={(e) => setForm({ ...form, [name]: e.currentTarget.value })} />
    </Field>
  );
  const area = (name: "weights" | "costs" | "searchable", label: string, hint: string) => (
    <Field label={label} hint={hint}>
      <textarea rows={3} spellcheck={false} value={form[name]} onInput={(e) => setForm({ ...form, [name]: e.currentTarget.value })} />
    </Field>
  );
  const submit = async () => {
    const perKey = {
      concurrency: numberOf("per_key.concurrency", form.keyConcurrency),
      rate: rateOf("per_key.rate", keyRate),
      fair: form.fair,
      weights: mapOf("weights", form.weights, isWeight, t.queues.weightRule),
    };
    const paths = form.searchable.split("\n").map((path) => path.trim()).filter(Boolean);
    const without = perKey.concurrency === null && perKey.rate === null && !perKey.fair && perKey.weights === null;
    await checkUnchanged(queue);
    await put(`/v1/queues/${segment(queue.name)}/limits`, {
      ...limits,
      concurrency: numberOf("concurrency", form.concurrency),
      rate: rateOf("rate", rate),
      per_key: without ? null : perKey,
      ageing: form.ageing.trim() || null,
      breaker: form.breaker.trim() || null,
      quarantine_after: numberOf("quarantine_after", form.quarantine, 0),
      costs: mapOf("costs", form.costs, isCost, t.queues.costRule),
      searchable: paths.length > 0 ? paths : null,
    });
    notify(t.queues.changed);
    props.done();
  };
  return (
    <FormDialog title={t.queues.edit} action={t.save} onClose={props.onClose} onSubmit={submit} wide>
      <div class="form-row">
        {text("concurrency", t.queues.concurrency, t.queues.concurrencyHint)}
        {text("keyConcurrency", t.queues.keyConcurrency, t.queues.concurrencyHint)}
      </div>
      <RateFields label={t.queues.rate} rate={rate} set={setRate} />
      <RateFields label={t.queues.keyRate} rate={keyRate} set={setKeyRate} />
      <label class="inline">
        <input type="checkbox" checked={form.fair} onChange={() => setForm({ ...form, fair: !form.fair })} /> {t.queues.fairHint}
      </label>
      {area("weights", t.queues.weights, t.queues.weightsHint)}
      {area("costs", t.queues.costs, t.queues.costsHint)}
      {area("searchable", t.queues.searchable, t.queues.searchableHint)}
      <div class="form-row">
        {text("ageing", t.queues.ageing, t.queues.ageingHint)}
        {text("breaker", t.queues.breaker, t.queues.breakerHint, "breaker-names")}
        {text("quarantine", t.queues.quarantineAfter, t.queues.quarantineHint)}
      </div>
      <datalist id="breaker-names">
        {breakers.data?.breakers.map((one) => (
          <option key={one.name} value={one.name} />
        ))}
      </datalist>
    </FormDialog>
  );
}

export function RetentionDialog(props: { queue: Queue; onClose: () => void; done: () => void }) {
  const { queue } = props;
  const [completed, setCompleted] = useState(queue.retention?.completed ?? "");
  const [dead, setDead] = useState(queue.retention?.dead ?? "");
  const submit = async () => {
    const retention = { completed: completed.trim() || null, dead: dead.trim() || null };
    await put(`/v1/queues/${segment(queue.name)}`, { retention });
    notify(t.queues.retentionChanged);
    props.done();
  };
  return (
    <FormDialog title={t.queues.editRetention} action={t.save} onClose={props.onClose} onSubmit={submit}>
      <Field label={t.queues.keepCompleted} hint={t.queues.retentionHint}>
        <input value={completed} onInput={(e) => setCompleted(e.currentTarget.value)} />
      </Field>
      <Field label={t.queues.keepDead} hint={t.queues.retentionHint}>
        <input value={dead} onInput={(e) => setDead(e.currentTarget.value)} />
      </Field>
    </FormDialog>
  );
}

// A form that enqueues one job; also "run again with changed args".
import { useEffect, useMemo, useRef, useState } from "preact/hooks";

import { get, post, request, segment, type Schemas } from "../../api/client";
import { formatJson } from "../../api/json";
import { typedJson } from "../../api/typed_json";
import { ArgsField } from "../../components/args_field";
import { shapeOf, type Shape } from "../../components/args_shape";
import { Field } from "../../components/basics";
import { FormDialog, notify } from "../../components/feedback";
import { cover, COVER } from "../../components/secrets";
import { link, navigate } from "../../router";
import { t } from "../../texts";

type Job = Schemas["Job"];

const LOOK_AFTER_MS = 300; // after the last key

const MAX_RECENT = 50;

// The newest jobs of the queue, and of the kind if one was typed. The first one's kind and args are a good start; all of
// its kind together say what args look like.
function useRecent(queue: string, kind: string): { example?: Job; shape?: Shape } {
  const [jobs, setJobs] = useState<Job[]>([]);
  useEffect(() => {
    if (queue.trim() === "") return;
    const abort = new AbortController();
    const look = () =>
      get<Schemas["JobPage"]>("/v1/jobs", { queue: queue.trim(), kind: kind.trim(), limit: MAX_RECENT }, abort.signal).then(
        (page) => setJobs(page.jobs),
        () => {}, // no example: the form works without
      );
    const timer = setTimeout(look, LOOK_AFTER_MS);
    return () => (clearTimeout(timer), abort.abort());
  }, [queue, kind]);
  return useMemo(() => {
    const example = jobs[0];
    const alike = jobs.filter((job) => job.kind === example?.kind && !job.args_omitted);
    return { example, shape: example && shapeOf(alike.map((job) => job.args), example.kind) };
  }, [jobs]);
}

// Secret texts become empty: they must be typed.
const withoutSecrets = (args: unknown, kind: string): string => formatJson(cover(args, kind).shown).replaceAll(JSON.stringify(COVER), '""');

// Options that few jobs have.
interface More {
  tags: string;
  limitKey: string;
  session: string;
  uniqueKey: string;
  attempts: string;
  timeout: string;
}
const NO_MORE: More = { tags: "", limitKey: "", session: "", uniqueKey: "", attempts: "", timeout: "" };

// The options of an enqueue; empty fields leave them to the server.
function optionsOf(more: More): Record<string, unknown> {
  const text = (name: string, value: string) => (value.trim() === "" ? {} : { [name]: value.trim() });
  const tags = more.tags.split(/\s+/).filter(Boolean);
  return {
    ...(tags.length > 0 ? { tags } : {}),
    ...text("limit_key", more.limitKey),
    ...text("session", more.session),
    ...(more.uniqueKey.trim() === "" ? {} : { unique: { key: more.uniqueKey.trim() } }),
    ...(more.attempts === "" ? {} : { max_attempts: Number(more.attempts) }),
    ...text("timeout", more.timeout),
  };
}

function MoreFields(props: { more: More; set: (more: More) => void }) {
  const { more, set } = props;
  const field = (name: keyof More, label: string, hint: string) => (
    <Field label={label} hint={hint}>
      <input value={more[name]} onInput={(e) => set({ ...more, [name]: e.currentTarget.value })} />
    </Field>
  );
  return (
    <details>
      <summary>{t.jobs.more}</summary>
      <div class="form-row">
        {field("tags", t.job.tags, t.job.tagsHint)}
        <Field label={t.jobs.maxAttempts} hint={t.jobs.maxAttemptsHint}>
          <input type="number" min={1} max={1000} value={more.attempts} onInput={(e) => set({ ...more, attempts: e.currentTarget.value })} />
        </Field>
        {field("timeout", t.job.timeout, t.jobs.timeoutHint)}
      </div>
      <div class="form-row">
        {field("uniqueKey", t.job.uniqueKey, t.jobs.uniqueKeyHint)}
        {field("session", t.job.session, t.jobs.sessionHint)}
        {field("limitKey", t.job.limitKey, t.jobs.limitKeyHint)}
      </div>
    </details>
  );
}

const randomKey = (): string => `ui-${[...crypto.getRandomValues(new Uint32Array(4))].map((n) => n.toString(36)).join("-")}`;

// Enqueues a job once per dialog and body, however often its answer is lost: the server knows the key of the first try.
function useEnqueue(): (body: Record<string, unknown>) => Promise<Schemas["EnqueuedJob"]> {
  const keys = useRef(new Map<string, string>());
  return (body) => {
    const text = formatJson(body, 0);
    const key = keys.current.get(text) ?? randomKey();
    keys.current.set(text, key);
    return request("POST", "/v1/jobs", { body, headers: { "Idempotency-Key": key } });
  };
}

export function NewJobDialog(props: { queue?: string; queues?: string[]; like?: Job; onClose: () => void }) {
  const { like } = props;
  const [queue, setQueue] = useState(like?.queue ?? (props.queue || "default"));
  const [kind, setKind] = useState(like?.kind ?? "");
  const [priority, setPriority] = useState(String(like?.priority ?? 5));
  const [delay, setDelay] = useState("");
  const [more, setMore] = useState(NO_MORE);
  const [args, setArgs] = useState(like ? (like.args == null ? "" : formatJson(like.args)) : "{}");
  // Fields that the viewer typed into are not filled.
  const typed = useRef({ kind: false, args: false });
  const recent = useRecent(queue, like || typed.current.kind ? kind : "");
  const example = like ? undefined : recent.example;
  useEffect(() => {
    if (!example) return;
    if (!typed.current.kind) setKind(example.kind);
    if (!typed.current.args && example.args != null && !example.args_omitted) setArgs(withoutSecrets(example.args, example.kind));
  }, [example]);
  // Without read:payload the args of `like` are hidden: the copy gets them on the server.
  const hidden = like !== undefined && (like.args === null || like.args === undefined);
  const enqueue = useEnqueue();
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
      : await enqueue({
          queue,
          kind,
          args: value,
          priority: Number(priority),
          ...(wait === "" ? {} : { delay: wait }),
          ...optionsOf(more),
        });
    notify(t.jobs.created(String(made.id)));
    navigate(link(["jobs", made.id]));
  };
  return (
    <FormDialog title={like ? t.job.clone : t.jobs.create} action={t.jobs.createAction} onClose={props.onClose} onSubmit={submit} wide>
      <div class="form-row">
        <Field label={t.jobs.queue}>
          <input required list="new-job-queues" value={queue} onInput={(e) => setQueue(e.currentTarget.value)} />
        </Field>
        <datalist id="new-job-queues">
          {props.queues?.map((name) => (
            <option key={name} value={name} />
          ))}
        </datalist>
        <Field label={t.jobs.kind}>
          <input
            required
            disabled={like !== undefined}
            value={kind}
            onInput={(e) => {
              typed.current.kind = e.currentTarget.value !== "";
              setKind(e.currentTarget.value);
            }}
          />
        </Field>
      </div>
      {example && (!typed.current.kind || !typed.current.args) && (
        <p class="note">
          {t.jobs.filledFrom} <a href={link(["jobs", example.id])}>{t.job.title(String(example.id))}</a>.
        </p>
      )}
      <ArgsField
        label={t.jobs.args}
        hint={hidden ? t.job.hidden : undefined}
        rows={8}
        value={args}
        shape={recent.example?.kind === kind ? recent.shape : undefined}
        onInput={(text) => {
          typed.current.args = text.trim() !== "";
          setArgs(text);
        }}
      />
      <div class="form-row">
        <Field label={t.jobs.priority} hint={t.jobs.priorityHint}>
          <input type="number" min={0} max={9} value={priority} onInput={(e) => setPriority(e.currentTarget.value)} />
        </Field>
        <Field label={like ? t.job.runAt : t.jobs.delay} hint={like ? t.job.runAtHint : t.jobs.delayHint}>
          <input value={delay} onInput={(e) => setDelay(e.currentTarget.value)} />
        </Field>
      </div>
      {!like && <MoreFields more={more} set={setMore} />}
    </FormDialog>
  );
}

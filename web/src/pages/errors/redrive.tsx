// Redrives one group of dead jobs: all of it, or those that died in a period. It lists what would be taken.
import { useState } from "preact/hooks";

import { get, post, type Schemas } from "../../api/client";
import { Ago, Field } from "../../components/basics";
import { FormDialog, messageOf, notify } from "../../components/feedback";
import { isBounded, PeriodFields, type Period } from "../../components/period";
import { useData } from "../../data";
import { count } from "../../format";
import { link, navigate } from "../../router";
import { t } from "../../texts";
import { deadJobs, type Dead, type DeadJob, type Group } from "./dead";

const MAX_SHOWN = 100; // rows of the list
const MAX_OF_GROUP = 1_000_000; // the bound of a redrive
const MAX_LISTED = 1_000; // also the bound of a bulk action that names its jobs

interface Taken extends Dead {
  total: number; // jobs that may be taken
}

// What may be taken now: the list on the page may be older, or of all queues.
async function look(group: Group, queue: string, period: Period, signal: AbortSignal): Promise<Taken> {
  const dead = await deadJobs(group, queue, period, MAX_LISTED, signal);
  if (isBounded(period) || !dead.more) return { ...dead, total: dead.jobs.length };
  const { groups } = await get<Schemas["DeadGroups"]>("/v1/dead/groups", { queue, kind: group.kind }, signal);
  return { ...dead, total: groups.find((one) => one.fingerprint === group.fingerprint)?.count ?? 0 };
}

// In the order in which they are taken: a bulk action begins with the newest, a redrive with the oldest, which is not
// known of a group that was not read to its end.
function takenOf(dead: Taken | undefined, windowed: boolean): DeadJob[] {
  if (!dead) return [];
  if (windowed) return dead.jobs;
  return dead.more ? [] : [...dead.jobs].reverse();
}

export function RedriveDialog(props: { group: Group; queue: string; period: Period; started: () => void; onClose: () => void }) {
  const { group, queue } = props;
  const [period, setPeriod] = useState(props.period);
  const [rate, setRate] = useState("20/s");
  const [limit, setLimit] = useState<string>();
  const [steps, setSteps] = useState(true);
  const [canary, setCanary] = useState("1");
  const windowed = isBounded(period);
  const found = useData(JSON.stringify([group.fingerprint, queue, period]), (signal) => look(group, queue, period, signal));
  const total = found.data?.total;
  const most = limit ?? String(Math.max(1, total ?? 1));
  const n = total === undefined ? undefined : Math.min(total, Number(most));
  const listed = takenOf(found.data, windowed).slice(0, n);
  const redriveAll = async () => {
    const body: Record<string, unknown> = { kind: group.kind, fingerprint: group.fingerprint, rate, canary: steps, limit: Number(most) };
    if (queue) body.queue = queue;
    const made = await post<Schemas["EnqueuedJob"]>("/v1/redrives", body);
    notify(t.errors.started(String(made.id)));
    navigate(link(["jobs", made.id]));
  };
  // A redrive knows no period. A bulk action takes the jobs that are listed, and no other.
  const retryListed = async () => {
    const filter: Record<string, unknown> = { ids: listed.map((job) => job.id), state: ["dead"] };
    if (queue) filter.queue = queue;
    await post("/v1/bulk", { action: "retry", filter, rate, ...(canary.trim() === "" ? {} : { canary: Number(canary) }) });
    notify(t.bulk.started(t.errors.redrive));
    props.started();
  };
  return (
    <FormDialog
      title={n === undefined ? t.errors.redrive : t.errors.redriveTitle(count(n))}
      action={t.errors.redrive}
      disabled={!n}
      onClose={props.onClose}
      onSubmit={windowed ? retryListed : redriveAll}
      wide
    >
      <p>{t.errors.redriveText}</p>
      <div class="filters">
        <PeriodFields label={t.errors.diedIn} period={period} onChange={(next) => (setPeriod(next), setLimit(undefined))} />
      </div>
      <p class="note" role="status">
        {found.error && messageOf(found.error)}
        {total !== undefined && t.errors.redriveCount(count(total), windowed, queue)}
        {windowed && found.data?.more && ` ${t.errors.redriveMore}`}
      </p>
      {listed.length > 0 && <Preview jobs={listed} />}
      {!windowed && found.data?.more && <p class="note">{t.errors.tooMany}</p>}
      <div class="form-row">
        <Field label={t.errors.rate} hint={t.errors.rateHint}>
          <input required value={rate} onInput={(e) => setRate(e.currentTarget.value)} />
        </Field>
        <Field label={t.errors.limit} hint={windowed ? t.errors.newestTaken : t.errors.oldestTaken}>
          <input type="number" min={1} max={windowed ? MAX_LISTED : MAX_OF_GROUP} required value={most} onInput={(e) => setLimit(e.currentTarget.value)} />
        </Field>
        {windowed && (
          <Field label={t.bulk.canary} hint={t.bulk.canaryHint}>
            <input type="number" min={1} value={canary} onInput={(e) => setCanary(e.currentTarget.value)} />
          </Field>
        )}
      </div>
      {!windowed && (
        <label class="inline">
          <input type="checkbox" checked={steps} onChange={() => setSteps(!steps)} /> {t.errors.canary}
        </label>
      )}
    </FormDialog>
  );
}

function Preview({ jobs }: { jobs: DeadJob[] }) {
  const hidden = jobs.length - MAX_SHOWN;
  return (
    <div class="preview" tabIndex={0} role="region" aria-label={t.errors.taken}>
      <ul class="plain-list">
        {jobs.slice(0, MAX_SHOWN).map((job) => (
          <li key={String(job.id)}>
            <a href={link(["jobs", job.id])} target="_blank" rel="noreferrer">{String(job.id)}</a>
            <span class="note">{job.queue}</span>
            <span class="note">{t.jobs.attempts(job.attempt ?? 0, job.max_attempts ?? 0)}</span>
            <Ago at={job.finished_at} />
          </li>
        ))}
        {hidden > 0 && <li class="note">{t.errors.andMore(count(hidden))}</li>}
      </ul>
    </div>
  );
}

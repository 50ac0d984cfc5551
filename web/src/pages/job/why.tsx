// Which gate holds a job back, from the server, as of now.
import { get, segment, type Schemas } from "../../api/client";
import { Ago, Panel, Show } from "../../components/basics";
import { useData } from "../../data";
import { dateTime } from "../../format";
import { link } from "../../router";
import { t } from "../../texts";

type Job = Schemas["Job"];

// The server's sentence may name instants in UTC.
const INSTANT = /\d{4}-\d\d-\d\dT[\d:.]+Z/g;

// Any event of its queue may open the gate.
export function WhyPanel(props: { job: Job; title?: string }) {
  const { job } = props;
  const why = useData(
    `${job.id} ${job.version ?? 0}`,
    (signal) => get<Schemas["Why"]>(`/v1/jobs/${segment(job.id)}/why`, {}, signal),
    (event) => event.queue === job.queue || event.object === `queue/${job.queue}` || event.type.startsWith("queue_") || event.type.startsWith("breaker_"),
  );
  return (
    <Panel
      title={props.title ?? (job.state === "running" ? t.job.whyRunning : t.job.why)}
      actions={
        why.data &&
        related(job, why.data.gate) && (
          <a class="button plain" href={related(job, why.data.gate)}>
            {t.job.related[why.data.gate]}
          </a>
        )
      }
    >
      <Show of={why}>
        {(data) => (
          <>
            <p class="why">{data.why.replace(INSTANT, (one) => dateTime(one))}</p>
            <p class="note">
              {data.until && (
                <>
                  {t.job.until} <Ago at={data.until} />.{" "}
                </>
              )}
              {data.ahead !== undefined && data.ahead > 0 && !data.why.includes(String(data.ahead)) && <>{t.job.ahead(data.ahead)}. </>}
              {data.estimated_start && (
                <>
                  {t.job.estimated} <Ago at={data.estimated_start} />.
                </>
              )}
            </p>
          </>
        )}
      </Show>
    </Panel>
  );
}

// Where the one that holds the job back is shown.
function related(job: Job, gate: Schemas["Why"]["gate"]): string | undefined {
  const { queue } = job;
  const key = job.limit_key;
  const schedule = headerOf(job, "mainspring-schedule");
  switch (gate) {
    case "concurrency": return link(["jobs"], { queue, state: "running" });
    case "key_concurrency": return key ? link(["jobs"], { queue, state: "running", q: `limit_key:${JSON.stringify(key)}` }) : undefined;
    case "key_rate": return key ? link(["queues", queue, "keys", key]) : undefined;
    case "rate": case "queue_paused": return link(["queues", queue]);
    case "session_head": case "session_held": case "session_stopped": return link(["sessions"], { queue });
    case "breaker": return link(["breakers"]);
    case "no_worker": case "busy_workers": return link(["workers"]);
    case "quarantine": return link(["quarantine"]);
    case "earlier_run": return schedule ? link(["schedules", schedule]) : undefined;
    default: return undefined;
  }
}

export function headerOf(job: Job, name: string): string | undefined {
  const value = (job.headers as Record<string, unknown> | undefined)?.[name];
  return value === undefined || value === null ? undefined : String(value);
}

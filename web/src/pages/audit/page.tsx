// The audit: who changed what, each record chained to the one before it.
import { get, type Schemas } from "../../api/client";
import { formatJson } from "../../api/json";
import { Ago, Empty, Page, Show } from "../../components/basics";
import { Pager } from "../../components/pager";
import { Table, type Column } from "../../components/table";
import { Pre } from "../../components/values";
import { Views } from "../../components/views";
import { useData } from "../../data";
import { count } from "../../format";
import { link, navigate, withQuery, type Route } from "../../router";
import { t } from "../../texts";

type Row = Schemas["AuditPage"]["records"][number];

const COLUMNS: Column<Row>[] = [
  { key: "at", title: t.audit.at, cell: (row) => <Ago at={row.at} />, sort: (row) => row.seq },
  { key: "who", title: t.audit.who, cell: (row) => row.who, sort: (row) => row.who },
  { key: "from", title: t.audit.from, cell: (row) => row.from, sort: (row) => row.from },
  { key: "action", title: t.audit.action, cell: (row) => row.action, sort: (row) => row.action },
  { key: "object", title: t.audit.object, cell: (row) => <AuditObject name={row.object ?? ""} />, sort: (row) => row.object },
  { key: "change", title: t.audit.change, cell: (row) => <Change row={row} />, wide: true },
];

const PAGES: Record<string, string> = { queue: "queues", job: "jobs", schedule: "schedules", trigger: "triggers", workflow: "workflows" };

// "queue/photos" leads to the queue.
function AuditObject({ name }: { name: string }) {
  const [type = "", rest = ""] = name.split(/\/(.*)/s);
  const page = PAGES[type];
  return page && rest ? <a class="name" href={link([page, rest])}>{name}</a> : <span class="name">{name}</span>;
}

function Change({ row }: { row: Row }) {
  const both = { before: row.before ?? null, after: row.after ?? null };
  return (
    <details>
      <summary>{t.audit.show}</summary>
      <Pre text={`${formatJson(both)}\n${row.hash ?? ""}`} wrap label={t.audit.change} />
    </details>
  );
}

export function AuditPage(props: { route: Route }) {
  const { route } = props;
  const filter = {
    who: route.query.get("who") ?? "", action: route.query.get("action") ?? "", object: route.query.get("object") ?? "",
  };
  const before = route.query.get("before") ?? ""; // the record that the page begins with
  const audit = useData(JSON.stringify([filter, before]), (signal) =>
    get<Schemas["AuditPage"]>("/v1/audit", { ...filter, from: before, limit: 50 }, signal),
  );
  const head = useData("head", (signal) => get<Schemas["AuditHead"]>("/v1/audit/head", {}, signal));
  const submit = (event: Event) => {
    event.preventDefault();
    const form = new FormData(event.currentTarget as HTMLFormElement);
    navigate(withQuery(route, { ...Object.fromEntries([...form].map(([k, v]) => [k, String(v).trim()])), before: undefined }));
  };
  return (
    <Page
      title={t.pages.audit}
      note={head.data ? t.audit.note(count(head.data.records), String(head.data.head.hash ?? "").slice(0, 16)) : undefined}
      actions={<Views page="audit" route={route} />}
    >
      <form class="filters" onSubmit={submit} key={JSON.stringify(filter)}>
        <label>
          {t.audit.who} <input name="who" defaultValue={filter.who} />
        </label>
        <label>
          {t.audit.action} <input name="action" defaultValue={filter.action} />
        </label>
        <label>
          {t.audit.object} <input name="object" defaultValue={filter.object} placeholder="queue/photos" />
        </label>
        <button type="submit" class="button primary">
          {t.jobs.filter}
        </button>
      </form>
      <Show of={audit}>
        {(page) =>
          page.records.length === 0 ? (
            <Empty title={t.audit.empty}>{t.audit.emptyHint}</Empty>
          ) : (
            <Table label={t.pages.audit} columns={COLUMNS} rows={page.records} id={(row) => String(row.seq)} />
          )
        }
      </Show>
      <Pager label={t.pages.audit} parameter="before" next={audit.data?.next} />
    </Page>
  );
}

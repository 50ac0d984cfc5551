// The audit: who changed what, each record chained to the one before it.
import { get, type Schemas } from "../../api/client";
import { formatJson } from "../../api/json";
import { Ago, Empty, Page, Show } from "../../components/basics";
import { Table, type Column } from "../../components/table";
import { Pre } from "../../components/values";
import { useData } from "../../data";
import { count } from "../../format";
import { navigate, withQuery, type Route } from "../../router";
import { t } from "../../texts";

type Row = Schemas["AuditPage"]["records"][number];

const COLUMNS: Column<Row>[] = [
  { key: "at", title: t.audit.at, cell: (row) => <Ago at={row.at} /> },
  { key: "who", title: t.audit.who, cell: (row) => row.who },
  { key: "from", title: t.audit.from, cell: (row) => row.from },
  { key: "action", title: t.audit.action, cell: (row) => row.action },
  { key: "object", title: t.audit.object, cell: (row) => row.object },
  { key: "change", title: t.audit.change, cell: (row) => <Change row={row} /> },
];

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
  const from = route.query.get("from") ?? "";
  const audit = useData(JSON.stringify([filter, from]), (signal) =>
    get<Schemas["AuditPage"]>("/v1/audit", { ...filter, from, limit: 50 }, signal),
  );
  const head = useData("head", (signal) => get<Schemas["AuditHead"]>("/v1/audit/head", {}, signal));
  const submit = (event: Event) => {
    event.preventDefault();
    const form = new FormData(event.currentTarget as HTMLFormElement);
    navigate(withQuery(route, { ...Object.fromEntries([...form].map(([k, v]) => [k, String(v).trim()])), from: undefined }));
  };
  return (
    <Page title={t.pages.audit} note={head.data ? t.audit.note(count(head.data.records), String(head.data.head.hash ?? "").slice(0, 16)) : undefined}>
      <form class="filters" onSubmit={submit} key={JSON.stringify(filter)}>
        <label>
          {t.audit.who} <input name="who" value={filter.who} />
        </label>
        <label>
          {t.audit.action} <input name="action" value={filter.action} />
        </label>
        <label>
          {t.audit.object} <input name="object" value={filter.object} placeholder="queue/photos" />
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
      <nav class="pager" aria-label={t.pages.audit}>
        {from !== "" && <a href={withQuery(route, { from: undefined })}>{t.newer}</a>}
        {audit.data?.next != null && <a href={withQuery(route, { from: String(audit.data.next) })}>{t.older}</a>}
      </nav>
    </Page>
  );
}

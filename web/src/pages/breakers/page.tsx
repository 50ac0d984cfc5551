// Breakers: which are open, since when, and what they hold back.
import { useState } from "preact/hooks";

import { get, post, remove, segment, type Schemas } from "../../api/client";
import { changes, viewerIsActive } from "../../api/events";
import { Ago, Button, Empty, Page, Show, StateBadge } from "../../components/basics";
import { DefinitionDialog } from "../../components/definition";
import { act, confirm } from "../../components/feedback";
import { Table, type Column } from "../../components/table";
import { useData } from "../../data";
import { count } from "../../format";
import { link } from "../../router";
import { t } from "../../texts";

type Breaker = Schemas["Breaker"];

const NEW_BREAKER = { failures: 5, within: "1m", open_for: "30s", max_open_for: "10m", probes: 1 };

export function BreakersPage() {
  const [editing, setEditing] = useState<Breaker | "new">();
  const breakers = useData(
    "breakers",
    (signal) => get<Schemas["BreakerList"]>("/v1/breakers", {}, signal),
    (event) => event.type.startsWith("breaker_") || event.type === "retrying" || changes(event, "breaker") || viewerIsActive(event),
  );
  const change = async (breaker: Breaker, verb: "open" | "close") => {
    if (verb === "open") {
      const yes = await confirm({
        title: t.breakers.confirmOpen(breaker.name), text: t.breakers.confirmOpenText, action: t.breakers.open, danger: true,
      });
      if (!yes) return;
    }
    if (await act(() => post(`/v1/breakers/${segment(breaker.name)}/${verb}`), t.breakers.changed(breaker.name))) breakers.reload();
  };
  const drop = async (breaker: Breaker) => {
    const yes = await confirm({ title: t.breakers.confirmRemove(breaker.name), text: t.breakers.confirmRemoveText, action: t.remove, danger: true });
    if (yes && (await act(() => remove(`/v1/breakers/${segment(breaker.name)}`), t.breakers.removed(breaker.name)))) breakers.reload();
  };
  const columns: Column<Breaker>[] = [
    { key: "name", title: t.name, cell: (one) => one.name, sort: (one) => one.name },
    { key: "state", title: t.jobs.state, cell: (one) => <StateBadge state={one.state} />, sort: (one) => one.state },
    { key: "until", title: t.breakers.until, cell: (one) => <Ago at={one.open_until} />, sort: (one) => one.open_until },
    { key: "failures", title: t.breakers.failures, numeric: true, cell: (one) => `${one.failures ?? 0} / ${one.settings.failures}`, sort: (one) => one.failures ?? 0 },
    { key: "opened", title: t.breakers.opened, numeric: true, cell: (one) => count(one.opened), sort: (one) => one.opened },
    {
      key: "queues",
      title: t.pages.queues,
      sort: (one) => one.queues.length,
      cell: (one) =>
        one.queues.map((name) => (
          <a key={name} class="tag" href={link(["queues", name])}>
            {name}
          </a>
        )),
    },
    {
      key: "actions",
      title: t.actions,
      cell: (one) => (
        <span class="actions">
          {one.state === "closed" ? (
            <Button needs={["admin", "*"]} onClick={() => change(one, "open")}>{t.breakers.open}</Button>
          ) : (
            <Button needs={["admin", "*"]} onClick={() => change(one, "close")}>{t.breakers.close}</Button>
          )}
          <Button needs={["admin", "*"]} onClick={() => setEditing(one)}>{t.job.edit}</Button>
          {one.queues.length === 0 && (
            <Button kind="danger" needs={["admin", "*"]} onClick={() => drop(one)}>
              {t.remove}
            </Button>
          )}
        </span>
      ),
    },
  ];
  return (
    <Page
      title={t.pages.breakers}
      note={t.breakers.note}
      actions={
        <Button kind="primary" needs={["admin", "*"]} onClick={() => setEditing("new")}>
          {t.breakers.create}
        </Button>
      }
    >
      <Show of={breakers}>
        {(data) =>
          data.breakers.length === 0 ? (
            <Empty title={t.breakers.empty}>{t.breakers.emptyHint}</Empty>
          ) : (
            <Table label={t.pages.breakers} columns={columns} rows={data.breakers} id={(one) => one.name} />
          )
        }
      </Show>
      {editing && (
        <DefinitionDialog
          title={editing === "new" ? t.breakers.create : t.job.edit}
          name={editing === "new" ? undefined : editing.name}
          value={editing === "new" ? NEW_BREAKER : editing.settings}
          hint={t.breakers.hint}
          path={(name) => `/v1/breakers/${segment(name)}`}
          onClose={() => setEditing(undefined)}
          done={breakers.reload}
        />
      )}
    </Page>
  );
}

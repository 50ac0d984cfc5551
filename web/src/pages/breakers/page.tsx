// Breakers: which are open, since when, and what they hold back.
import { get, post, segment, type Schemas } from "../../api/client";
import { Ago, Button, Empty, Page, Show, StateBadge } from "../../components/basics";
import { act, confirm } from "../../components/feedback";
import { Table, type Column } from "../../components/table";
import { useData } from "../../data";
import { count } from "../../format";
import { link } from "../../router";
import { t } from "../../texts";

type Breaker = Schemas["Breaker"];

export function BreakersPage() {
  const breakers = useData(
    "breakers",
    (signal) => get<Schemas["BreakerList"]>("/v1/breakers", {}, signal),
    (event) => event.type.startsWith("breaker_") || event.type === "retrying",
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
  const columns: Column<Breaker>[] = [
    { key: "name", title: t.name, cell: (one) => one.name },
    { key: "state", title: t.jobs.state, cell: (one) => <StateBadge state={one.state} /> },
    { key: "until", title: t.breakers.until, cell: (one) => <Ago at={one.open_until} /> },
    { key: "failures", title: t.breakers.failures, numeric: true, cell: (one) => `${one.failures ?? 0} / ${one.settings.failures}` },
    { key: "opened", title: t.breakers.opened, numeric: true, cell: (one) => count(one.opened) },
    {
      key: "queues",
      title: t.pages.queues,
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
      cell: (one) =>
        one.state === "closed" ? (
          <Button onClick={() => change(one, "open")}>{t.breakers.open}</Button>
        ) : (
          <Button onClick={() => change(one, "close")}>{t.breakers.close}</Button>
        ),
    },
  ];
  return (
    <Page title={t.pages.breakers} note={t.breakers.note}>
      <Show of={breakers}>
        {(data) =>
          data.breakers.length === 0 ? (
            <Empty title={t.breakers.empty}>{t.breakers.emptyHint}</Empty>
          ) : (
            <Table label={t.pages.breakers} columns={columns} rows={data.breakers} id={(one) => one.name} />
          )
        }
      </Show>
    </Page>
  );
}

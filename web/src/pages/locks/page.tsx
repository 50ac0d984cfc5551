// Named locks: who holds them, until when.
import { get, post, segment, type Schemas } from "../../api/client";
import { changes, viewerIsActive } from "../../api/events";
import { Button, Empty, Page, Show } from "../../components/basics";
import { act, confirm } from "../../components/feedback";
import { Table, type Column } from "../../components/table";
import { shortJson } from "../../components/values";
import { useData } from "../../data";
import { duration } from "../../format";
import { withQuery, type Route } from "../../router";
import { t } from "../../texts";

type Lease = Schemas["NamedLease"];

export function LocksPage(props: { route: Route }) {
  const after = props.route.query.get("after") ?? "";
  const locks = useData(`locks ${after}`, (signal) => get<Schemas["NamedLeaseList"]>("/v1/leases", { after, limit: 200 }, signal), (event) => changes(event, "lock") || viewerIsActive(event));
  const release = async (lease: Lease) => {
    const yes = await confirm({
      title: t.locks.confirmRelease(lease.name), text: t.locks.confirmReleaseText(lease.holder), action: t.locks.release, danger: true,
    });
    if (!yes) return;
    const body = { holder: lease.holder, token: lease.token };
    if (await act(() => post(`/v1/leases/${segment(lease.name)}/release`, body), t.locks.released(lease.name))) locks.reload();
  };
  const columns: Column<Lease>[] = [
    { key: "name", title: t.name, cell: (lease) => <span class="long">{lease.name}</span>, sort: (lease) => lease.name, wide: true },
    { key: "holder", title: t.locks.holder, cell: (lease) => (lease.holder ? <span class="long">{lease.holder}</span> : t.locks.free), sort: (lease) => lease.holder, wide: true },
    { key: "token", title: t.locks.token, numeric: true, cell: (lease) => String(lease.token), sort: (lease) => lease.token },
    { key: "expires", title: t.locks.expires, numeric: true, cell: (lease) => (lease.holder ? t.inTime(duration(lease.expires_in_ms)) : t.none), sort: (lease) => (lease.holder ? lease.expires_in_ms : undefined) },
    { key: "value", title: t.locks.value, cell: (lease) => (lease.value === undefined ? t.none : <code class="args">{shortJson(lease.value)}</code>), wide: true },
    {
      key: "actions",
      title: t.actions,
      cell: (lease) => lease.holder !== "" && <Button needs={["lease", lease.name]} onClick={() => release(lease)}>{t.locks.release}</Button>,
    },
  ];
  return (
    <Page title={t.pages.locks} note={t.locks.note} actions={<Button onClick={locks.reload}>{t.refresh}</Button>}>
      <Show of={locks}>
        {(data) =>
          data.leases.length === 0 ? (
            <Empty title={t.locks.empty}>{t.locks.emptyHint}</Empty>
          ) : (
            <Table label={t.pages.locks} columns={columns} rows={data.leases} id={(lease) => lease.name} />
          )
        }
      </Show>
      {locks.data?.next && <a href={withQuery(props.route, { after: locks.data.next })}>{t.more}</a>}
    </Page>
  );
}

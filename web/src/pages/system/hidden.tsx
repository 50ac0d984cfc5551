// Keys whose values are hidden on the screen, per kind of job.
import { useState } from "preact/hooks";

import { Button, Empty, Field, Panel } from "../../components/basics";
import { act, FormDialog, notify } from "../../components/feedback";
import { EVERY_KIND, hiddenKeys, saveHiddenKeys } from "../../components/secrets";
import { Table, type Column } from "../../components/table";
import { t } from "../../texts";

interface Row {
  kind: string;
  keys: string[];
}
const ADMIN = ["admin", "*"] as const;

export function HiddenKeysPanel() {
  const [editing, setEditing] = useState<Row>();
  const [, redraw] = useState(0);
  const changed = () => redraw((n) => n + 1);
  const rows = [...hiddenKeys()].map(([kind, keys]) => ({ kind, keys }));
  const show = async (row: Row) => {
    if (await act(() => saveHiddenKeys(row.kind, []), t.hiddenKeys.saved)) changed();
  };
  const columns: Column<Row>[] = [
    { key: "kind", title: t.jobs.kind, cell: (row) => (row.kind === EVERY_KIND ? t.hiddenKeys.everyKind : row.kind), sort: (row) => row.kind },
    { key: "keys", title: t.hiddenKeys.keys, cell: (row) => <code>{row.keys.join(" ")}</code>, wide: true },
    {
      key: "actions",
      title: t.actions,
      cell: (row) => (
        <span class="actions">
          <Button needs={ADMIN} onClick={() => setEditing(row)}>{t.job.edit}</Button>
          <Button needs={ADMIN} onClick={() => show(row)}>{t.remove}</Button>
        </span>
      ),
    },
  ];
  return (
    <Panel title={t.hiddenKeys.title} actions={<Button needs={ADMIN} onClick={() => setEditing({ kind: "", keys: [] })}>{t.hiddenKeys.add}</Button>}>
      {rows.length === 0 ? (
        <Empty title={t.hiddenKeys.empty}>{t.hiddenKeys.text}</Empty>
      ) : (
        <>
          <p class="note">{t.hiddenKeys.text}</p>
          <Table label={t.hiddenKeys.title} columns={columns} rows={rows} id={(row) => row.kind} parameter="hidden" />
        </>
      )}
      {editing && <HiddenKeysDialog row={editing} onClose={() => setEditing(undefined)} done={changed} />}
    </Panel>
  );
}

function HiddenKeysDialog(props: { row: Row; onClose: () => void; done: () => void }) {
  const { row } = props;
  const known = row.keys.length > 0;
  const [kind, setKind] = useState(row.kind === EVERY_KIND ? "" : row.kind);
  const [keys, setKeys] = useState(row.keys.join(" "));
  const submit = async () => {
    await saveHiddenKeys(kind.trim() || EVERY_KIND, keys.split(/[\s,]+/).filter(Boolean));
    notify(t.hiddenKeys.saved);
    props.done();
  };
  return (
    <FormDialog title={t.hiddenKeys.add} action={t.save} onClose={props.onClose} onSubmit={submit}>
      <Field label={t.jobs.kind} hint={t.hiddenKeys.kindHint}>
        <input disabled={known} value={kind} onInput={(e) => setKind(e.currentTarget.value)} />
      </Field>
      <Field label={t.hiddenKeys.keys} hint={t.hiddenKeys.keysHint}>
        <input required value={keys} onInput={(e) => setKeys(e.currentTarget.value)} />
      </Field>
    </FormDialog>
  );
}

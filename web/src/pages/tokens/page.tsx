// Access tokens: create, look at, revoke. A token's text is shown once.
import { useState } from "preact/hooks";

import { get, post, remove, segment, type Schemas } from "../../api/client";
import { changes } from "../../api/events";
import { Ago, Button, Empty, Field, Page, Show, StateBadge } from "../../components/basics";
import { act, confirm, copyText, FormDialog } from "../../components/feedback";
import { Table, type Column } from "../../components/table";
import { useData } from "../../data";
import { t } from "../../texts";

type Token = Schemas["Token"];

const stateOf = (token: Token): string => (token.usable ? t.tokens.usable : token.revoked_at ? t.tokens.isRevoked : t.tokens.expired);

export function TokensPage() {
  const tokens = useData("tokens", (signal) => get<Schemas["TokenList"]>("/v1/tokens", {}, signal), (event) => changes(event, "token"));
  const [creating, setCreating] = useState(false);
  const [text, setText] = useState("");
  const revoke = async (token: Token) => {
    const yes = await confirm({ title: t.tokens.confirmRevoke(token.name), text: t.tokens.confirmRevokeText, action: t.tokens.revoke, danger: true });
    if (yes && (await act(() => remove(`/v1/tokens/${segment(token.name)}`), t.tokens.revoked(token.name)))) tokens.reload();
  };
  const columns: Column<Token>[] = [
    { key: "name", title: t.name, cell: (one) => one.name, sort: (one) => one.name },
    { key: "state", title: t.jobs.state, cell: (one) => <StateBadge state={stateOf(one)} />, sort: stateOf },
    { key: "scopes", title: t.tokens.scopes, cell: (one) => one.scopes.map((scope) => <code key={scope} class="tag">{scope}</code>), sort: (one) => one.scopes.join(" ") },
    { key: "by", title: t.tokens.createdBy, cell: (one) => one.created_by, sort: (one) => one.created_by },
    { key: "at", title: t.job.created, cell: (one) => <Ago at={one.created_at} />, sort: (one) => one.created_at },
    { key: "expires", title: t.tokens.expires, cell: (one) => (one.expires_at ? <Ago at={one.expires_at} /> : t.tokens.never), sort: (one) => one.expires_at },
    { key: "actions", title: t.actions, cell: (one) => one.usable && <Button kind="danger" needs={["admin", "*"]} onClick={() => revoke(one)}>{t.tokens.revoke}</Button> },
  ];
  return (
    <Page
      title={t.pages.tokens}
      note={t.tokens.note}
      actions={
        <Button kind="primary" needs={["admin", "*"]} onClick={() => setCreating(true)}>
          {t.tokens.create}
        </Button>
      }
    >
      {text && (
        <div class="message once" role="status">
          <span>
            {t.tokens.once} <code>{text}</code>
          </span>
          <span class="actions">
            <Button onClick={() => copyText(text)}>{t.copy}</Button>
            <Button onClick={() => setText("")}>{t.dismiss}</Button>
          </span>
        </div>
      )}
      <Show of={tokens}>
        {(data) =>
          data.tokens.length === 0 ? (
            <Empty title={t.tokens.empty}>{t.tokens.emptyHint}</Empty>
          ) : (
            <Table label={t.pages.tokens} columns={columns} rows={data.tokens} id={(one) => one.name} />
          )
        }
      </Show>
      {creating && (
        <CreateDialog
          onClose={() => setCreating(false)}
          done={(made) => {
            setText(made);
            tokens.reload();
          }}
        />
      )}
    </Page>
  );
}

function CreateDialog(props: { onClose: () => void; done: (token: string) => void }) {
  const [name, setName] = useState("");
  const [scopes, setScopes] = useState("read");
  const [expires, setExpires] = useState("90d");
  const submit = async () => {
    const body: Record<string, unknown> = { name, scopes: scopes.split(/[\s,]+/).filter(Boolean) };
    if (expires.trim() !== "") body.expires_in = expires.trim();
    const made = await post<Schemas["CreatedToken"]>("/v1/tokens", body);
    props.done(made.token);
  };
  return (
    <FormDialog title={t.tokens.create} action={t.tokens.createAction} onClose={props.onClose} onSubmit={submit}>
      <Field label={t.name}>
        <input required value={name} onInput={(e) => setName(e.currentTarget.value)} />
      </Field>
      <Field label={t.tokens.scopes} hint={t.tokens.scopesHint}>
        <textarea rows={3} required spellcheck={false} value={scopes} onInput={(e) => setScopes(e.currentTarget.value)} />
      </Field>
      <Field label={t.tokens.expiresIn} hint={t.tokens.expiresHint}>
        <input value={expires} onInput={(e) => setExpires(e.currentTarget.value)} />
      </Field>
    </FormDialog>
  );
}

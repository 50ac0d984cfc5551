// Saved views: filters of a page under a name, kept on the server for all viewers.
import { useState } from "preact/hooks";

import { ApiError, get, getIfThere, put, remove, segment } from "../api/client";
import { changes } from "../api/events";
import type { View } from "../api/shapes";
import { useData } from "../data";
import { link, type Route } from "../router";
import { may } from "../session";
import { t } from "../texts";
import { Button, Field, Show } from "./basics";
import { act, confirm, FormDialog, mayCreate, notify } from "./feedback";
import { usePageMenu } from "./menu";
import { HIDDEN_KEYS_VIEW } from "./secrets";

export const viewLink = (view: View): string => `${link([view.page])}?${view.query}`;

export function Views(props: { page: string; route: Route }) {
  const { page, route } = props;
  const [saving, setSaving] = useState(false);
  const menu = usePageMenu();
  const views = useData("views", async (signal) => ({ answer: await getIfThere<{ views: View[] }>("/v1/views", {}, signal) }), (event) => changes(event, "view"));
  if (views.data && !views.data.answer) return null; // an older server
  const drop = async (view: View) => {
    const yes = await confirm({ title: t.views.confirmRemove(view.name), text: t.views.confirmRemoveText, action: t.remove, danger: true });
    if (yes && (await act(() => remove(`/v1/views/${segment(view.name)}`), t.views.removed(view.name)))) views.reload();
  };
  return (
    <>
      <details class="menu-box" ref={menu}>
        <summary class="button plain">{t.views.title}</summary>
        <div class="menu-items">
          <Show of={views}>
            {({ answer }) => {
              const shown = answer?.views.filter((view) => view.page === page) ?? [];
              return (
                <>
                  {shown.length === 0 && <p class="note">{t.views.empty}</p>}
                  <ul class="plain-list">
                    {shown.map((view) => (
                      <li key={view.name}>
                        <a href={viewLink(view)}>{view.name}</a>
                        <span class="note">{view.by}</span>
                        {may(["admin", "*"]) && (
                          <button type="button" class="link" aria-label={`${t.remove} ${view.name}`} onClick={() => drop(view)}>
                            {t.remove}
                          </button>
                        )}
                      </li>
                    ))}
                  </ul>
                </>
              );
            }}
          </Show>
          <Button needs={["admin", "*"]} onClick={() => setSaving(true)}>{t.views.save}</Button>
        </div>
      </details>
      {saving && <SaveDialog page={page} route={route} onClose={() => setSaving(false)} done={views.reload} />}
    </>
  );
}

function SaveDialog(props: { page: string; route: Route; onClose: () => void; done: () => void }) {
  const [name, setName] = useState("");
  const submit = async () => {
    if (name.trim() === HIDDEN_KEYS_VIEW) throw new ApiError(400, "invalid_argument", t.views.reserved(name.trim()), "name");
    const find = async () => (await get<{ views: View[] }>("/v1/views")).views.find((view) => view.name === name.trim());
    if (!(await mayCreate(name.trim(), find))) return false;
    const query = new URLSearchParams(props.route.query);
    for (const place of ["cursor", "before"]) query.delete(place); // of one page, not of the view
    await put(`/v1/views/${segment(name.trim())}`, { page: props.page, query: query.toString() });
    notify(t.views.saved(name.trim()));
    props.done();
  };
  return (
    <FormDialog title={t.views.save} action={t.save} onClose={props.onClose} onSubmit={submit}>
      <Field label={t.name} hint={t.views.nameHint}>
        <input required maxLength={100} value={name} onInput={(e) => setName(e.currentTarget.value)} />
      </Field>
    </FormDialog>
  );
}

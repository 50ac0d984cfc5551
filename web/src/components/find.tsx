// A field that filters the rows of a list by name. What is typed is in the address.
import { navigate, useRoute, withQuery } from "../router";
import { t } from "../texts";

export const findIn = <T,>(rows: T[], name: (row: T) => string, find: string): T[] =>
  find === "" ? rows : rows.filter((row) => name(row).toLowerCase().includes(find.toLowerCase()));

export function useFind(): string {
  return useRoute().query.get("find") ?? "";
}

export function FindRows(props: { label: string; shown: number; all: number }) {
  const route = useRoute();
  const find = useFind();
  return (
    <div class="filters" role="search">
      <label>
        {props.label} <input type="search" value={find} onInput={(e) => navigate(withQuery(route, { find: e.currentTarget.value || undefined }), true)} />
      </label>
      {find !== "" && (
        <span class="note" role="status">
          {t.table.shown(props.shown, props.all)}
        </span>
      )}
    </div>
  );
}

// Links to the newest and the next older page of a list. The place is in the address.
import { useRoute, withQuery } from "../router";
import { t } from "../texts";

export function Pager(props: { label: string; parameter: string; next?: string | number | null; older?: string }) {
  const route = useRoute();
  const { parameter, next } = props;
  const paged = route.query.has(parameter);
  if (!paged && next == null) return null;
  return (
    <nav class="pager" aria-label={props.label}>
      {paged && <a href={withQuery(route, { [parameter]: undefined })}>{t.newer}</a>}
      {next != null && <a href={withQuery(route, { [parameter]: String(next) })}>{props.older ?? t.older}</a>}
    </nav>
  );
}

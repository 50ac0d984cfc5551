// Starts the dashboard: theme, routes, sign-in.
import { render } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

import { get, remove, request, whenUnauthenticated, type ApiError, type Schemas } from "./api/client";
import { retryMs } from "./api/events";
import { Empty, ErrorBox, Field, Loading, Page } from "./components/basics";
import { messageOf } from "./components/feedback";
import { Layout } from "./components/layout";
import { loadHiddenKeys } from "./components/secrets";
import { AuditPage } from "./pages/audit/page";
import { BreakersPage } from "./pages/breakers/page";
import { ErrorsPage } from "./pages/errors/page";
import { FolderPage } from "./pages/folders/one";
import { FoldersPage } from "./pages/folders/page";
import { ComparePage } from "./pages/job/compare";
import { JobPage } from "./pages/job/page";
import { JobsPage } from "./pages/jobs/page";
import { LocksPage } from "./pages/locks/page";
import { OverviewPage } from "./pages/overview/page";
import { QuarantinePage } from "./pages/quarantine/page";
import { KeyPage, QueuePage } from "./pages/queues/one";
import { QueuesPage } from "./pages/queues/page";
import { SchedulePage } from "./pages/schedules/one";
import { SchedulesPage } from "./pages/schedules/page";
import { SessionsPage } from "./pages/sessions/page";
import { SystemPage } from "./pages/system/page";
import { TimersPage } from "./pages/timers/page";
import { TokensPage } from "./pages/tokens/page";
import { TriggerPage, TriggersPage } from "./pages/triggers/page";
import { WorkersPage } from "./pages/workers/page";
import { WorkflowPage } from "./pages/workflows/one";
import { WorkflowsPage } from "./pages/workflows/page";
import { useRoute, type Route } from "./router";
import { setSession as setScopes } from "./session";
import { applyTheme } from "./settings";
import "./styles.css";
import { restoreScroll } from "./scroll";
import { t } from "./texts";

function view(route: Route) {
  const [page, name, third] = route.path;
  switch (page) {
    case undefined:
      return <OverviewPage />;
    case "jobs":
      if (name === undefined) return <JobsPage route={route} />;
      if (third === "compare") return <ComparePage key={`${name} ${route.path[3]}`} id={name} other={route.path[3]} />;
      return <JobPage key={name} id={name} />;
    case "queues":
      if (name === undefined) return <QueuesPage />;
      if (third === "keys" && route.path[3] !== undefined) return <KeyPage key={`${name}/${route.path[3]}`} queue={name} limitKey={route.path[3]} />;
      return <QueuePage key={name} name={name} />;
    case "errors":
      return <ErrorsPage route={route} />;
    case "workers":
      return <WorkersPage />;
    case "schedules":
      return name === undefined ? <SchedulesPage /> : <SchedulePage key={name} name={name} />;
    case "workflows":
      return name === undefined ? <WorkflowsPage route={route} /> : <WorkflowPage key={name} id={name} />;
    case "sessions":
      return <SessionsPage route={route} />;
    case "locks":
      return <LocksPage route={route} />;
    case "timers":
      return <TimersPage />;
    case "triggers":
      return name === undefined ? <TriggersPage /> : <TriggerPage key={name} name={name} />;
    case "breakers":
      return <BreakersPage />;
    case "quarantine":
      return <QuarantinePage />;
    case "folders":
      return name === undefined || third === undefined ? (
        <FoldersPage />
      ) : (
        <FolderPage key={`${name}/${third}`} type={name} name={third} route={route} />
      );
    case "audit":
      return <AuditPage route={route} />;
    case "tokens":
      return <TokensPage />;
    case "system":
      return <SystemPage />;
    default:
      return (
        <Page title={t.notFound.title}>
          <Empty title={t.notFound.title}>{t.notFound.text}</Empty>
        </Page>
      );
  }
}

type Session = Schemas["DashboardSession"];

// Who the viewer is. One request decides: pages that ask without a token would use up the tries that the server allows.
// Without an answer no page is drawn: it would offer what the server refuses.
function useSession() {
  const [signedOut, setSignedOut] = useState(false);
  const [session, setSession] = useState<Session>();
  const [problem, setProblem] = useState<ApiError>();
  const askNow = useRef(() => {});
  useEffect(() => {
    setProblem(undefined);
    if (signedOut) return;
    let again = false;
    let failures = 0;
    let timer: ReturnType<typeof setTimeout> | undefined;
    // No page is drawn before it is known which values it hides.
    const enter = (known: Session) =>
      loadHiddenKeys().then(() => {
        failures = 0;
        setProblem(undefined);
        setSession(known);
      });
    const refused = (error: ApiError) => {
      if (error.status === 404) return enter({ who: "", everything: true }); // an older server has no sessions
      if (error.status !== 401) {
        setProblem(error);
        clearTimeout(timer);
        timer = setTimeout(ask, retryMs(failures++));
        return;
      }
      // The refusal removed a cookie that is no longer good. A local viewer needs none.
      if (again) return setSignedOut(true);
      again = true;
      ask();
    };
    const ask = () => {
      clearTimeout(timer);
      void get<Session>("/v1/session").then(enter, refused);
    };
    askNow.current = ask;
    whenUnauthenticated(() => {
      setSession((known) => {
        if (known) ask();
        return undefined;
      });
    });
    ask();
    return () => clearTimeout(timer);
  }, [signedOut]);
  const signOut = async () => {
    await remove("/v1/session").catch(() => {});
    setSession(undefined);
    setSignedOut(true);
  };
  return { session, signedOut, problem, retry: () => askNow.current(), signIn: () => setSignedOut(false), signOut };
}

function App() {
  const route = useRoute();
  const { session, signedOut, problem, retry, signIn, signOut } = useSession();
  // A reader of the screen learns that the page changed.
  const path = route.path.join("/");
  useEffect(() => {
    document.querySelector<HTMLElement>("main h1")?.focus({ preventScroll: true });
    return restoreScroll();
  }, [path]);
  if (signedOut) return <SignIn done={signIn} />;
  if (!session) return problem ? <NoSession error={problem} retry={retry} /> : <Loading />;
  setScopes(session);
  return (
    <Layout route={route} who={session.everything ? "" : session.who} onSignOut={signOut}>
      {view(route)}
    </Layout>
  );
}

function NoSession(props: { error: ApiError; retry: () => void }) {
  return (
    <main class="sign-in" id="main">
      <h1>{t.product}</h1>
      <ErrorBox {...props} />
      <p class="note">{t.signIn.again}</p>
    </main>
  );
}

function SignIn(props: { done: () => void }) {
  const [token, setToken] = useState("");
  const [error, setError] = useState("");
  const submit = async (event: Event) => {
    event.preventDefault();
    try {
      await request("POST", "/v1/session", { headers: { Authorization: `Bearer ${token.trim()}` } });
      props.done();
    } catch (problem) {
      setError(messageOf(problem));
    }
  };
  return (
    <main class="sign-in" id="main">
      <form onSubmit={submit}>
        <h1>{t.signIn.title}</h1>
        <p>{t.signIn.text}</p>
        <Field label={t.signIn.token} hint={t.signIn.hint} error={error}>
          <input
            type="password"
            autoComplete="current-password"
            required
            value={token}
            onInput={(e) => setToken(e.currentTarget.value)}
          />
        </Field>
        <button type="submit" class="button primary">
          {t.signIn.action}
        </button>
      </form>
    </main>
  );
}

applyTheme();
render(<App />, document.getElementById("app")!);

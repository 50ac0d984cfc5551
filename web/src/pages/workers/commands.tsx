// Quiet, stop and resume workers: buttons of one row, and of the selected rows.
import { post, segment } from "../../api/client";
import type { Worker } from "../../api/shapes";
import { Button } from "../../components/basics";
import { confirm, messageOf, notify } from "../../components/feedback";
import { t } from "../../texts";

export type WorkerVerb = "quiet" | "stop" | "resume";
// What can be done with a worker now: one that stops is left alone.
export function verbsOf(worker: Worker): WorkerVerb[] {
  if (worker.command === "stop") return [];
  return worker.command === "quiet" ? ["resume", "stop"] : ["quiet", "stop"];
}

const nameOf = (worker: Worker): string => (worker.host ? `${worker.id} (${worker.host})` : worker.id);

async function run(verb: WorkerVerb, workers: Worker[], done: () => void): Promise<void> {
  const jobs = workers.reduce((sum, worker) => sum + worker.running, 0);
  const yes = await confirm({
    title: t.workers.confirm[verb](workers.length === 1 ? nameOf(workers[0]!) : t.workers.several(workers.length)),
    text: (
      <>
        {workers.length > 1 && <p>{workers.map(nameOf).join(", ")}</p>}
        <p>
          {t.workers.runningNow(jobs)} {t.workers.confirmText[verb]}
        </p>
      </>
    ),
    action: t.workers.verbs[verb],
    danger: verb === "stop",
  });
  if (!yes) return;
  let good = 0;
  const problems = new Set<string>();
  for (const worker of workers) {
    try {
      await post(`/v1/workers/${segment(worker.id)}/${verb}`);
      ++good;
    } catch (problem) {
      problems.add(messageOf(problem));
    }
  }
  if (good > 0) notify(t.workers.done[verb](good));
  for (const problem of problems) notify(problem, true);
  done();
}

export function CommandButtons(props: { workers: Worker[]; verbs: WorkerVerb[]; done: () => void }) {
  const { workers } = props;
  const queues = [...new Set(workers.flatMap((worker) => worker.queues ?? []))];
  return (
    <>
      {props.verbs.map((verb) => {
        const fitting = workers.filter((worker) => verbsOf(worker).includes(verb));
        const hint = fitting.length === 0 ? t.workers.nothingToDo[verb] : undefined;
        return (
          <Button
            key={verb}
            kind={verb === "stop" ? "danger" : "plain"}
            needs={["admin", ...queues]}
            disabled={hint !== undefined}
            title={hint}
            aria-label={workers.length === 1 ? t.workers.verbOf(t.workers.verbs[verb], workers[0]!.id) : undefined}
            onClick={() => void run(verb, fitting, props.done)}
          >
            {t.workers.verbs[verb]}
          </Button>
        );
      })}
    </>
  );
}

// Pausing a queue: with a reason and an end, and how both are shown.
import { useState } from "preact/hooks";

import { post, segment } from "../../api/client";
import type { Queue } from "../../api/shapes";
import { Ago, Button, Field, StateBadge } from "../../components/basics";
import { act, FormDialog, notify } from "../../components/feedback";
import { t } from "../../texts";

export function PauseBadge(props: { queue: Queue }) {
  const { queue } = props;
  if (!queue.paused) return null;
  const { pause } = queue;
  return (
    <span class="pause">
      <StateBadge state={t.queues.paused} />{" "}
      {pause && (
        <span class="note">
          {pause.reason}
          {pause.by && ` ${t.queues.pausedBy(pause.by)}`}
          {pause.at && <> <Ago at={pause.at} /></>}
          {pause.until && (
            <>
              {" · "}
              {t.queues.resumes} <Ago at={pause.until} />
            </>
          )}
        </span>
      )}
    </span>
  );
}

export const resumeQueue = (name: string): Promise<boolean> =>
  act(() => post(`/v1/queues/${segment(name)}/resume`), t.queues.resumedNow(name));

export function PauseDialog(props: { name: string; onClose: () => void; done: () => void }) {
  const { name } = props;
  const [reason, setReason] = useState("");
  const [length, setLength] = useState("");
  const submit = async () => {
    const body: Record<string, string> = {};
    if (reason.trim() !== "") body.reason = reason.trim();
    if (length.trim() !== "") body.for = length.trim();
    await post(`/v1/queues/${segment(name)}/pause`, Object.keys(body).length > 0 ? body : undefined);
    notify(t.queues.pausedNow(name));
    props.done();
  };
  return (
    <FormDialog title={t.queues.confirmPause(name)} action={t.queues.pause} danger onClose={props.onClose} onSubmit={submit}>
      <p class="note">{t.queues.confirmPauseText}</p>
      <Field label={t.reason} hint={t.queues.pauseReasonHint}>
        <input maxLength={200} value={reason} onInput={(e) => setReason(e.currentTarget.value)} />
      </Field>
      <Field label={t.queues.pauseFor} hint={t.queues.pauseForHint}>
        <input list="pause-lengths" value={length} onInput={(e) => setLength(e.currentTarget.value)} />
      </Field>
      <datalist id="pause-lengths">
        {["15m", "1h", "2h", "12h", "24h"].map((one) => (
          <option key={one} value={one} />
        ))}
      </datalist>
    </FormDialog>
  );
}

// The button that pauses or resumes, with the dialog.
export function PauseButton(props: { queue: Queue; reload: () => void }) {
  const { queue, reload } = props;
  const [open, setOpen] = useState(false);
  const run = async () => {
    if (!queue.paused) return setOpen(true);
    if (await resumeQueue(queue.name)) reload();
  };
  return (
    <>
      <Button needs={["admin", queue.name]} onClick={run} aria-label={`${queue.paused ? t.queues.resume : t.queues.pause} ${queue.name}`}>
        {queue.paused ? t.queues.resume : t.queues.pause}
      </Button>
      {open && <PauseDialog name={queue.name} onClose={() => setOpen(false)} done={reload} />}
    </>
  );
}

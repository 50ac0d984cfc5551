// Edits a definition that has args. Without read:payload the server hides them, and saving would remove them.
import type { ComponentChildren } from "preact";

import { may } from "../session";
import { t } from "../texts";
import { Button } from "./basics";

export const seesArgs = (queue?: string): boolean => may(["read:payload", queue]);

export function EditButton(props: { queue?: string; onClick: () => void; children: ComponentChildren }) {
  const { queue, onClick, children } = props;
  const hidden = !seesArgs(queue);
  return (
    <Button needs={["schedule", queue]} disabled={hidden} title={hidden ? t.editHidden(queue) : undefined} onClick={onClick}>
      {children}
    </Button>
  );
}

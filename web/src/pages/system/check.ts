// The check of the store that ran last in this tab. It reads the whole store, so it runs only when asked.
import { request, type Schemas } from "../../api/client";
import { messageOf, notify } from "../../components/feedback";
import { count } from "../../format";
import { t } from "../../texts";

export interface StoreCheck {
  at: string;
  text: string;
  problems: string[];
}
let last: StoreCheck | undefined;
export const lastCheck = (): StoreCheck | undefined => last;

export async function checkStore(): Promise<void> {
  try {
    const report = await request<Schemas["VerifyReport"]>("GET", "/v1/verify", { slow: true });
    const bad = report.problems.length;
    last = {
      at: new Date().toISOString(),
      text: bad === 0 ? t.system.sound(count(report.jobs)) : t.system.problems(count(bad)),
      problems: report.problems,
    };
  } catch (problem) {
    notify(messageOf(problem), true);
  }
}

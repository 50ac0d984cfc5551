// A menu that copies the same thing in one of several forms.
import { t } from "../texts";
import { copyText } from "./feedback";

export function CopyAs(props: { choices: () => { name: string; text: string }[] }) {
  return (
    <select
      aria-label={t.job.copyAs}
      value=""
      onChange={(e) => {
        const choice = props.choices().find((one) => one.name === e.currentTarget.value);
        e.currentTarget.value = "";
        if (choice) void copyText(choice.text);
      }}
    >
      <option value="">{t.job.copyAs}</option>
      {props.choices().map((choice) => (
        <option key={choice.name} value={choice.name}>
          {choice.name}
        </option>
      ))}
    </select>
  );
}

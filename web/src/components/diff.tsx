// Two texts line by line: what only one of them has is marked, by colour and by a sign.
import { t } from "../texts";

// Beyond it the texts are shown without marks: the comparison takes lines × lines.
const MAX_LINES = 1_500;

export interface DiffLine {
  text: string;
  side: "both" | "left" | "right";
}

// The longest common lines stay, the others are of one side.
export function diffLines(left: string[], right: string[]): DiffLine[] {
  const width = right.length + 1;
  const common = new Uint16Array((left.length + 1) * width);
  for (let i = left.length - 1; i >= 0; --i) {
    for (let j = right.length - 1; j >= 0; --j) {
      common[i * width + j] =
        left[i] === right[j] ? common[(i + 1) * width + j + 1]! + 1 : Math.max(common[(i + 1) * width + j]!, common[i * width + j + 1]!);
    }
  }
  const out: DiffLine[] = [];
  let i = 0;
  let j = 0;
  while (i < left.length || j < right.length) {
    if (i < left.length && j < right.length && left[i] === right[j]) {
      out.push({ text: left[i]!, side: "both" });
      ++i, ++j;
    } else if (j >= right.length || (i < left.length && common[(i + 1) * width + j]! >= common[i * width + j + 1]!)) {
      out.push({ text: left[i++]!, side: "left" });
    } else {
      out.push({ text: right[j++]!, side: "right" });
    }
  }
  return out;
}

const SIGNS = { both: " ", left: "−", right: "+" };

export function Diff(props: { label: string; left: string; right: string }) {
  const left = props.left.split("\n");
  const right = props.right.split("\n");
  if (props.left === props.right) return <p class="note">{t.compare.same}</p>;
  if (left.length > MAX_LINES || right.length > MAX_LINES) return <p class="note">{t.compare.tooLong}</p>;
  return (
    <pre class="value diff wrap" tabIndex={0} role="region" aria-label={props.label}>
      {diffLines(left, right).map((line, i) => (
        <span key={i} class={`diff-${line.side}`}>
          {SIGNS[line.side]} {line.text}
          {"\n"}
        </span>
      ))}
    </pre>
  );
}

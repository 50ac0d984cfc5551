// The line of an error that says what went wrong, for lists with one line per error. The same rule as the server's and
// the command line's (telling_line in src/model/fingerprint.h): the first line; of a Python traceback the text before
// it, then the exception: "exit code 1: ValueError: no such page".
const MAX_LENGTH = 120;
const FRAME = '  File "';

function lineOf(error: string): string {
  const lines = error.trimEnd().split("\n");
  const first = lines[0]!;
  let frame = lines.length - 1;
  while (frame >= 0 && !/ {2}File ".*", line /.test(lines[frame]!)) --frame;
  // The exception is the first line after the last frame that is not indented.
  const exception = frame < 0 ? undefined : lines.slice(frame + 1).find((line) => /^\S/.test(line));
  if (exception === undefined) return first;
  const begin = [first.indexOf("Traceback (most recent call last):"), first.indexOf(FRAME)].filter((at) => at >= 0);
  return (begin.length === 0 ? "" : first.slice(0, Math.min(...begin))) + exception;
}

export function tellingLine(error: string): string {
  const line = lineOf(error.trimStart()).trim();
  return line.length > MAX_LENGTH ? `${line.slice(0, MAX_LENGTH - 1)}…` : line;
}

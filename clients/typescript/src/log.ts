// Structured logs: a message and fields.

export type LogFields = Record<string, string | number | bigint | boolean | undefined>;

/** Takes log lines. The fields of pino and of similar loggers go first: wrap those. */
export interface Logger {
  debug(message: string, fields?: LogFields): void;
  info(message: string, fields?: LogFields): void;
  warn(message: string, fields?: LogFields): void;
  error(message: string, fields?: LogFields): void;
}

const LEVELS = ["debug", "info", "warn", "error"] as const;
export type LogLevel = (typeof LEVELS)[number];

/** One JSON object a line on standard error, from `level` on. */
export function jsonLogger(level: LogLevel = "info"): Logger {
  const line =
    (at: LogLevel) =>
    (message: string, fields: LogFields = {}) => {
      if (LEVELS.indexOf(at) < LEVELS.indexOf(level)) return;
      const head = { time: new Date().toISOString(), level: at, message };
      const text = JSON.stringify({ ...head, ...fields }, (_, value: unknown) =>
        typeof value === "bigint" ? String(value) : value,
      );
      process.stderr.write(text + "\n");
    };
  return { debug: line("debug"), info: line("info"), warn: line("warn"), error: line("error") };
}

/** Adds fields to every line. */
export function withFields(log: Logger, more: LogFields): Logger {
  return {
    debug: (message, fields) => log.debug(message, { ...more, ...fields }),
    info: (message, fields) => log.info(message, { ...more, ...fields }),
    warn: (message, fields) => log.warn(message, { ...more, ...fields }),
    error: (message, fields) => log.error(message, { ...more, ...fields }),
  };
}

// Certificates and keys of a client: files are read again for each new connection.
import { X509Certificate } from "node:crypto";
import { readFileSync } from "node:fs";
import { createSecureContext, type SecureContext } from "node:tls";

import { makeError } from "./errors.js";
import type { Logger } from "./log.js";

export interface TlsOptions {
  /** Authorities that may have signed the server's certificate, PEM. Default: those of Node.js. */
  ca?: string | Uint8Array | undefined;
  /** The client's own certificate and key, PEM. */
  cert?: string | Uint8Array | undefined;
  key?: string | Uint8Array | undefined;
  /** The same as files. They are read again for each new connection, so they can be renewed. */
  caFile?: string | undefined;
  certificateFile?: string | undefined;
  keyFile?: string | undefined;
}

const DAY_MS = 86_400_000;
const WARN_BEFORE_MS = 7 * DAY_MS;

type Pem = string | Uint8Array | undefined;

export class Certificates {
  private context: SecureContext | undefined;
  private seen = "";
  private warnAt = 0;
  private refused: string | undefined;

  constructor(
    private readonly options: TlsOptions,
    private readonly log: Logger | undefined,
  ) {
    const { ca, cert, key, caFile, certificateFile, keyFile } = options;
    for (const [text, file] of [
      [ca, caFile],
      [cert, certificateFile],
      [key, keyFile],
    ])
      if (text !== undefined && file !== undefined)
        throw makeError("invalid_argument", "tls: a PEM text and a file for the same thing", {
          field: "tls",
        });
  }

  /**
   * For the next connection. Files that cannot be used, such as half of a renewal, leave the last
   * ones in use. @internal
   */
  forConnection(): SecureContext {
    try {
      const pems = this.read();
      const seen = Object.values(given(pems)).map((pem) => pem.toString("base64")).join();
      if (this.context === undefined || seen !== this.seen) {
        this.context = createSecureContext(given(pems));
        this.seen = seen;
        this.warnAt = 0;
      }
      this.refused = undefined;
      this.warnOfEnd(pems.cert);
    } catch (cause) {
      const { message } = cause as Error;
      if (this.context === undefined)
        throw makeError("invalid_argument", `tls: ${message}`, { field: "tls", cause });
      if (this.refused === message) return this.context; // said before
      this.refused = message;
      const { caFile, certificateFile, keyFile } = this.options;
      this.log?.warn("cannot use new certificates; those that were read before are used", {
        files: [caFile, certificateFile, keyFile].filter((file) => file !== undefined).join(),
        error: message,
      });
    }
    return this.context;
  }

  /** Warns once a day of a client certificate that ends soon. */
  warnOfEnd(cert: Pem = this.read().cert): void {
    const time = Date.now();
    if (cert === undefined || time < this.warnAt) return;
    this.warnAt = time + DAY_MS;
    const end = Date.parse(new X509Certificate(cert).validTo);
    if (!(end - time < WARN_BEFORE_MS)) return;
    const at = new Date(end).toISOString();
    const what = end <= time ? "has ended" : "ends soon";
    const { certificateFile: file } = this.options;
    this.log?.warn(`the client certificate ${what}: renew it`, { file, at });
  }

  private read(): { ca: Pem; cert: Pem; key: Pem } {
    const { ca, cert, key, caFile, certificateFile, keyFile } = this.options;
    const file = (path?: string) => (path === undefined ? undefined : readFileSync(path));
    return {
      ca: ca ?? file(caFile),
      cert: cert ?? file(certificateFile),
      key: key ?? file(keyFile),
    };
  }
}

function given(pems: Record<string, Pem>): Record<string, Buffer> {
  return Object.fromEntries(
    Object.entries(pems).flatMap(([name, pem]) =>
      pem === undefined ? [] : [[name, Buffer.from(pem)]],
    ),
  );
}

// The source files of a program, for `mainspring work --watch`.
import { type Dirent, type FSWatcher, existsSync, readdirSync, statSync, watch } from "node:fs";
import { dirname, join, sep } from "node:path";

const SOURCE = /\.([mc]?[jt]sx?|json)$/;
// Code of others, and what programs write.
const SKIPPED = /^(node_modules|bower_components|venv|__pycache__|coverage|\..*)$/;
const MAX_FILES = 20_000;
const MAX_DIRECTORIES = 4000;
const LEAST_PAUSE_MS = 300;
const SETTLE_MS = 30;
/** Without notifications, looking takes at most this part of a core. */
const SHARE = 1 / 50;

/** Waits for changes by inotify and the like; looks again and again where there is none. */
export class Changes {
  private readonly root: string;
  private readonly own: string;
  private readonly watchers = new Map<string, FSWatcher>();
  private notified = true;
  private seen: string;
  private dirty = false;
  private wake: () => void = () => undefined;
  private tookMs = 0;
  private stopped = false;

  constructor(file: string) {
    this.own = dirname(file);
    this.root = packageOf(file);
    this.seen = this.look();
  }

  /** Resolves to true after a change, to false after `stop`. */
  async next(): Promise<boolean> {
    while (!this.stopped) {
      await this.pause();
      if (this.stopped) break;
      this.dirty = false;
      const now = this.look();
      if (now === this.seen) continue;
      this.seen = now;
      return true;
    }
    return false;
  }

  stop(): void {
    this.stopped = true;
    for (const one of this.watchers.values()) one.close();
    this.wake();
  }

  private async pause(): Promise<void> {
    const wait = (ms: number) =>
      new Promise<void>((resolve) => {
        const timer = ms === Infinity ? undefined : setTimeout(resolve, ms);
        this.wake = () => void (clearTimeout(timer), resolve());
      });
    if (!this.notified) return await wait(Math.max(LEAST_PAUSE_MS, this.tookMs / SHARE));
    if (!this.dirty) await wait(Infinity);
    // An editor writes several files.
    if (!this.stopped) await new Promise((resolve) => setTimeout(resolve, SETTLE_MS));
  }

  /**
   * All source files with their times, as one text. JSON files count below the directory of the
   * program's file only: elsewhere they may be data that a job writes.
   */
  private look(): string {
    const began = performance.now();
    const out: string[] = [];
    const visit = (path: string) => {
      this.follow(path); // before it is read, so that no change is missed
      for (const entry of entriesOf(path)) {
        if (out.length >= MAX_FILES || SKIPPED.test(entry.name)) continue;
        const full = join(path, entry.name);
        if (entry.isDirectory()) visit(full);
        else if (this.counts(full))
          out.push(`${full} ${statSync(full, { throwIfNoEntry: false })?.mtimeMs}`);
      }
    };
    visit(this.root);
    this.tookMs = performance.now() - began;
    return out.join("\n");
  }

  private counts(file: string): boolean {
    return SOURCE.test(file) && (!file.endsWith(".json") || file.startsWith(this.own + sep));
  }

  private follow(directory: string): void {
    if (!this.notified || this.watchers.has(directory)) return;
    try {
      if (this.watchers.size >= MAX_DIRECTORIES) throw new Error("too many directories");
      const watcher = watch(directory, (event, name) => {
        if (name !== null && SKIPPED.test(name)) return;
        // Perhaps it has gone, and another directory takes its place.
        if (event === "rename") this.leave(directory);
        this.dirty = true;
        this.wake();
      });
      watcher.on("error", () => this.leave(directory));
      this.watchers.set(directory, watcher);
    } catch {
      this.notified = false; // the limit of the system, or a file system without notifications
      for (const one of this.watchers.values()) one.close();
      this.watchers.clear();
    }
  }

  private leave(directory: string): void {
    this.watchers.get(directory)?.close();
    this.watchers.delete(directory);
  }
}

// The directory of the package that the file is in: it may import files from anywhere there.
function packageOf(file: string): string {
  for (let at = dirname(file); ; at = dirname(at)) {
    if (existsSync(join(at, "package.json"))) return at;
    if (at === dirname(at)) return dirname(file);
  }
}

// A directory may vanish while we look.
function entriesOf(path: string): Dirent[] {
  try {
    return readdirSync(path, { withFileTypes: true });
  } catch {
    return [];
  }
}

import type { ParsedSandbox } from "./config/sandbox-schema.ts";
import { asObject } from "./lenient.ts";
import type { SandboxSpec } from "./sandbox-model.ts";
import { withoutUndefined } from "./json.ts";

type ResolvePath = (path: string) => string;

/** A sandbox with what is said of it laid over another. `resolvePath` makes a path absolute that is relative to the file. */
export function laySandbox(
  base: SandboxSpec,
  said: ParsedSandbox | undefined,
  resolvePath: ResolvePath,
): SandboxSpec {
  if (said === undefined) return base;
  if (typeof said === "string") return { ...base, kind: said };
  const { kind, network, read, write, memory, processes, image, runtime } = said;
  return {
    ...base,
    ...withoutUndefined({
      kind,
      network:
        network === undefined
          ? undefined
          : network === false || network.length === 0
            ? ("none" as const)
            : ("host" as const),
      read: read?.map((path) => fromFile(path, resolvePath)),
      write: write?.map((path) => fromFile(path, resolvePath)),
      memoryBytes: memory,
      processes,
      image,
      runtime: typeof runtime === "string" ? [runtime] : runtime,
    }),
  };
}

/** A path as a program is shown it: those that begin with the home folder, or with a template, stay. */
export function fromFile(path: string, resolvePath: ResolvePath): string {
  return isHome(path) || path.startsWith("{") ? path : resolvePath(path);
}

/** Whether a path begins with the user's own folder. */
export function isHome(path: string): boolean {
  return /^~(?:[/\\]|$)/.test(path);
}

/** Whether it is said which sandbox confines a program, `none` included. */
export function saysSandbox(sandbox: unknown): boolean {
  return typeof sandbox === "string" || asObject(sandbox)["kind"] !== undefined;
}

/** What only a sandbox heeds. */
const sandboxKeys = ["network", "read", "write", "memory", "processes", "image", "runtime"];

/** Keys of an entry that say how a program is confined, where nothing says by which sandbox. */
export function unconfined(entry: object): readonly string[] {
  const { sandbox, ...rest } = asObject(entry);
  if (saysSandbox(sandbox)) return [];
  const said = sandboxKeys.filter((key) => rest[key] !== undefined);
  return [...said, ...Object.keys(asObject(sandbox))];
}

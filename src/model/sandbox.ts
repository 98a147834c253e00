import * as z from "zod";
import { closedObject, filledText, type Model, optional, text } from "./fields.ts";
import { parseByteSize } from "../base/duration.ts";
import { asObject, withoutUndefined } from "../base/json.ts";

export const sandboxModel = z
  .strictObject({
    kind: z
      .enum(["none", "process", "docker"])
      .describe("`process`: bubblewrap, or Seatbelt on macOS; `docker`: a container."),
    network: z.enum(["none", "host"]).describe("`host`: the network of this machine; `none`: none at all."),
    read: z
      .array(text)
      .describe("Further paths that it may read: absolute, relative to its folder, or beginning with `~/`."),
    write: z.array(text).describe("Further paths that it may write."),
    mounts: z
      .array(z.strictObject({ at: text, source: text, isReadOnly: z.boolean().exactOptional() }))
      .describe(
        "Folders that it sees at another path, where they cover what else is there, and may write unless they are read-only; only bubblewrap has these.",
      )
      .exactOptional(),
    namespaces: z
      .strictObject({ user: text, net: text })
      .describe("Files of a network that it joins in the place of `network`; only bubblewrap has these.")
      .exactOptional(),
    memoryBytes: z.int().describe("Maximum memory of all its processes together."),
    processes: z.int().describe("Maximum number of processes at once, itself included."),
    image: text.exactOptional(),
    runtime: z
      .array(text)
      .describe("The container program with its arguments before `run`. Absent: `docker` or `podman`.")
      .exactOptional(),
  })
  .meta({
    id: "Sandbox",
    description: "What confines a program. Only `none` lets it see what mcpvals sees.",
  });

/** What confines a program. */
export type SandboxSpec = Model<typeof sandboxModel>;

/** Limits where none are given. */
export const defaultSandbox: SandboxSpec = {
  kind: "none",
  network: "none",
  read: [],
  write: [],
  memoryBytes: 512 * 1024 * 1024,
  processes: 64,
};

/** Kinds of sandboxes. */
export const sandboxKind = z.enum(["none", "process", "docker"]);

const smallestMemory = 1024 * 1024;

/** An amount of memory; parses to bytes. */
const memory = z
  .custom<number | string>((value) => (parseByteSize(value) ?? 0) >= smallestMemory, {
    error: 'must be an amount of memory of at least 1MB: bytes, or a text such as "512MB" or "2GB"',
  })
  .transform((value) => parseByteSize(value) ?? 0)
  .meta({
    id: "ByteSize",
    title: "Amount of memory",
    description: 'Bytes, or a text with a unit: `"512MB"`, `"2GB"`; a kilobyte is 1024 bytes. At least 1 MB.',
    type: ["number", "string"],
    examples: ["512MB", "2GB"],
  });

const host = z
  .custom<"host">((value) => value === "host", {
    error:
      'must be "host", the network of this machine: a sandbox has that or none, and no addresses, ports or names can be listed',
  })
  .meta({ type: "string", const: "host" });

/** `false` means no network, as an empty list does. */
export const networkSchema = z.union([z.literal(false), z.array(host)]);

/** The fields of a sandbox besides its kind. `usual` says in the reference where a field that is not given comes from. */
export const sandboxLimits = (usual?: string) => ({
  network: optional(
    networkSchema,
    "`[host]`: the network of this machine. `false` or an empty list: none. Addresses cannot be listed.",
    usual ?? "no network at all",
  ),
  read: z
    .array(filledText)
    .optional()
    .meta({
      description: "Further paths that it may read, relative to this file; `~/` is your home folder.",
      defaultText: usual ?? "none",
    }),
  write: z
    .array(filledText)
    .optional()
    .meta({
      description: "Further paths that it may write; they must exist.",
      defaultText: usual ?? "none",
    }),
  memory: optional(memory, "Maximum memory of all its processes together.", usual ?? "`512MB`"),
  processes: z
    .int()
    .min(1)
    .max(100_000)
    .optional()
    .meta({
      description: "Maximum number of processes at once, including itself.",
      defaultText: usual ?? "`64`",
    }),
  image: optional(
    filledText,
    "Container image for `docker`, with what the program needs, such as Node or Python.",
    usual ?? "none; `docker` needs one",
  ),
});

export const sandboxParts = closedObject({
  kind: optional(sandboxKind, "`none`, `process` (bubblewrap or Seatbelt) or `docker`.", "`none`"),
  runtime: z
    .union([filledText, z.array(filledText).min(1)])
    .optional()
    .meta({
      description: "The container program, or a list of it and its arguments before `run`.",
      defaultText: "`docker` or `podman`, whichever works",
    }),
  ...sandboxLimits(),
}).meta({
  id: "Sandbox",
  title: "Sandbox",
  description:
    "The sandbox of a program. An extension can access the task's folder, the trial's workspace, and the listed paths; a server can read its `cwd` and access the listed paths. If the sandbox is unavailable, nothing runs.",
});

/** Which sandbox: its kind, or an object with more. */
export const sandboxSchema = z.union([sandboxKind, sandboxParts]);

/** A sandbox as an object. */
export type ParsedSandbox = z.output<typeof sandboxSchema>;

type ResolvePath = (path: string) => string;

/** Merges the settings of a sandbox into another. `resolvePath` makes a path absolute that is relative to the file. */
export function mergeSandbox(
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

/** Whether a sandbox is given, be it `none`. */
export function saysSandbox(sandbox: unknown): boolean {
  return typeof sandbox === "string" || asObject(sandbox)["kind"] !== undefined;
}

/** Keys that have an effect only in a sandbox. */
const sandboxKeys = ["network", "read", "write", "memory", "processes", "image", "runtime"];

/** Keys of an entry that have an effect only in a sandbox, when the entry names none. */
export function unconfined(entry: object): readonly string[] {
  const { sandbox, ...rest } = asObject(entry);
  if (saysSandbox(sandbox)) return [];
  const said = sandboxKeys.filter((key) => rest[key] !== undefined);
  return [...said, ...Object.keys(asObject(sandbox))];
}

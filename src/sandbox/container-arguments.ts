import type { SandboxSpec } from "../core/formats/model.ts";
import type { ProcessSpec } from "../process/spawn.ts";
import type { ContainerRuntime } from "./container-runtime.ts";
import { isInside } from "./is-inside.ts";
import type { ListedMount } from "./listed-mounts.ts";

export interface ContainerPlan {
  readonly runtime: Pick<ContainerRuntime, "engine" | "rootless" | "runArguments" | "user">;
  readonly spec: SandboxSpec;
  readonly image: string;
  /** Of the container. */
  readonly name: string;
  /** Command as it is inside. */
  readonly command: string;
  readonly process: Pick<ProcessSpec, "args" | "cwd">;
  readonly mounts: readonly ListedMount[];
  /** Absolute path of a file with lines of NAME=value. */
  readonly environmentFile: string;
  /** Variables that the container program takes from its own environment. */
  readonly passedVariables: readonly string[];
}

/** Containers count every thread as a process; a program such as Node has about ten. */
const threadsEach = 16;

/** The arguments of a container program, from `run` on, that run a confined program. */
export function containerArguments(plan: ContainerPlan): readonly string[] {
  const { runtime, spec, process } = plan;
  return [
    "run",
    ...runtime.runArguments,
    "--rm",
    "--interactive",
    "--name",
    plan.name,
    ...confiningArguments(runtime, spec),
    ...plan.mounts.flatMap((mount) => ["--mount", mountText(mount)]),
    "--env-file",
    plan.environmentFile,
    ...plan.passedVariables.flatMap((variable) => ["--env", variable]),
    "--workdir",
    process.cwd,
    "--entrypoint",
    plan.command,
    plan.image,
    ...process.args,
  ];
}

/** Those of them that any program gets. */
export function confiningArguments(runtime: ContainerPlan["runtime"], spec: SandboxSpec): readonly string[] {
  return [
    // Podman has no program of its own that takes in orphans.
    ...(runtime.engine === "docker" ? ["--init"] : ["--read-only-tmpfs=false"]),
    "--pull",
    "never",
    "--network",
    spec.network,
    "--read-only",
    "--cap-drop",
    "ALL",
    "--security-opt",
    "no-new-privileges",
    ...limits(spec),
    ...userArguments(runtime),
  ];
}

function limits({ memoryBytes, processes }: SandboxSpec): readonly string[] {
  const half = Math.floor(memoryBytes / 2);
  return [
    "--memory",
    `${memoryBytes}b`,
    "--memory-swap",
    `${memoryBytes}b`,
    "--shm-size",
    `${half}b`,
    "--pids-limit",
    String(processes * threadsEach),
    "--ulimit",
    "core=0:0",
    "--tmpfs",
    `/tmp:rw,exec,nosuid,nodev,mode=1777,size=${half}`,
  ];
}

/** Who the program is: we, so that files in the workspace are ours. Where the engine runs as us, root inside is we. */
function userArguments({ rootless, engine, user }: ContainerPlan["runtime"]): readonly string[] {
  if (!rootless) return ["--user", user];
  return engine === "docker" ? ["--user", "0:0"] : ["--userns=keep-id", "--user", user];
}

/** One line of CSV, as `--mount` takes it. */
function mountText({ kind, at, source }: ListedMount): string {
  const fields = ["type=bind", `source=${source}`, `target=${at}`, ...(kind === "read" ? ["readonly"] : [])];
  return fields.map((field) => (/[",\n]/.test(field) ? `"${field.replaceAll('"', '""')}"` : field)).join(",");
}

/** Variables of a program in a container, by how they get there. */
export interface ContainerEnvironment {
  /** Text of the file with most of them. */
  readonly file: string;
  /** Those whose value has line breaks, which such a file cannot have. */
  readonly passed: Readonly<Record<string, string>>;
}

/**
 * Sorts variables by how they can get into a container without standing on a command line. PATH is left out, as it names
 * folders of this machine and not of the image; so are a HOME and a TMPDIR that are not visible inside: home is `/tmp` then.
 */
export function containerEnvironment(
  env: Readonly<Record<string, string>>,
  mounts: readonly ListedMount[],
): ContainerEnvironment {
  const isVisible = (path: string): boolean => mounts.some(({ at }) => isInside(path, at));
  const kept = Object.entries({ HOME: "/tmp", ...env }).map(([name, value]) =>
    name === "HOME" && !isVisible(value) ? ([name, "/tmp"] as const) : ([name, value] as const),
  );
  const wanted = kept.filter(([name, value]) => name !== "PATH" && !(name === "TMPDIR" && !isVisible(value)));
  return {
    file: wanted
      .filter(isLine)
      .map(([name, value]) => `${name}=${value}\n`)
      .join(""),
    passed: Object.fromEntries(wanted.filter((variable) => !isLine(variable))),
  };
}

function isLine([, value]: readonly [string, string]): boolean {
  return !/[\r\n]/.test(value);
}

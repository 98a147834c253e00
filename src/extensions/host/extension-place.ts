import { homedir } from "node:os";
import type { PreparedExtension } from "../prepared-extensions.ts";
import { listedPath } from "../../sandbox/listed-path.ts";
import type { Confinement } from "../../sandbox/sandbox.ts";
import { launchOf } from "./launch-of.ts";

/** Where an extension's program runs and what it may see besides its own files. */
export interface ExtensionPlace {
  /** Absolute folder that it starts in. */
  readonly cwd: string;
  /** The complete environment of its process. */
  readonly env: Readonly<Record<string, string>>;
  /** Absolute paths that it may read. */
  readonly read: readonly string[];
  /** Absolute folders that it may write. */
  readonly write: readonly string[];
}

/** What the sandbox is asked for; `args` are added to those that the program is started with. */
export function confinementOf(
  { spec, resolved }: PreparedExtension,
  { cwd, env, read, write }: ExtensionPlace,
  args: readonly string[] = [],
): Confinement {
  const launch = launchOf(resolved);
  const interpreter = launch.command === resolved.program ? [] : [launch.command];
  const home = env["HOME"] ?? homedir();
  const listed = (paths: readonly string[]): readonly string[] =>
    paths.map((path) => listedPath(path, spec.dir, home));
  return {
    process: { command: launch.command, args: [...launch.args, ...args], cwd, env },
    read: [...new Set([resolved.folder, ...interpreter, ...read, ...listed(spec.sandbox.read)])],
    write: [...write, ...listed(spec.sandbox.write)],
    spec: spec.sandbox,
  };
}

import { randomUUID } from "node:crypto";
import { realpath, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { execPath } from "node:process";
import { McpvalsError } from "../core/errors/error.ts";
import type { SandboxSpec } from "../core/formats/model.ts";
import { guardUndo } from "../process/watchdog.ts";
import { makeTemporaryFolder } from "../process/temporary-folder.ts";
import { checkContainer, imageOf } from "./check-container.ts";
import { checkOnce } from "./check-once.ts";
import { ConfinedProgram } from "./confined-program.ts";
import { containerArguments, containerEnvironment } from "./container-arguments.ts";
import { type ContainerRuntime, findRuntime, spawnRuntime } from "./container-runtime.ts";
import { listedMounts } from "./listed-mounts.ts";
import { removeContainer } from "./remove-container.ts";
import type { ConfinedProcess, Confinement, Sandbox } from "./sandbox.ts";
import { inMegabytes } from "./watch-limits.ts";

/**
 * Confines with a container of Docker or Podman, whose image has the program's interpreter. The engine enforces the limits:
 * memory with files in memory, and 16 threads for each process that is allowed; going over the first ends the program,
 * going over the second makes starting a process fail. Paths are those of this machine, users too. A container is removed
 * when it is stopped; should mcpvals itself be killed, it ends only if its program heeds the end of its stdin.
 */
export const container: Sandbox = {
  kind: "docker",
  check: checkOnce(async (spec, signal) => {
    imageOf(spec);
    await checkContainer(spec, await runtimeOf(spec, signal), signal);
  }),
  start: startContainer,
};

const runtimes = new Map<string, ContainerRuntime>();

/** Asks the engine once. */
async function runtimeOf(spec: SandboxSpec, signal: AbortSignal): Promise<ContainerRuntime> {
  const key = JSON.stringify(spec.runtime ?? []);
  const runtime = runtimes.get(key) ?? (await findRuntime(spec, signal));
  runtimes.set(key, runtime);
  return runtime;
}

/** How long finding the engine may take when nobody has checked it before, in milliseconds. */
const findMs = 60_000;
/** Exit code of a program that was killed. */
const killed = 137;

async function startContainer({
  process: program,
  read,
  write,
  spec,
}: Confinement): Promise<ConfinedProcess> {
  const image = imageOf(spec);
  const runtime = await runtimeOf(spec, AbortSignal.timeout(findMs));
  const { readable, writable } = await listedMounts(read, write);
  const mounts = [...readable, ...writable];
  const environment = containerEnvironment(program.env, mounts);
  refuseUnsafe(Object.keys(environment.passed));
  const name = `mcpvals-${randomUUID()}`;
  const file = await writeEnvironment(environment.file);
  const args = containerArguments({
    runtime,
    spec,
    image,
    name,
    command: await commandInside(program.command),
    process: program,
    mounts,
    environmentFile: file.path,
    passedVariables: Object.keys(environment.passed),
  });
  try {
    const child = await spawnRuntime(runtime.command, args, environment.passed);
    let stopped = false;
    let broken: string | undefined;
    const note = async (): Promise<void> => {
      const { exitCode } = await child.exited;
      if (exitCode === killed && !stopped) broken = killedText(spec);
    };
    void note();
    return new ConfinedProgram(child, {
      brokenLimit: () => broken,
      onStop: () => {
        stopped = true;
      },
      cleanUp: async () => {
        await removeContainer(runtime, name);
        await file.remove();
      },
    });
  } catch (error) {
    await file.remove();
    throw error;
  }
}

/** The engine does not say afterwards why a program was killed; memory is why it kills. */
function killedText({ memoryBytes }: SandboxSpec): string {
  return `it was killed, as it is when it uses more than the ${inMegabytes(memoryBytes)} of memory that it may use`;
}

/** Node inside is the image's own. Everything else is a file that is visible inside, or is the image's. */
async function commandInside(command: string): Promise<string> {
  return command === execPath || command === (await realpath(execPath)) ? "node" : command;
}

/** They would reach the container program itself. */
function refuseUnsafe(names: readonly string[]): void {
  const unsafe = names.find((name) =>
    /^(PATH|HOME|LD_|DYLD_|DOCKER|CONTAINER|BUILDAH|PODMAN|XDG_|GO|TMPDIR)/.test(name),
  );
  if (unsafe === undefined) return;
  throw new McpvalsError(
    "server/spawn-failed",
    `the variable ${unsafe} cannot have line breaks in a container`,
  );
}

interface EnvironmentFile {
  readonly path: string;
  readonly remove: () => Promise<void>;
}

/** Only we may read it; it goes away with the container, or with mcpvals. */
async function writeEnvironment(text: string): Promise<EnvironmentFile> {
  const folder = await makeTemporaryFolder("container");
  const path = join(folder, "env");
  const guard = guardUndo([
    { kind: "remove-file", path },
    { kind: "remove-folder", path: folder },
  ]);
  await writeFile(path, text, { mode: 0o600 });
  return {
    path,
    remove: async () => {
      await rm(folder, { recursive: true, force: true });
      guard.release();
    },
  };
}

import { type ContainerRuntime, lastLine, runRuntime } from "./container-runtime.ts";

/** Longest time that removing one may take, in milliseconds. */
const removeMs = 30_000;

/**
 * Removes a container whatever state it is in; one that is not there is fine. Never throws: what could not be removed is
 * told as a warning of this process.
 */
export async function removeContainer(runtime: ContainerRuntime, name: string): Promise<void> {
  const reason = await tryToRemove(runtime, name);
  if (reason === undefined) return;
  const again = [...runtime.command, "rm", "--force", name].join(" ");
  process.emitWarning(`a container could not be removed, so remove it yourself (${again}): ${reason}`);
}

async function tryToRemove({ command, engine }: ContainerRuntime, name: string): Promise<string | undefined> {
  try {
    // Podman would first ask the program to end, for ten seconds.
    const atOnce = engine === "podman" ? ["--time", "0"] : [];
    const args = ["rm", "--force", ...atOnce, "--volumes", name];
    const { exitCode, stderr } = await runRuntime(command, args, AbortSignal.timeout(removeMs));
    if (exitCode === 0 || /no such container|no container with name/i.test(stderr)) return undefined;
    return lastLine(stderr) ?? `exit code ${exitCode}`;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

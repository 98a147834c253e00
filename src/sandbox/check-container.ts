import { McpvalsError } from "../core/errors/error.ts";
import type { SandboxSpec } from "../core/formats/model.ts";
import { confiningArguments } from "./container-arguments.ts";
import { type ContainerRuntime, lastLine, runRuntime } from "./container-runtime.ts";

/** Longest time for fetching an image, in milliseconds. */
const pullMs = 15 * 60_000;
/** Longest time for a container that does nothing, in milliseconds. */
const runMs = 60_000;
/** Exit codes of a container that did nothing, and of one whose image has no program for that. */
const fineCodes: readonly (number | null)[] = [0, 127];

/** The image that a spec names. Throws McpvalsError `sandbox/unavailable` when it names none. */
export function imageOf({ image }: SandboxSpec): string {
  if (image !== undefined) return image;
  throw new McpvalsError("sandbox/unavailable", "the sandbox docker needs an image", {
    hint: "Write sandbox: { kind: docker, image: IMAGE }, with an image that has what runs the program, such as node:24-slim.",
  });
}

/**
 * Fetches the image unless it is here, and runs a container that does nothing, whether or not the image has a program for
 * that. Throws McpvalsError `sandbox/unavailable`, and the signal's reason.
 */
export async function checkContainer(
  spec: SandboxSpec,
  runtime: ContainerRuntime,
  signal: AbortSignal,
): Promise<void> {
  const image = imageOf(spec);
  const found = await runRuntime(runtime.command, ["image", "inspect", image], signal);
  if (found.exitCode !== 0) {
    const pulled = await runRuntime(runtime.command, ["pull", image], signal, pullMs);
    if (pulled.exitCode !== 0) throw refusal(`the image ${image} cannot be fetched`, pulled.stderr);
  }
  const confining = confiningArguments(runtime, spec);
  const args = ["run", ...runtime.runArguments, "--rm", ...confining, "--entrypoint", "true", image];
  const tried = await runRuntime(runtime.command, args, signal, runMs);
  if (!fineCodes.includes(tried.exitCode)) throw refusal("no container can be run here", tried.stderr);
}

function refusal(what: string, said: string): McpvalsError {
  return new McpvalsError("sandbox/unavailable", `${what}: ${lastLine(said) ?? "it does not say why"}`, {
    hint: "Try the image in a terminal, with docker or podman: pull it, then run it.",
  });
}

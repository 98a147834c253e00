import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { onTestFinished } from "vitest";
import { McpvalsError } from "../../../src/core/errors/error.ts";
import { createResolver } from "../../../src/extensions/resolve/resolver.ts";
import type {
  ExtensionResolver,
  ResolveMode,
  ResolverOptions,
} from "../../../src/extensions/resolve/resolver.ts";
import { platformName } from "../../../src/extensions/resolve/program.ts";
import { releasePlatform } from "../../../src/process/environment.ts";
import { type ArchiveMember, type MirrorRelease, zipOf } from "../../support/release-mirror.ts";

/** Such as `linux-amd64`. */
export const platform = platformName(releasePlatform());

export const normally: ResolveMode = { frozen: false, offline: false };

/** A folder of its own for a test. */
export async function temporaryFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "mcpvals-resolve-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  return folder;
}

/** A resolver whose cache is in a folder. */
export function resolverIn(folder: string, options: Partial<ResolverOptions> = {}): ExtensionResolver {
  return createResolver({
    cacheDir: join(folder, "cache"),
    home: folder,
    env: {},
    signal: new AbortController().signal,
    ...options,
  });
}

/** The manifest of the extensions of these tests. */
export const manifestText = `name: demo
version: 1.0.0
operations:
  greet:
    params: { type: object }
`;

/** A program that leaves a file behind when it is run. */
export function markerProgram(marker: string): string {
  return `#!/bin/sh\necho run > '${marker}'\n`;
}

/** An executable file of an archive. */
export function executable(name: string, content: string): ArchiveMember {
  return { name, content, mode: 0o100755 };
}

/** A release as those of the Go programs: a zip with a program of the same name. */
export async function upstreamRelease(
  tag: string,
  program: string,
  rest: Partial<MirrorRelease> = {},
): Promise<MirrorRelease> {
  const archive = await zipOf([executable(`demo-${platform}`, program)]);
  return { tag, files: { [`demo-${platform}.zip`]: archive, "extension.yaml": manifestText }, ...rest };
}

/** What a refusal is: its code, its message and its hint in one text. Anything else fails the test. */
export async function refusal(work: Promise<unknown>): Promise<{ code: string; text: string }> {
  const error: unknown = await work.then(
    (value) => new Error(`it was not refused: ${JSON.stringify(value)}`),
    (reason: unknown) => reason,
  );
  if (!(error instanceof McpvalsError)) throw error;
  return { code: error.code, text: `${error.message} ${error.details.hint ?? ""}` };
}

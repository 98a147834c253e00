import { mkdtemp, rm } from "node:fs/promises";
import type { ServerResponse } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished } from "vitest";
import { McpvalsError } from "../../../src/base/error.ts";
import { platformName } from "../../../src/extensions/resolve/program.ts";
import {
  createResolver,
  type ExtensionResolver,
  type ResolveMode,
  type ResolverOptions,
} from "../../../src/extensions/resolve/resolver.ts";
import { releasePlatform } from "../../../src/process/environment.ts";
import {
  type ArchiveMember,
  type MirrorRelease,
  type ReleaseMirror,
  startReleaseMirror,
  zipOf,
} from "../../support/release-mirror.ts";

/** Such as `linux-amd64`. */
export const platform = platformName(releasePlatform());

export const normally: ResolveMode = { frozen: false, offline: false };
export const fromCache: ResolveMode = { frozen: true, offline: true };

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

export interface ReleaseScene {
  readonly folder: string;
  readonly mirror: ReleaseMirror;
  /** Its cache is in the folder. */
  readonly resolver: ExtensionResolver;
  /** A resolver of the same mirror with another cache, in a folder below. */
  readonly elsewhere: (name?: string, options?: Partial<ResolverOptions>) => ExtensionResolver;
  /** Replaces all releases. */
  readonly publish: (...releases: readonly MirrorRelease[]) => void;
  /** Answers requests for addresses with this end. */
  readonly answer: (end: string, how: (response: ServerResponse) => void) => void;
}

/** A mirror with releases of `github.com/acme/demo`. */
export async function releaseScene(...releases: readonly MirrorRelease[]): Promise<ReleaseScene> {
  const folder = await temporaryFolder();
  const mirror = await startReleaseMirror({ "acme/demo": releases });
  onTestFinished(() => mirror[Symbol.asyncDispose]());
  const elsewhere: ReleaseScene["elsewhere"] = (name = "other", options = {}) =>
    resolverIn(join(folder, name), { releasesUrl: mirror.url, ...options });
  return {
    folder,
    mirror,
    resolver: elsewhere("."),
    elsewhere,
    publish: (...list) => mirror.releases.set("acme/demo", [...list]),
    answer(end, how) {
      mirror.interfere = (request, response) => {
        if (request.url?.endsWith(end) !== true) return false;
        how(response);
        return true;
      };
    },
  };
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

/** Expects a refusal with a code, such as `not-found`, and gives its message and its hint in one text, which has all of `texts`. */
export async function expectRefusal(
  work: Promise<unknown>,
  code: string,
  ...texts: readonly (string | undefined)[]
): Promise<string> {
  const error: unknown = await work.then(
    (value) => new Error(`it was not refused: ${JSON.stringify(value)}`),
    (reason: unknown) => reason,
  );
  if (!(error instanceof McpvalsError)) throw error;
  const text = `${error.message} ${error.details.hint ?? ""}`;
  expect([error.code, text]).toEqual([`extension/${code}`, text]);
  for (const each of texts) expect(text).toContain(each);
  return text;
}

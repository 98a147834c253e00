import { chmod, mkdir, readFile, rename, rm, stat, writeFile } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { maxSatisfying, parse, rcompare, valid, validRange } from "semver";
import * as z from "zod";
import { McpvalsError } from "../../base/error.ts";
import { withDeadline } from "../../process/deadline.ts";
import { findProgram, releasePlatform } from "../../process/environment.ts";
import { makeTemporaryFolder } from "../../process/folders.ts";
import { ProgramOutput } from "../../process/program-output.ts";
import { spawnProcess } from "../../process/spawn.ts";
import { archiveLimits, unsafeArchive } from "./archive.ts";
import { type FetchedFiles, listFiles, type PackageSource, type SourceContext } from "./cache.ts";
import { findUpwards, integrityError } from "./files.ts";
import { platformName, readPackage, type VersionedRef } from "./program.ts";

type NpmRef = Extract<VersionedRef, { kind: "npm" }>;

export interface NpmRun {
  /** The command with its options. */
  readonly args: readonly string[];
  /** They are never read as options. */
  readonly operands: readonly string[];
  /** Absolute folder. */
  readonly cwd: string;
  /** Complete environment; its PATH is where npm is found. */
  readonly env: Readonly<Record<string, string>>;
  readonly signal: AbortSignal;
}

/**
 * Runs npm and gives its stdout. Throws McpvalsError `extension/not-found` for what the registry does not have,
 * `extension/integrity` for files that are not what the registry says, else `extension/unreachable`.
 */
export type RunNpm = (run: NpmRun) => Promise<string>;

interface NpmContext extends SourceContext {
  /** Absolute folder of the project; absent: there is none. */
  readonly dir?: string;
  /** The user's home folder, whose `.npmrc` npm reads anyway. */
  readonly home: string;
  /** Complete environment of npm. */
  readonly env: Readonly<Record<string, string>>;
  /** Default: the user's npm. */
  readonly runNpm?: RunNpm;
}

const oneOrMany = z.union([z.string().transform((text) => [text]), z.array(z.string())]);
const packument = z.object({ versions: oneOrMany, "dist-tags": z.record(z.string(), z.string()) });
const packageVersion = z.object({
  version: z.string(),
  "dist.integrity": z.string().optional(),
  "dist.tarball": z.string(),
  time: z.record(z.string(), z.unknown()).optional(),
});
const packageLock = z.object({
  packages: z.record(
    z.string(),
    z.object({
      integrity: z.string().optional(),
      resolved: z.string().optional(),
      link: z.boolean().optional(),
      inBundle: z.boolean().optional(),
      os: z.unknown().optional(),
      cpu: z.unknown().optional(),
      libc: z.unknown().optional(),
    }),
  ),
});

/** The name of a program that does not exist. */
const noGit = "no-git-for-extensions";
const installOptions = [
  "--ignore-scripts",
  "--omit=dev",
  "--include=optional",
  "--no-bin-links",
  "--install-strategy=hoisted",
  "--no-global",
  "--package-lock",
  "--save",
  "--no-dry-run",
];
/** A registry that cannot be reached is reported soon; otherwise the user's own settings count. */
const commonOptions = [
  "--fetch-retries=1",
  "--fetch-retry-mintimeout=300",
  "--no-update-notifier",
  "--no-audit",
  "--no-fund",
];
/** Packages that belong together are published within minutes of each other, in any order. */
const togetherMs = 60 * 60_000;
const mostMs = 5 * 60_000;

/**
 * A package of npm, through the user's own npm: its settings, its cache, its checks. No script of a package is run.
 * Dependencies are resolved as of the time when the version was published, so that a version always has the same files.
 */
export function npmSource(ref: NpmRef, context: NpmContext): PackageSource {
  const { env, signal, home, onProgress, runNpm = runUserNpm } = context;

  /** Asks the registry; of several answers, the last is that of the newest version. */
  const view = async <T>(what: string, fields: readonly string[], schema: z.ZodType<T>): Promise<T> => {
    const run = { args: ["view", "--json"], operands: [what, ...fields], env, signal };
    const npmrc = projectNpmrc(context);
    // The user's settings are found from any folder, those of the project only in a folder that has them.
    const folder = npmrc === "" ? undefined : await makeTemporaryFolder("npm");
    let text: string;
    try {
      if (folder !== undefined) await writeNpmProject(folder, npmrc);
      text = await runNpm({ ...run, cwd: folder ?? home });
    } finally {
      if (folder !== undefined) await rm(folder, { recursive: true, force: true });
    }
    try {
      const answer: unknown = JSON.parse(text);
      return schema.parse(Array.isArray(answer) ? answer.at(-1) : answer);
    } catch (cause) {
      const message = `the answer of npm view ${what} is not understood`;
      throw new McpvalsError("extension/unreachable", message, { cause });
    }
  };

  const fetchFiles = async (
    folder: string,
    { version, hash, published }: { version: string; hash: string; published: unknown },
  ): Promise<FetchedFiles> => {
    const shown = `${ref.name} ${version}`;
    onProgress(`fetching ${shown} with npm`);
    const place = join(dirname(folder), "npm");
    await mkdir(place);
    await writeNpmProject(place, projectNpmrc(context));
    const time = Date.parse(typeof published === "string" ? published : "");
    const before = Number.isNaN(time) ? [] : [`--before=${new Date(time + togetherMs).toISOString()}`];
    // Even without scripts, the settings of a repository that a package depends on could name a program to run as git.
    const git = `--git=${join(place, noGit)}`;
    const args = ["install", "--prefix", place, ...installOptions, git, ...before];
    const operands = [`${ref.package}@${version}`];
    await runNpm({ args, operands, cwd: place, env, signal }).catch((error: unknown) => {
      const needsGit = error instanceof McpvalsError && error.details.detail?.includes(noGit) === true;
      if (!needsGit) throw error;
      throw unsafeArchive(shown, "depends on a repository, which no registry vouches for", error);
    });
    const text = await readFile(join(place, "package-lock.json"), "utf8");
    const { packages } = packageLock.parse(JSON.parse(text));
    const found = packages[`node_modules/${ref.package}`]?.integrity ?? "nothing";
    if (!found.split(/\s+/).includes(hash)) {
      const hint = "Somebody changed it on the registry. Do not use it before you know why.";
      throw integrityError({ file: shown, expected: hash, found, hint });
    }
    checkDependencies(packages, shown);
    await rename(join(place, "node_modules"), join(folder, "node_modules"));
    await rm(place, { recursive: true, force: true });
    await rm(join(folder, "node_modules", ".package-lock.json"), { force: true });
    const { program } = await readPackage(ref, { name: "", folder, files: [], shown });
    await checkFiles(folder, program, shown);
    const isForPlatform = Object.values(packages).some(({ os, cpu, libc }) => os ?? cpu ?? libc);
    return {
      platform: isForPlatform ? platformName(releasePlatform()) : "any",
      executables: new Set([program]),
    };
  };

  return {
    async newest() {
      const found = await view(ref.package, ["versions", "dist-tags"], packument);
      const version = chooseVersion(ref.version, found);
      if (version !== undefined) return version;
      throw new McpvalsError("extension/not-found", `${ref.name} has no version ${ref.version}.`, {
        hint: `It has ${found.versions.slice(-20).join(", ")}.`,
      });
    },
    async offer(wanted) {
      // npm also takes addresses, files and repositories for a version.
      if (validRange(wanted) === null && !/^[A-Za-z][\w-]*$/.test(wanted)) throw invalidVersion(ref, wanted);
      const fields = ["version", "dist.integrity", "dist.tarball", "time"];
      const found = await view(`${ref.package}@${wanted}`, fields, packageVersion);
      const { version } = found;
      if (valid(version) === null) throw invalidVersion(ref, version);
      const hash = found["dist.integrity"]
        ?.split(/\s+/)
        .find((each) => /^sha512-[A-Za-z0-9+/]{86}==$/.test(each));
      if (hash === undefined) {
        const message = `the registry has no SHA-512 of ${ref.name} ${wanted}, so its files cannot be verified. Nothing of it was fetched.`;
        throw new McpvalsError("extension/integrity", message, {
          hint: "Use a newer version, or another registry.",
        });
      }
      const file = URL.parse(found["dist.tarball"])?.pathname.split("/").at(-1) ?? "";
      const name = file === "" ? `${ref.package.replace("/", "-")}-${version}.tgz` : file;
      const published = found.time?.[version];
      return { version, name, hash, fetch: (folder) => fetchFiles(folder, { version, hash, published }) };
    },
  };
}

/** As npm chooses: a tag, an exact version, or the newest in a range, where the latest release comes first. */
export function chooseVersion(
  wanted: string,
  { versions, "dist-tags": tags }: z.output<typeof packument>,
): string | undefined {
  if (Object.hasOwn(tags, wanted)) return tags[wanted];
  if (wanted === "latest") {
    return versions.filter((version) => parse(version)?.prerelease.length === 0).sort(rcompare)[0];
  }
  if (validRange(wanted) === null) return undefined;
  return maxSatisfying([tags["latest"] ?? ""], wanted) ?? maxSatisfying(versions, wanted) ?? undefined;
}

function invalidVersion(ref: NpmRef, version: string): McpvalsError {
  return new McpvalsError("extension/not-found", `${ref.name} has no version ${JSON.stringify(version)}.`, {
    hint: "Versions of npm are written as 1.2.3.",
  });
}

/** Dependencies must come from the registry, or be bundled: anything else could change. */
function checkDependencies(packages: z.output<typeof packageLock>["packages"], shown: string): void {
  for (const [path, { integrity, link, inBundle, resolved }] of Object.entries(packages)) {
    if (path === "" || (link !== true && (integrity !== undefined || inBundle === true))) continue;
    const from = resolved === undefined ? "" : ` (${resolved})`;
    throw unsafeArchive(shown, `depends on ${path}${from}, which no registry vouches for`);
  }
}

/** Checks the limits of archives. Only the program keeps its executable bit. */
async function checkFiles(folder: string, program: string, shown: string): Promise<void> {
  const paths = await listFiles(folder);
  if (paths.length > archiveLimits.files)
    throw unsafeArchive(shown, `has more than ${archiveLimits.files} files`);
  let bytes = 0;
  for (const path of paths) {
    bytes += (await stat(join(folder, path))).size;
    if (bytes > archiveLimits.bytes) throw unsafeArchive(shown, "unpacks to more than 1024 MB");
    await chmod(join(folder, path), path === program ? 0o755 : 0o644);
  }
}

const runUserNpm: RunNpm = async ({ args, operands, cwd, env, signal }) => {
  const command = await findProgram("npm", { env, cwd });
  if (command === undefined) {
    const message = "npm was not found on PATH, and packages of npm: come through it.";
    throw new McpvalsError("extension/unreachable", message, {
      hint: "Install npm, which comes with Node, or use a path to the extension.",
    });
  }
  const all = [...args, ...commonOptions, "--", ...operands];
  const child = await spawnProcess({ command, args: all, env, cwd });
  const shown = `npm ${args[0]} ${operands[0]}`;
  const output = new ProgramOutput();
  output.attach(child);
  child.stdin.end();
  try {
    const onTimeout = (): Error => failure(shown, "it did not end within 5 minutes", output.stderr.text);
    const { exitCode } = await withDeadline(() => child.exited, { ms: mostMs, signal, onTimeout });
    await output.settle(1000);
    output.stop();
    if (exitCode === 0) return output.stdout.text;
    throw refusal(shown, output.stdout.text, output.stderr.text.trim());
  } finally {
    await child.stop({ stdinMs: 0 });
  }
};

function refusal(shown: string, stdout: string, detail: string): McpvalsError {
  const written = `${detail}\n${stdout}`;
  const [code] = /\b(?:E404|ETARGET|ENOVERSIONS|EINTEGRITY)\b/.exec(written) ?? [];
  if (code === undefined) return failure(shown, "it failed", detail);
  if (code !== "EINTEGRITY") {
    const message = `${shown}: the registry has no such package or version.`;
    return new McpvalsError("extension/not-found", message, { detail });
  }
  const [, sums = "its checksum differs"] = /(wanted \S+ but got \S+?)\.?(?:\s|$)/.exec(written) ?? [];
  const message = `npm got a file that is not what the registry says: ${sums}. Nothing of it was run.`;
  return new McpvalsError("extension/integrity", message, {
    detail,
    hint: "It was damaged on the way, or somebody changed it. Do not use that version before you know why.",
  });
}

function failure(shown: string, what: string, stderr: string): McpvalsError {
  const detail = stderr.trim().slice(-4096);
  return new McpvalsError("extension/unreachable", `${shown}: ${what}.`, {
    ...(detail === "" ? {} : { detail }),
    hint: "Try the same command yourself; npm's own settings name the registry. Once it is cached and locked, no network is needed.",
  });
}

/**
 * The lines of a project's `.npmrc` that name registries, of all packages or of a scope, and credentials for them: a private
 * package must not be looked for on the public registry, where anybody could have taken its name. All other settings, such
 * as programs to run and certificates to trust, are ignored, since a project is not trusted with them. The nearest file
 * counts, from its folder upwards to the top of its repository; the result is empty without one. Throws McpvalsError
 * `config/unreadable`, and `config/foreign-owner` for a file of another user than this one and the owner of the folder.
 */
export function projectNpmrc({ dir, home }: Pick<NpmContext, "dir" | "home">): string {
  if (dir === undefined) return "";
  const { text = "" } = findUpwards(".npmrc", resolve(dir), { code: "config/unreadable", home }) ?? {};
  const wanted = /^\s*(?:(?:@[\w.~-]+:)?registry|\/\/[^\s=]+:(?:_authToken|_auth|username|_password))\s*=/;
  const lines = text.split(/\r?\n/).filter((line) => wanted.test(line));
  return lines.map((line) => `${line.trim()}\n`).join("");
}

async function writeNpmProject(folder: string, npmrc: string): Promise<void> {
  await writeFile(join(folder, "package.json"), `{"private":true}\n`);
  if (npmrc !== "") await writeFile(join(folder, ".npmrc"), npmrc, { mode: 0o600 });
}

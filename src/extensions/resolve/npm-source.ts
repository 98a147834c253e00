import { chmod, mkdir, readFile, rename, rm, stat, writeFile } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { maxSatisfying, parse, rcompare, valid, validRange } from "semver";
import * as z from "zod";
import { McpvalsError } from "../../core/errors/error.ts";
import type { PackageRef } from "../../core/formats/extension/package-ref.ts";
import { withDeadline } from "../../process/deadline.ts";
import { findProgram, releasePlatform } from "../../process/environment.ts";
import { ProgramOutput } from "../../process/program-output.ts";
import { spawnProcess } from "../../process/spawn.ts";
import { makeTemporaryFolder } from "../../process/folders.ts";
import { archiveLimits, unsafeArchive } from "./archive.ts";
import { packageProgram, platformName, type ProgramWithManifest, readManifest } from "./program.ts";
import { findUpwards, integrityError } from "./files.ts";
import type { FetchedFiles, Offer, RunNpm, SourceContext, VersionedSource } from "./extension-resolver.ts";
import { listFiles } from "./cache.ts";

type NpmRef = Extract<PackageRef, { kind: "npm" }>;

export interface NpmContext extends SourceContext, ProjectPlace {
  /** Complete environment of npm. */
  readonly env: Readonly<Record<string, string>>;
  /** Default: the user's npm. */
  readonly runNpm?: RunNpm;
}

/**
 * A package of npm, through the user's own npm: its settings, its cache, its checks. No script of a package is run.
 * Dependencies are resolved as of the time when the version was published, so that a version always has the same files.
 */
export function npmSource(ref: NpmRef, context: NpmContext): VersionedSource {
  return { newest: () => newest(ref, context), offer: (version) => offer(ref, version, context) };
}

/** The program of an installed package, as a path in its folder, and its manifest. */
export async function readNpmPackage(
  ref: NpmRef,
  folder: string,
  shown: string,
): Promise<ProgramWithManifest> {
  const home = `node_modules/${ref.package}`;
  const manifest = await readManifest(join(folder, home), shown);
  const program = packageProgram(join(folder, home), shown) ?? manifest?.program;
  if (program !== undefined) return { program: `${home}/${program}`, manifest };
  throw new McpvalsError("extension/not-found", `${shown} has no program: its package.json has no bin.`, {
    hint: "Its author has to name the program in bin of package.json.",
  });
}

const oneOrMany = z.union([z.string().transform((text) => [text]), z.array(z.string())]);
const packument = z.object({ versions: oneOrMany, "dist-tags": z.record(z.string(), z.string()) });
const packageVersion = z.object({
  version: z.string(),
  "dist.integrity": z.string().optional(),
  "dist.tarball": z.string(),
  time: z.record(z.string(), z.unknown()).optional(),
});
const lock = z.object({
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

async function newest(ref: NpmRef, context: NpmContext): Promise<string> {
  const fields = ["versions", "dist-tags"];
  const found = await view(ref.package, fields, packument, context);
  const version = chooseVersion(ref.version, found);
  if (version !== undefined) return version;
  throw new McpvalsError("extension/not-found", `${ref.name} has no version ${ref.version}.`, {
    hint: `It has ${found.versions.slice(-20).join(", ")}.`,
  });
}

/** As npm chooses: a tag, an exact version, or the newest in a range, where the latest release comes first. */
export function chooseVersion(
  wanted: string,
  { versions, "dist-tags": tags }: z.output<typeof packument>,
): string | undefined {
  const tagged = Object.hasOwn(tags, wanted) ? tags[wanted] : undefined;
  if (tagged !== undefined) return tagged;
  if (wanted === "latest") {
    return versions.filter((version) => parse(version)?.prerelease.length === 0).sort(rcompare)[0];
  }
  if (validRange(wanted) === null) return undefined;
  const latest = tags["latest"];
  return (
    maxSatisfying(latest === undefined ? [] : [latest], wanted) ??
    maxSatisfying(versions, wanted) ??
    undefined
  );
}

async function offer(ref: NpmRef, version: string, context: NpmContext): Promise<Offer> {
  if (!isRegistryVersion(version)) throw invalidVersion(ref, version);
  const fields = ["version", "dist.integrity", "dist.tarball", "time"];
  const found = await view(`${ref.package}@${version}`, fields, packageVersion, context);
  if (valid(found.version) === null) throw invalidVersion(ref, found.version);
  const hash = found["dist.integrity"]
    ?.split(/\s+/)
    .find((each) => /^sha512-[A-Za-z0-9+/]{86}==$/.test(each));
  if (hash === undefined) {
    const message = `the registry has no SHA-512 of ${ref.name} ${version}, so its files cannot be verified. Nothing of it was fetched.`;
    throw new McpvalsError("extension/integrity", message, {
      hint: "Use a newer version, or another registry.",
    });
  }
  const time = found.time?.[found.version];
  const published = typeof time === "string" ? time : undefined;
  const file = URL.parse(found["dist.tarball"])?.pathname.split("/").at(-1) ?? "";
  const name = file === "" ? `${ref.package.replace("/", "-")}-${found.version}.tgz` : file;
  const chosen = { version: found.version, hash, published };
  return { version: found.version, name, hash, fetch: (folder) => fetchFiles(ref, chosen, context, folder) };
}

/** A version, a range or a tag; npm also takes addresses, files and repositories for one. */
function isRegistryVersion(text: string): boolean {
  return validRange(text) !== null || /^[A-Za-z][\w-]*$/.test(text);
}

function invalidVersion(ref: NpmRef, version: string): McpvalsError {
  return new McpvalsError("extension/not-found", `${ref.name} has no version ${JSON.stringify(version)}.`, {
    hint: "Versions of npm are written as 1.2.3.",
  });
}

/** Asks the registry; of several answers, the last is that of the newest version. */
async function view<T>(
  what: string,
  fields: readonly string[],
  schema: z.ZodType<T>,
  context: NpmContext,
): Promise<T> {
  const { env, signal, home, runNpm = runUserNpm } = context;
  const text = await withNpmrc(projectNpmrc(context), home, (cwd) =>
    runNpm({ args: ["view", "--json"], operands: [what, ...fields], env, cwd, signal }),
  );
  try {
    const answer: unknown = JSON.parse(text);
    return schema.parse(Array.isArray(answer) ? answer.at(-1) : answer);
  } catch (cause) {
    const message = `the answer of npm view ${what} is not understood`;
    throw new McpvalsError("extension/unreachable", message, { cause });
  }
}

interface Chosen {
  readonly version: string;
  readonly hash: string;
  readonly published: string | undefined;
}

async function fetchFiles(
  ref: NpmRef,
  { version, hash, published }: Chosen,
  context: NpmContext,
  folder: string,
): Promise<FetchedFiles> {
  const { onProgress, env, signal, runNpm = runUserNpm } = context;
  const shown = `${ref.name} ${version}`;
  onProgress(`fetching ${shown} with npm`);
  const place = join(dirname(folder), "npm");
  await mkdir(place);
  await writeNpmProject(place, projectNpmrc(context));
  const args = [
    "install",
    "--prefix",
    place,
    ...installOptions,
    // Even without scripts, the settings of a repository that a package depends on could name a program to run as git.
    `--git=${join(place, noGit)}`,
    ...before(published),
  ];
  const operands = [`${ref.package}@${version}`];
  await runNpm({ args, operands, cwd: place, env, signal }).catch((error: unknown) => {
    const needsGit = error instanceof McpvalsError && error.details.detail?.includes(noGit) === true;
    throw needsGit
      ? unsafeArchive(shown, "depends on a repository, which no registry vouches for", error)
      : error;
  });
  const { packages } = lock.parse(JSON.parse(await readFile(join(place, "package-lock.json"), "utf8")));
  const found = packages[`node_modules/${ref.package}`]?.integrity ?? "nothing";
  if (!found.split(/\s+/).includes(hash)) {
    const hint = "Somebody changed it on the registry. Do not use it before you know why.";
    throw integrityError({ file: shown, expected: hash, found, hint });
  }
  checkDependencies(packages, shown);
  await rename(join(place, "node_modules"), join(folder, "node_modules"));
  await rm(place, { recursive: true, force: true });
  await rm(join(folder, "node_modules", ".package-lock.json"), { force: true });
  const { program } = await readNpmPackage(ref, folder, shown);
  await checkFiles(folder, program, shown);
  const isForPlatform = Object.values(packages).some(({ os, cpu, libc }) => os ?? cpu ?? libc);
  return {
    platform: isForPlatform ? platformName(releasePlatform()) : "any",
    executables: new Set([program]),
  };
}

/** Dependencies must come from the registry, or be bundled: anything else could change. */
function checkDependencies(packages: z.output<typeof lock>["packages"], shown: string): void {
  const others = Object.entries(packages).filter(
    ([path, { integrity, link, inBundle }]) =>
      path !== "" && (link === true || (integrity === undefined && inBundle !== true)),
  );
  const [path, { resolved }] = others[0] ?? ["", {}];
  if (path === "") return;
  const from = resolved === undefined ? "" : ` (${resolved})`;
  throw unsafeArchive(shown, `depends on ${path}${from}, which no registry vouches for`);
}

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

/** Packages that belong together are published within minutes of each other, in any order. */
const togetherMs = 60 * 60_000;

function before(published: string | undefined): readonly string[] {
  const time = Date.parse(published ?? "");
  return Number.isNaN(time) ? [] : [`--before=${new Date(time + togetherMs).toISOString()}`];
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

const mostMs = 5 * 60_000;
/** A registry that cannot be reached is reported soon; otherwise the user's own settings count. */
const commonOptions = [
  "--fetch-retries=1",
  "--fetch-retry-mintimeout=300",
  "--no-update-notifier",
  "--no-audit",
  "--no-fund",
];

const runUserNpm: RunNpm = async ({ args, operands, cwd, env, signal }) => {
  const command = await findProgram("npm", { env, cwd });
  if (command === undefined) {
    const message = "npm was not found on PATH, and packages of npm: come through it.";
    throw new McpvalsError("extension/unreachable", message, {
      hint: "Install npm, which comes with Node, or use a path to the extension.",
    });
  }
  const child = await spawnProcess({
    command,
    args: [...args, ...commonOptions, "--", ...operands],
    env,
    cwd,
  });
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
    throw refusal(shown, output);
  } finally {
    await child.stop({ stdinMs: 0 });
  }
};

function refusal(shown: string, output: ProgramOutput): McpvalsError {
  const written = `${output.stderr.text}\n${output.stdout.text}`;
  const [code] = /\b(?:E404|ETARGET|ENOVERSIONS|EINTEGRITY)\b/.exec(written) ?? [];
  const detail = output.stderr.text.trim();
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

export interface ProjectPlace {
  /** Absolute folder of the project; absent: there is none. */
  readonly dir?: string;
  /** The user's home folder, whose `.npmrc` npm reads anyway. */
  readonly home: string;
}

/**
 * The lines of a project's `.npmrc` that name registries, of all packages or of a scope, and credentials for them: a private
 * package must not be looked for on the public registry, where anybody could have taken its name. All other settings, such
 * as programs to run and certificates to trust, are ignored, since a project is not trusted with them. The nearest file
 * counts, from its folder upwards to the top of its repository; the result is empty without one. Throws McpvalsError
 * `config/unreadable`, and `config/foreign-owner` for a file of another user than this one and the owner of the folder.
 */
export function projectNpmrc({ dir, home }: ProjectPlace): string {
  if (dir === undefined) return "";
  const { text = "" } = findUpwards(".npmrc", resolve(dir), { code: "config/unreadable", home }) ?? {};
  const wanted = /^\s*(?:(?:@[\w.~-]+:)?registry|\/\/[^\s=]+:(?:_authToken|_auth|username|_password))\s*=/;
  const lines = text.split(/\r?\n/).filter((line) => wanted.test(line));
  return lines.map((line) => `${line.trim()}\n`).join("");
}

/** Calls `work` with a folder in which npm finds settings: the home folder when there are none, else a temporary one. */
async function withNpmrc<T>(npmrc: string, home: string, work: (folder: string) => Promise<T>): Promise<T> {
  if (npmrc === "") return work(home);
  const folder = await makeTemporaryFolder("npm");
  try {
    await writeNpmProject(folder, npmrc);
    return await work(folder);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** Makes a folder a project of npm, with settings. */
async function writeNpmProject(folder: string, npmrc: string): Promise<void> {
  await writeFile(join(folder, "package.json"), `{"private":true}\n`);
  if (npmrc !== "") await writeFile(join(folder, ".npmrc"), npmrc, { mode: 0o600 });
}

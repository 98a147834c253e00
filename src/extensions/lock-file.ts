import { stringify } from "yaml";
import * as z from "zod";
import { closedObject, filledText } from "../model/fields.ts";
import { type Exact, exact, isJsonObject, type Json } from "../base/json.ts";
import { maxProblems, type ParseResult, type Problem, problem, validate } from "../base/problem.ts";
import { readJson } from "../base/read-json.ts";
import { problemsOfIssues } from "../model/zod-problems.ts";

const sha256 = z.string().regex(/^sha256:[0-9a-f]{64}$/, {
  error: "must be sha256: and 64 hexadecimal digits",
});

const lockedFile = closedObject({
  /** Name of the file that was fetched. */
  name: filledText,
  /** `sha256:HEX` of that file. */
  hash: sha256,
  /** `sha256:HEX` over all unpacked files with their names and executable bits. */
  tree: sha256,
});

const lockedExtension = closedObject({
  /** The package without a version. */
  package: filledText,
  /** The version that was chosen: a release's tag. */
  version: filledText,
  /** Of the release's file of checksums; absent where it has none. */
  checksums: sha256.optional(),
  /** By platform, such as `linux-amd64`; `any` for what runs everywhere. */
  files: z.record(filledText, lockedFile),
});

const lockSchema = closedObject({
  version: z.literal(1),
  /** By package as it is written, version included. Only releases are in it. */
  extensions: z.record(filledText, lockedExtension),
});

/** `mcp-eval.lock`: which version of each package a run uses, and what its files must be. */
export type LockFile = Exact<z.output<typeof lockSchema>>;
export type LockedExtension = Exact<z.output<typeof lockedExtension>>;
export type LockedFile = Exact<z.output<typeof lockedFile>>;

export type ParsedLock = ParseResult<{ readonly lock: LockFile }, { readonly problems: readonly Problem[] }>;

/** Reads the document of a lock file, strictly, without entries of npm packages, which older versions wrote. All problems have the code `extension/invalid-lock`. */
export function parseLock(document: unknown): ParsedLock {
  const problems: Problem[] = [];
  const json = readJson(document, { subject: "the lock", problems, text: (text) => text });
  if (problems.length > 0) return refusal(problems);
  if (isJsonObject(json) && json["version"] !== undefined && json["version"] !== 1) {
    const message = "version must be 1: another version of mcpvals wrote this lock";
    return refusal([problem(["version"], message)]);
  }
  const { data, issues } = validate(lockSchema, withoutNpm(json));
  if (data === undefined) return refusal(problemsOfIssues(issues.slice(0, maxProblems), json));
  return { ok: true, lock: exact(data) };
}

function withoutNpm(lock: Json): Json {
  if (!isJsonObject(lock) || !isJsonObject(lock["extensions"])) return lock;
  const entries = Object.entries(lock["extensions"]).filter(([written]) => !written.startsWith("npm:"));
  return { ...lock, extensions: Object.fromEntries(entries) };
}

function refusal(problems: readonly Problem[]): ParsedLock {
  const ours = problems.map((found): Problem => {
    const message = found.message.replace(/^the config /, "the lock ");
    return { ...found, code: "extension/invalid-lock", message };
  });
  return { ok: false, problems: ours };
}

/** Writes a lock file as YAML, sorted, so that the same lock is always the same text. */
export function formatLock({ version, extensions }: LockFile): string {
  const document = { version, extensions: sorted(extensions, entry) };
  return `${heading}\n${stringify(document, { lineWidth: 0, aliasDuplicateObjects: false })}`;
}

const heading = `# Which version of each extension is used, and what its files must be. Written by mcpvals; commit it.`;

function entry({ package: from, version, checksums, files }: LockedExtension): object {
  const named = sorted(files, ({ name, hash, tree }) => ({ name, hash, tree }));
  return { package: from, version, ...(checksums === undefined ? {} : { checksums }), files: named };
}

function sorted<T>(members: Readonly<Record<string, T>>, write: (member: T) => object): object {
  const entries = Object.entries(members).toSorted(([a], [b]) => (a < b ? -1 : 1));
  return Object.fromEntries(entries.map(([key, member]) => [key, write(member)]));
}

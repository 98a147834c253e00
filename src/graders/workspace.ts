import * as z from "zod";
import { McpvalsError } from "../base/error.ts";
import { closedObject, filledText, optional, patternText } from "../model/fields.ts";
import { compilePattern } from "../templates/pattern.ts";
import { shortened } from "../base/visible-text.ts";
import { type EventOf, eventsOf, type FileContent, type WorkspaceFile } from "../model/event.ts";
import type { Trajectory } from "../trace/trajectory.ts";
import {
  checksGrade,
  type GraderCheck,
  declaredKind,
  type KindContext,
  listed,
  nothingDone,
  skip,
} from "./grader.ts";
import { hasLooked } from "./verify-steps.ts";

/** A path in the workspace; by its shape it stays inside. */
export const workspacePath = filledText.refine(
  (path) => !/^[/\\]|^[A-Za-z]:/.test(path) && !path.split(/[/\\]/).includes(".."),
  { error: "must be a path inside the workspace, relative to it" },
);

type Recorded = EventOf<"workspace.files">;

/** The recorded files of a path or glob. Throws for one that was not recorded. */
export function recordedFiles({ events }: Trajectory, name: string): Recorded {
  const found = eventsOf(events, "workspace.files").findLast((event) => event.name === name);
  if (found !== undefined) return found;
  throw new Error(
    events.some(({ type }) => type === "workspace.created")
      ? `the files of ${JSON.stringify(name)} were not recorded`
      : "the trial had no workspace: only those of tasks and of agent programs have one",
  );
}

/** Why nothing at a path or glob counts as a file; undefined: something does. */
function whyAbsent({ name, files, incomplete }: Recorded): string | undefined {
  if (files.some(isThere)) return undefined;
  const [found] = files;
  if (found?.kind === "link") return `${found.path} is a link that leads to nothing in the workspace`;
  if (found !== undefined) return `${found.path} is neither a readable file nor a folder`;
  return `${name} is not there${incomplete === undefined ? "" : `, as far as it is known: ${incomplete}`}`;
}

function isThere({ kind }: WorkspaceFile): boolean {
  return kind === "file" || kind === "folder";
}

/** The text of a file, or why it is not known. */
export function textOf({ path, kind, size = 0, text }: WorkspaceFile): { text: string } | { why: string } {
  if (text !== undefined) return { text };
  if (kind !== "file") return { why: `${path} is not a readable file` };
  return { why: `${path} (${size} bytes) is too large to be read, or not UTF-8 text` };
}

const paths = z.array(workspacePath).default([]);
const patterns = z.array(patternText).default([]);

const contentPattern = z.lazy(() =>
  closedObject({
    path: workspacePath.describe("Path or glob; the patterns are looked for in each file that fits."),
    must_match: patterns.describe("Regular expressions (RE2) that must be found anywhere in the file."),
    must_not_match: patterns.describe(
      "Regular expressions (RE2) that must not be found anywhere in the file.",
    ),
  }).refine((each) => each.must_match.length + each.must_not_match.length > 0, {
    error: "must have must_match or must_not_match",
  }),
);

const fileSettings = z.lazy(() =>
  closedObject({
    must_exist: paths.describe("Paths and globs at which there must be a file or a folder."),
    must_not_exist: paths.describe("Paths and globs at which nothing may be."),
    content_patterns: z
      .array(contentPattern)
      .default([])
      .describe("Patterns for the content of files, which must exist."),
  }).refine((all) => Object.values(all).some((list) => list.length > 0), {
    error: "must have must_exist, must_not_exist or content_patterns",
  }),
);

type FileCheck = GraderCheck & {
  /** Whether a file that exists shows it. */
  readonly isShown: boolean;
  /** Why it is not known whether it holds. */
  readonly unknown?: string | undefined;
};

/** Did the agent leave the right files? Score = checks that hold / checks that are made. */
export const file = declaredKind({
  type: "file",
  description:
    "Files that must or must not be in the workspace after the verify steps, and patterns for their content. All must hold. A file that is missing fails its patterns too, also those that must not be found.",
  config: fileSettings,
  example: {
    must_exist: ["report.md"],
    must_not_exist: ["**/*.tmp"],
    content_patterns: [{ path: "report.md", must_match: ["(?m)^# "], must_not_match: ["TODO"] }],
  },
  workspaceFiles: ({ must_exist, must_not_exist, content_patterns }) => [
    ...must_exist,
    ...must_not_exist,
    ...content_patterns.map(({ path }) => path),
  ],
  grade(wanted, trajectory) {
    if (trajectory.agentStarted === undefined) return skip("no agent took part");
    const recorded = (name: string) => recordedFiles(trajectory, name);
    const checks = [
      ...wanted.must_exist.map((name) => existence(recorded(name))),
      ...wanted.must_not_exist.map((name) => absence(recorded(name))),
      ...wanted.content_patterns.flatMap((each) => contentChecks(each, recorded(each.path))),
    ];
    const unknown = checks.find((check) => check.unknown !== undefined)?.unknown;
    if (unknown !== undefined && checks.every((check) => check.passed || check.unknown !== undefined))
      throw new McpvalsError("grader/cannot-run", `the workspace is not known: ${unknown}`, {
        hint: "Name the files that count, or make them readable in a verify step.",
      });
    const nothing = nothingLeft(trajectory, checks);
    return nothing === undefined ? checksGrade(checks, trajectory) : skip(nothing);
  },
});

/**
 * Why passed checks are no evidence of what the agent did; undefined: they are, or one failed. A program may work without a message
 * or a call, so that only its files show it. Any other agent has only the tools of servers.
 */
function nothingLeft(trajectory: Trajectory, checks: readonly FileCheck[]): string | undefined {
  const isEmpty = checks.every(({ passed, isShown }) => passed && !(isShown && isProgram(trajectory)));
  return isEmpty ? nothingDone(trajectory) : undefined;
}

function isProgram({ events }: Trajectory): boolean {
  const { kind = "command" } = eventsOf(events, "agent.started")[0] ?? {};
  return kind === "command" || kind === "acp";
}

/**
 * Why a trial has nothing that the user's own code could judge; undefined: it has. A program may work without a message or a call;
 * then files in the workspace and the checks of verify steps can be judged.
 */
export function nothingToJudge(trajectory: Trajectory): string | undefined {
  const nothing = nothingDone(trajectory);
  const { agentStarted, events } = trajectory;
  if (nothing === undefined || agentStarted === undefined || !isProgram(trajectory)) return nothing;
  const isLeft = eventsOf(events, "workspace.files").some(({ files }) => files.some(isThere));
  return isLeft || hasLooked(trajectory) ? undefined : nothing;
}

function existence(recorded: Recorded): FileCheck {
  const why = whyAbsent(recorded);
  const passed = why === undefined;
  const { name, files, incomplete, seq } = recorded;
  const unknown = passed || files.length > 0 ? undefined : incomplete;
  return { passed, reason: why ?? `${name} is there`, evidence: [seq], isShown: passed, unknown };
}

function absence({ name, files, incomplete, seq }: Recorded): FileCheck {
  const passed = files.length === 0 && incomplete === undefined;
  const found = files.map(({ path }) => path);
  const reason =
    found.length === 0
      ? `${name} is not there${passed ? "" : `, as far as it is known: ${incomplete}`}`
      : `${listed(found, 5)} ${found.length === 1 ? "is" : "are"} there`;
  const unknown = found.length === 0 ? incomplete : undefined;
  return { passed, reason, evidence: [seq], isShown: false, unknown };
}

/** One check for the existence, and one for each pattern in all files that fit. */
function contentChecks(
  { must_match, must_not_match }: z.output<typeof contentPattern>,
  recorded: Recorded,
): readonly FileCheck[] {
  const exists = existence(recorded);
  const wanted = [
    ...must_match.map((pattern) => ({ pattern, isWanted: true })),
    ...must_not_match.map((pattern) => ({ pattern, isWanted: false })),
  ];
  return [
    exists,
    ...wanted.map(({ pattern, isWanted }): FileCheck => {
      const why = exists.passed
        ? whyContentIsWrong(recorded, pattern, isWanted)
        : `/${pattern}/ was not looked for`;
      const right = `${recorded.name} ${isWanted ? "contains" : "does not contain"} /${pattern}/`;
      return {
        passed: why === undefined,
        reason: why ?? right,
        evidence: [recorded.seq],
        isShown: why === undefined,
        unknown: why === recorded.incomplete ? why : undefined,
      };
    }),
  ];
}

function whyContentIsWrong(
  { files, incomplete }: Recorded,
  pattern: string,
  isWanted: boolean,
): string | undefined {
  const sought = compilePattern(pattern);
  for (const each of files.filter(isThere)) {
    const content = textOf(each);
    if ("why" in content) return content.why;
    if (sought.test(content.text) !== isWanted)
      return `${each.path} ${isWanted ? "does not contain" : "contains"} /${pattern}/`;
  }
  return incomplete;
}

const fragment = filledText.refine((text) => wantedText(text).text !== "", {
  error: "must have a text besides its sign",
});

const expectedFile = z.lazy(() =>
  closedObject({
    path: workspacePath.describe("Path of the file in the workspace, not a glob."),
    snapshot: optional(filledText, "File with the same bytes, relative to `context_dir`."),
    contains: z
      .array(fragment)
      .default([])
      .describe(
        "Texts that it must contain; after a `-` one that it must not contain. A `+` before a text is left out, so that `+- a` looks for `- a`. White space at the ends does not count.",
      ),
  }).refine(({ snapshot, contains }) => snapshot !== undefined || contains.length > 0, {
    error: "must have snapshot or contains",
  }),
);

const diffSettings = z.lazy(() =>
  closedObject({
    expected_files: z.array(expectedFile).min(1).describe("Files and what they must be."),
    context_dir: optional(
      filledText,
      "Folder of the snapshots, relative to the file that declares the grader.",
      "the folder of that file",
    ),
  }),
);

type Diff = z.output<typeof diffSettings>;

/** Are the files that the agent left as they should be? Score = checks that hold / checks that are made. */
export const diff = declaredKind({
  type: "diff",
  description:
    "Files of the workspace that must exist after the verify steps, and be equal to a snapshot, byte by byte, or contain some texts. All must hold.",
  config: diffSettings,
  example: {
    expected_files: [{ path: "src/main.py", contains: ["+import logging", "-print("] }],
  },
  files: (wanted) =>
    wanted.expected_files.flatMap(({ snapshot }, index) =>
      snapshot === undefined
        ? []
        : [{ path: ["expected_files", index, "snapshot"], file: snapshotFile(wanted, snapshot) }],
    ),
  workspaceFiles: ({ expected_files }) => expected_files.map(({ path }) => path),
  async grade(wanted, trajectory, context) {
    if (trajectory.agentStarted === undefined) return skip("no agent took part");
    const checks = await Promise.all(
      wanted.expected_files.map(async ({ path, snapshot, contains }) => {
        const recorded = recordedFiles(trajectory, path);
        const why = whyAbsent(recorded);
        const exists = { passed: why === undefined, reason: why ?? `${path} is there` };
        const [found] = recorded.files;
        const others = [
          ...(snapshot === undefined ? [] : [await snapshotCheck(found, snapshot, wanted, context)]),
          ...contains.map((text) => fragmentCheck(found, text)),
        ];
        return [exists, ...others].map((each): GraderCheck => ({ ...each, evidence: [recorded.seq] }));
      }),
    );
    const all = checks.flat().map((each) => ({ ...each, isShown: each.passed }));
    const nothing = nothingLeft(trajectory, all);
    return nothing === undefined ? checksGrade(all, trajectory) : skip(nothing);
  },
});

type FoundCheck = Omit<GraderCheck, "evidence">;

function snapshotFile({ context_dir: folder }: Diff, snapshot: string): string {
  return folder === undefined ? snapshot : `${folder}/${snapshot}`;
}

async function snapshotCheck(
  found: WorkspaceFile | undefined,
  snapshot: string,
  settings: Diff,
  { dir, readFile }: KindContext,
): Promise<FoundCheck> {
  const expected = await readFile(dir, snapshotFile(settings, snapshot));
  if (found?.kind !== "file") return { passed: false, reason: `it was not compared with ${snapshot}` };
  if (expected.sha256 === undefined) throw new Error(`the snapshot ${snapshot} is too large to compare with`);
  const passed = found.sha256 === expected.sha256;
  const reason = passed
    ? `${found.path} is equal to ${snapshot}`
    : `${found.path} differs from ${snapshot}${whereDifferent(found, expected)}`;
  return { passed, reason };
}

/** The first line that differs, or the sizes. */
function whereDifferent(found: WorkspaceFile, expected: FileContent): string {
  if (found.text === undefined || expected.text === undefined)
    return `: ${found.size ?? 0} bytes, expected ${expected.size}`;
  const [lines, wanted] = [found.text.split("\n"), expected.text.split("\n")];
  const at = wanted.findIndex((line, index) => line !== lines[index]);
  const index = at === -1 ? wanted.length : at;
  return ` in line ${index + 1}: ${displayLine(lines[index])}, expected ${displayLine(wanted[index])}`;
}

function displayLine(line: string | undefined): string {
  return line === undefined ? "the end of the file" : JSON.stringify(shortened(line, 80));
}

/** The text of a fragment without its sign. */
function wantedText(written: string): { readonly text: string; readonly isWanted: boolean } {
  const trimmed = written.trim();
  const isSigned = /^[+-]/.test(trimmed);
  return { text: isSigned ? trimmed.slice(1).trim() : trimmed, isWanted: !trimmed.startsWith("-") };
}

function fragmentCheck(found: WorkspaceFile | undefined, written: string): FoundCheck {
  const { text, isWanted } = wantedText(written);
  const what = JSON.stringify(shortened(text, 80));
  const content = found === undefined ? { why: `${what} was not looked for` } : textOf(found);
  if ("why" in content) return { passed: false, reason: content.why };
  const isFound = content.text.includes(text);
  return {
    passed: isFound === isWanted,
    reason: `${found?.path ?? ""} ${isFound ? "contains" : "does not contain"} ${what}`,
  };
}

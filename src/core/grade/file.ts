import * as z from "zod";
import { closedObject, patternText } from "../formats/config/config-fields.ts";
import { compilePattern } from "../templates/pattern.ts";
import type { EventOf } from "../trace/events.ts";
import { checksGrade, type GraderCheck, graderKind, listed, nothingDone, skip } from "./grader.ts";
import { isThere, recordedFiles, textOf, whyAbsent, workspacePath } from "./workspace-files.ts";

const paths = z.array(workspacePath).default([]);
const patterns = z.array(patternText).default([]);

const contentPattern = closedObject({
  path: workspacePath.describe("Path or glob; the patterns are looked for in each file that fits."),
  must_match: patterns.describe("Regular expressions (RE2) that must be found anywhere in the file."),
  must_not_match: patterns.describe("Regular expressions (RE2) that must not be found anywhere in the file."),
}).refine((each) => each.must_match.length + each.must_not_match.length > 0, {
  error: "must have must_match or must_not_match",
});

const config = closedObject({
  must_exist: paths.describe("Paths and globs at which there must be a file or a folder."),
  must_not_exist: paths.describe("Paths and globs at which nothing may be."),
  content_patterns: z
    .array(contentPattern)
    .default([])
    .describe("Patterns for the content of files, which must exist."),
}).refine((all) => Object.values(all).some((list) => list.length > 0), {
  error: "must have must_exist, must_not_exist or content_patterns",
});

/** A check, and whether something that is there shows it. */
type FileCheck = GraderCheck & { readonly isShown: boolean };

/** Did the agent leave the right files? Score = checks that hold / checks that are made. */
export const file = graderKind({
  type: "file",
  description:
    "Files that must or must not be in the workspace after the verify steps, and patterns for their content. All must hold. A file that is missing fails its patterns too, also those that must not be found.",
  config,
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
    // A program may work without a word; that it left nothing behind shows nothing of it.
    const idle = nothingDone(trajectory);
    if (idle !== undefined && checks.every(({ passed, isShown }) => passed && !isShown)) return skip(idle);
    return checksGrade(checks, trajectory);
  },
});

type Recorded = EventOf<"workspace.files">;

function existence(recorded: Recorded): FileCheck {
  const why = whyAbsent(recorded);
  const passed = why === undefined;
  return { passed, reason: why ?? `${recorded.name} is there`, evidence: [recorded.seq], isShown: passed };
}

function absence({ name, files, incomplete, seq }: Recorded): FileCheck {
  const passed = files.length === 0 && incomplete === undefined;
  const found = files.map(({ path }) => path);
  const reason =
    found.length === 0
      ? `${name} is not there${passed ? "" : `, as far as it is known: ${incomplete}`}`
      : `${listed(found, 5)} ${found.length === 1 ? "is" : "are"} there`;
  return { passed, reason, evidence: [seq], isShown: false };
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

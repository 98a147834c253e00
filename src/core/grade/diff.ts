import * as z from "zod";
import { closedObject, filledText, optional } from "../formats/config/config-fields.ts";
import { shortened } from "../text/visible-text.ts";
import type { FileContent, WorkspaceFile } from "../trace/events.ts";
import { checksGrade, type GraderCheck, graderKind, type KindContext, skip } from "./grader.ts";
import { recordedFiles, textOf, whyAbsent, workspacePath } from "./workspace-files.ts";

const fragment = filledText.refine((text) => wantedText(text).text !== "", {
  error: "must have a text besides its sign",
});

const expectedFile = closedObject({
  path: workspacePath.describe("Path of the file in the workspace, no glob."),
  snapshot: optional(filledText, "File with the very bytes that it must have, relative to `context_dir`."),
  contains: z
    .array(fragment)
    .default([])
    .describe(
      "Texts that it must contain; after a `-` one that it must not contain. A `+` before a text is left out, so that `+- a` looks for `- a`. White space at the ends does not count.",
    ),
}).refine(({ snapshot, contains }) => snapshot !== undefined || contains.length > 0, {
  error: "must have snapshot or contains",
});

const config = closedObject({
  expected_files: z.array(expectedFile).min(1).describe("Files and what they must be."),
  context_dir: optional(
    filledText,
    "Folder of the snapshots, relative to the file that declares the grader.",
    "the folder of that file",
  ),
});

type Diff = z.output<typeof config>;

/** Are the files that the agent left as they should be? Score = checks that hold / checks that are made. */
export const diff = graderKind({
  type: "diff",
  description:
    "Files of the workspace that must exist after the verify steps, and be equal to a snapshot, byte by byte, or contain some texts. All must hold.",
  config,
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
    return checksGrade(checks.flat(), trajectory);
  },
});

type Unplaced = Omit<GraderCheck, "evidence">;

function snapshotFile({ context_dir: folder }: Diff, snapshot: string): string {
  return folder === undefined ? snapshot : `${folder}/${snapshot}`;
}

async function snapshotCheck(
  found: WorkspaceFile | undefined,
  snapshot: string,
  settings: Diff,
  { dir, readFile }: KindContext,
): Promise<Unplaced> {
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
  return ` in line ${index + 1}: ${shownLine(lines[index])}, expected ${shownLine(wanted[index])}`;
}

function shownLine(line: string | undefined): string {
  return line === undefined ? "the end of the file" : JSON.stringify(shortened(line, 80));
}

/** The text of a fragment without its sign. */
function wantedText(written: string): { readonly text: string; readonly isWanted: boolean } {
  const trimmed = written.trim();
  const isSigned = /^[+-]/.test(trimmed);
  return { text: isSigned ? trimmed.slice(1).trim() : trimmed, isWanted: !trimmed.startsWith("-") };
}

function fragmentCheck(found: WorkspaceFile | undefined, written: string): Unplaced {
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

import { expect, it } from "vitest";
import {
  AgentTrial,
  gradeBy,
  settingIssues,
  trialThatLeft,
  workspaceFile,
} from "../../test/support/grading.ts";

const left = trialThatLeft({
  "report.md": "# Report\nTODO: more\n",
  "none.md": [],
  out: [{ path: "out", kind: "folder" }],
  "*.log": [workspaceFile("a.log", "fine"), workspaceFile("b.log", "error")],
  "*.tmp": [],
  "away.md": [{ path: "away.md", kind: "link" }],
  pipe: [{ path: "pipe", kind: "other" }],
  "large.bin": [{ path: "large.bin", kind: "file", size: 300_000, sha256: "x" }],
});
const content = (path: string, must_match: readonly string[], must_not_match: readonly string[] = []) => ({
  content_patterns: [{ path, must_match, must_not_match }],
});

it.each([
  [{ must_exist: ["report.md"] }, 1, "report.md is there"],
  [{ must_exist: ["out"] }, 1, "out is there"],
  [{ must_exist: ["*.log"] }, 1, "*.log is there"],
  [{ must_exist: ["none.md"] }, 0, "none.md is not there"],
  [{ must_exist: ["*.tmp"] }, 0, "*.tmp is not there"],
  [{ must_exist: ["away.md"] }, 0, "away.md is a link that leads to nothing in the workspace"],
  [{ must_exist: ["pipe"] }, 0, "pipe is neither a readable file nor a folder"],
  [{ must_not_exist: ["none.md", "*.tmp"] }, 1, "none.md is not there; *.tmp is not there"],
  [{ must_not_exist: ["*.log"] }, 0, "a.log, b.log are there"],
  [{ must_not_exist: ["away.md"] }, 0, "away.md is there"],
  [{ must_exist: ["report.md", "none.md"] }, 1 / 2, "none.md is not there"],
  [content("report.md", ["(?m)^TODO"]), 1, "report.md is there; report.md contains /(?m)^TODO/"],
  [content("report.md", ["^TODO"]), 1 / 2, "report.md does not contain /^TODO/"],
  [content("report.md", ["Report"], ["TODO"]), 2 / 3, "report.md contains /TODO/"],
  [content("*.log", [], ["error"]), 1 / 2, "b.log contains /error/"],
  [
    content("none.md", ["a"], ["b"]),
    0,
    "none.md is not there; /a/ was not looked for; /b/ was not looked for",
  ],
  [
    content("large.bin", [], ["a"]),
    1 / 2,
    "large.bin (300000 bytes) is too large to be read, or not UTF-8 text",
  ],
  [content("out", ["a"]), 1 / 2, "out is not a readable file"],
] as const)("%j: %d", async (config, score, reason) => {
  expect(await gradeBy("file", config, left)).toMatchObject({
    verdict: score === 1 ? "pass" : "fail",
    score,
    reason,
  });
});

it("does not take what it could not see whole for absence", async () => {
  const trial = new AgentTrial((each) => each.say("Done."));
  trial.emit({ type: "workspace.files", name: "**/*.tmp", files: [], incomplete: "the search ended" });
  for (const config of [{ must_not_exist: ["**/*.tmp"] }, { must_exist: ["**/*.tmp"] }])
    await expect(gradeBy("file", config, trial)).rejects.toMatchObject({
      code: "grader/cannot-run",
      message: "the workspace is not known: the search ended",
    });
  trial.emit({ type: "workspace.files", name: "none", files: [] });
  expect(await gradeBy("file", { must_exist: ["none"], must_not_exist: ["**/*.tmp"] }, trial)).toMatchObject({
    verdict: "fail",
    score: 0,
  });
});

it("says nothing of what an idle agent did not do, and grades what a silent one left", async () => {
  const idle = trialThatLeft({ "a.md": "a", "b.md": [] }, () => undefined);
  expect(await gradeBy("file", { must_not_exist: ["b.md"] }, idle)).toMatchObject({
    verdict: "skip",
    reason: "the agent said nothing and called nothing",
  });
  expect(await gradeBy("file", { must_exist: ["a.md"] }, idle)).toMatchObject({ verdict: "pass" });
  expect(await gradeBy("file", { must_exist: ["b.md"] }, idle)).toMatchObject({ verdict: "fail" });
});

it("says nothing of what was there before, by an agent that is not a program and did nothing", async () => {
  const diff = { expected_files: [{ path: "a.md", contains: ["x"] }] };
  for (const [kind, verdict] of [
    ["scripted", "skip"],
    ["command", "pass"],
  ] as const) {
    const idle = trialThatLeft({ "a.md": "x" }, (trial) => {
      trial.emit({ type: "agent.started", agent: "idle", kind });
    });
    expect(await gradeBy("file", { must_exist: ["a.md"] }, idle)).toMatchObject({ verdict });
    expect(await gradeBy("diff", diff, idle)).toMatchObject({ verdict });
    const missing = { expected_files: [{ path: "a.md", contains: ["y"] }] };
    expect(await gradeBy("diff", missing, idle)).toMatchObject({ verdict: "fail" });
  }
});

it("gives no verdict on what the trial did not record", async () => {
  const config = { must_not_exist: ["other.md"] };
  await expect(gradeBy("file", config, left)).rejects.toThrow("the trial had no workspace");
  left.emit({ type: "workspace.created", path: "/work", fixtures: [] });
  await expect(gradeBy("file", config, left)).rejects.toThrow(/the files of ".+" were not recorded/);
});

it("refuses settings that look for nothing, leave the workspace or have a broken pattern", () => {
  expect(settingIssues("file", {})).toEqual(["must have must_exist, must_not_exist or content_patterns"]);
  expect(settingIssues("file", { content_patterns: [{ path: "a" }] })).toEqual([
    "must have must_match or must_not_match",
  ]);
  const outside = ["/etc/passwd", "../a", "a/../../b", "C:\\a"];
  expect(settingIssues("file", { must_exist: outside })).toEqual(
    outside.map(() => "must be a path inside the workspace, relative to it"),
  );
  expect(settingIssues("file", content("a", ["("]))).toEqual([expect.stringContaining("RE2")]);
});

import { expect, it } from "vitest";
import { gradeBy, settingIssues, trialThatLeft } from "../../test/support/grading.ts";
import { AgentTrial } from "../../test/support/grading.ts";

const left = trialThatLeft({
  "main.py": "import logging\n- a list\n",
  "gone.py": [],
  "data.bin": [{ path: "data.bin", kind: "file", size: 3, sha256: "123" }],
});
/** The files beside the file that declares the grader; the hash is the text itself. */
const files: Readonly<Record<string, { size: number; sha256: string; text?: string }>> = {
  "/evals/same.py": { size: 26, sha256: "import logging\n- a list\n", text: "import logging\n- a list\n" },
  "/evals/golden/other.py": { size: 19, sha256: "other", text: "import logging\nx = 1\n" },
  "/evals/longer.py": { size: 26, sha256: "longer", text: "import logging\n- a list\nmore\n" },
  "/evals/data.bin": { size: 4, sha256: "1234" },
};
const readFile = async (dir: string, name: string) => {
  const found = files[`${dir}/${name}`];
  if (found === undefined) throw new Error(`cannot read ${name}`);
  return found;
};
const grade = async (config: Parameters<typeof gradeBy>[1], trial = left) =>
  gradeBy("diff", config, trial, { dir: "/evals", readFile });
const one = (path: string, rest: object) => ({ expected_files: [{ path, ...rest }] });

it.each([
  [one("main.py", { snapshot: "same.py" }), 1, "main.py is there; main.py is equal to same.py"],
  [
    { ...one("main.py", { snapshot: "other.py" }), context_dir: "golden" },
    1 / 2,
    'main.py differs from other.py in line 2: "- a list", expected "x = 1"',
  ],
  [
    one("main.py", { snapshot: "longer.py" }),
    1 / 2,
    'main.py differs from longer.py in line 3: "", expected "more"',
  ],
  [one("data.bin", { snapshot: "data.bin" }), 1 / 2, "data.bin differs from data.bin: 3 bytes, expected 4"],
  [one("gone.py", { snapshot: "same.py" }), 0, "gone.py is not there; it was not compared with same.py"],
  [one("main.py", { contains: ["import logging", "+ logging", "-print("] }), 1, /^main.py is there; /],
  [one("main.py", { contains: ["-logging"] }), 1 / 2, 'main.py contains "logging"'],
  [one("main.py", { contains: ["+- a list"] }), 1, /contains "- a list"$/],
  [one("main.py", { contains: ["--a list"] }), 1, /does not contain "-a list"$/],
  [one("gone.py", { contains: ["-x"] }), 0, 'gone.py is not there; "x" was not looked for'],
] as const)("%j: %d", async (config, score, reason) => {
  const finding = await grade(config);
  expect(finding).toMatchObject({ verdict: score === 1 ? "pass" : "fail", score });
  if (typeof reason === "string") expect(finding.reason).toBe(reason);
  else expect(finding.reason).toMatch(reason);
});

it("gives no verdict without an agent, or without the snapshot", async () => {
  const nobody = new AgentTrial();
  const config = one("main.py", { snapshot: "missing.py" });
  await expect(grade(config, nobody)).rejects.toThrow("the trial had no workspace");
  await expect(grade(config)).rejects.toThrow("cannot read missing.py");
});

it("refuses files of which nothing is expected, and fragments without a text", () => {
  expect(settingIssues("diff", { expected_files: [] })).toHaveLength(1);
  expect(settingIssues("diff", one("a", {}))).toEqual(["must have snapshot or contains"]);
  expect(settingIssues("diff", one("a", { contains: ["- "] }))).toEqual([
    "must have a text besides its sign",
  ]);
  expect(settingIssues("diff", one("../a", { contains: ["x"] }))).toHaveLength(1);
});

import { readdirSync } from "node:fs";
import { basename, join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { RunResult } from "../../src/model/result.ts";
import { procLister } from "../../src/process/process-tree.ts";
import { type CliOutcome, folderOf, runCli } from "../support/cli.ts";
import { startFakeProvider } from "../support/fake-provider.ts";
import { copyTasks } from "./support.ts";
import type { Verdict } from "../../src/model/grade.ts";

const copy = copyTasks();
const tasks = readdirSync(copy.path)
  .filter((file) => file.endsWith(".yaml"))
  .map((file) => basename(file, ".yaml"));

/** What a task does with an agent that does nothing, and with one that plays its solution. */
interface Proof {
  readonly null: Verdict | undefined;
  readonly oracle: Verdict | undefined;
  /** Why a trial was none, and what deserves a look. */
  readonly remarks: readonly string[];
}

/** Tasks that cannot run offline, with what they lack. */
const skipped: Readonly<Record<string, string>> = { "judged-answer": "judge" };

/** Steps that look only where a variable says so, which it does not. */
const conditional: Readonly<Record<string, string>> = {
  handover: "no observation says more than it should",
  "quota-raise": "eight hundred instances",
};

function remarksOn(name: string): readonly string[] {
  const step = conditional[name];
  if (step === undefined) return [];
  return ["null", "oracle"].map(
    (agent) => `${agent}: verify step "${step}" was skipped: its if does not hold`,
  );
}

/** Of all that the run writes beside its result; every process that it starts has it in its environment. */
const temp = folderOf({});
let proven: Proven;

beforeAll(async () => {
  proven = await prove(copy.path);
});
afterAll(() => {
  temp[Symbol.dispose]();
  copy[Symbol.dispose]();
});

interface Proven {
  readonly outcome: CliOutcome;
  readonly proofs: ReadonlyMap<string, Proof>;
}

/** Runs tasks with both agents. */
async function prove(
  source: string,
  args: readonly string[] = [],
  env: Readonly<Record<string, string>> = {},
): Promise<Proven> {
  using cwd = folderOf({});
  const agents = ["--agent", "null", "--agent", "oracle"];
  const all = ["run", source, ...agents, "--concurrency", "4", "--reporter", "json", ...args];
  const outcome = await runCli(all, { cwd: cwd.path, env: { ...env, TMPDIR: temp.path } });
  const { code, stdout, stderr } = outcome;
  if (!stdout.startsWith("{")) throw new Error(`no result (exit ${code}):\n${stdout}\n${stderr}`);
  const { trials } = JSON.parse(stdout) as RunResult;
  const names = [...new Set(trials.map((trial) => trial.task))];
  const proofs = names.map((name) => [name, proofOf(trials.filter((trial) => trial.task === name))] as const);
  return { outcome, proofs: new Map(proofs) };
}

function proofOf(trials: RunResult["trials"]): Proof {
  const verdictOf = (agent: string): Verdict | undefined =>
    trials.find((trial) => trial.agent === agent)?.verdict;
  const remarks = trials.flatMap(({ agent, error, warnings = [] }) =>
    [...(error === undefined ? [] : [error.message]), ...warnings].map((remark) => `${agent}: ${remark}`),
  );
  return { null: verdictOf("null"), oracle: verdictOf("oracle"), remarks };
}

describe("the example tasks", () => {
  it("are all run", () => {
    expect([...proven.proofs.keys()].toSorted()).toEqual(tasks.toSorted());
    expect(tasks.length).toBeGreaterThanOrEqual(15);
  });

  it.each(tasks.filter((name) => skipped[name] === undefined))(
    "%s: fails when nothing is done, passes with its solution",
    (name) => {
      expect(proven.proofs.get(name)).toEqual({ null: "fail", oracle: "pass", remarks: remarksOn(name) });
    },
  );

  it.each(Object.entries(skipped))("%s: is skipped for want of a %s", (name, lacking) => {
    const proof = proven.proofs.get(name);
    expect([proof?.null, proof?.oracle]).toEqual(["skip", "skip"]);
    expect(proof?.remarks.join("\n")).toContain(lacking);
  });

  it("judged-answer: with a judge it is as the others; who says nothing is not even judged", async () => {
    await using judge = await startFakeProvider([
      { text: JSON.stringify({ passed: true, reason: "It says so." }) },
      { text: JSON.stringify({ score: 1, reason: "Short and plain." }) },
    ]);
    const file = join(copy.path, "judged-answer.yaml");
    const { proofs } = await prove(file, ["--judge", "anthropic/claude-sonnet-4-5"], judge.env);
    expect(proofs.get("judged-answer")).toEqual({ null: "fail", oracle: "pass", remarks: [] });
    const asked = judge.requests.flatMap(({ users }) => users).join("\n");
    expect(asked).toContain("The server is put together from small modules");
  });

  it("leave no folder behind", () => {
    expect(readdirSync(temp.path).filter((name) => name.startsWith("mcpvals-"))).toEqual([]);
  });

  it.runIf(process.platform === "linux")("leave no process behind", async () => {
    const all = await procLister.list();
    expect(all.filter(({ pid }) => procLister.carries(pid, `TMPDIR=${temp.path}`))).toEqual([]);
  });

  it("make the run fail, since nobody did what they ask for", () => {
    expect(proven.outcome).toMatchObject({ code: 1, signal: null });
  });
});

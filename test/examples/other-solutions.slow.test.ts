import { readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { parse, stringify } from "yaml";
import type { RunResult, TrialResult } from "../../src/model/result.ts";
import { root, runCli } from "../support/cli.ts";
import { copyTasks } from "./support.ts";

type Action = Readonly<Record<string, unknown>>;
type Change = (solution: readonly Action[]) => readonly Action[];

/** A task, what an agent does instead of its solution, and the check that must fail; without a check, the task must pass. */
type Other = readonly [task: string, does: string, change: Change, refusedBy?: string];

function call(tool: string, args: Readonly<Record<string, unknown>>): Action {
  return { [tool]: { args } };
}

/** Adds actions at the end, before the last message of the agent. */
function and(...more: readonly Action[]): Change {
  return (solution) => [...solution.slice(0, -1), ...more, ...solution.slice(-1)];
}

function instead(from: string, to: string): Change {
  return (solution) => JSON.parse(JSON.stringify(solution).replace(from, to)) as Action[];
}

function without(...indexes: readonly number[]): Change {
  return (solution) => solution.filter((_action, index) => !indexes.includes(index));
}

const shop = { namespace: "{env.NAMESPACE}", service: "shop" };
const store = { namespace: "store", service: "shop" };
const byHand = [25, 50, 75].map((v2) =>
  call("platform.set_traffic", { ...shop, weights: { v1: 100 - v2, v2 } }),
);
const allToV2 = call("platform.set_traffic", { ...shop, weights: { v2: 100 } });

const anew =
  '{"changedAt":"2026-02-03T04:05:06Z","limits":{"retries":2,"timeoutMs":5e3},"name":"{env.NAME}","greeting":"welcome to {{task.name}}","upstream":"${HOST}:8080","routes":[{"to":"web","path":"/"},{"path":"/api","to":"api"}]}';
const write = (path: string, content: string): Action => call("files.write_file", { path, content });
const schema = (query: string): Action => call("db.execute_schema_query", { query });
const scale = (version: object, replicas: number): Action =>
  call("platform.scale_version", { ...version, replicas });
/** A deployment that starts no instance, so that none can be ready when the next call comes. */
const withoutInstances = (deploy: Action): Action =>
  JSON.parse(JSON.stringify(deploy).replace(/"replicas":\d/, '"replicas":0')) as Action;
const quota = (namespace: string, instances: number): Action =>
  call("platform.set_quota", { namespace, quota: { instances } });
const orders = { namespace: "{env.NAMESPACE}", service: "orders", version: "stable" };
const production = { LOG: "info", STAGE: "production" };
const half = call("platform.set_traffic", { ...shop, weights: { blue: 50, green: 50 } });

const others: readonly Other[] = [
  ["config-edit", "writes the file anew, in another layout", () => [write("{env.FILE}", anew)]],
  [
    "database-audit",
    "changes the database",
    and(call("db.execute_write_query", { query: "DELETE FROM customers WHERE id > 4" })),
    "only read",
  ],
  [
    "database-fix",
    "loses the primary key",
    and(
      schema("CREATE TABLE copy AS SELECT * FROM orders"),
      call("db.drop_table", { table: "orders" }),
      schema("ALTER TABLE copy RENAME TO orders"),
    ),
    "and there can be one only once",
  ],
  [
    "deploy-and-wait",
    "names another database",
    instead("{env.DATABASE}", "postgres://elsewhere"),
    "the database is known inside the instance",
  ],
  [
    "deploy-and-wait",
    "leaves one instance",
    and(scale(orders, 1)),
    "requests are answered, and go on being answered",
  ],
  [
    "guided-tour",
    "guesses the temperature",
    instead("{steps.asked.outputs.celsius}", "5"),
    "the answer has both numbers",
  ],
  [
    "handover",
    "has the lead lead the deputy",
    instead(`"from":"Grace","to":"{env.TEAM}"`, `"from":"Grace","to":"{env.DEPUTY}"`),
  ],
  ["hard-blue-green-switch", "keeps blue as it was", without(4)],
  [
    "hard-blue-green-switch",
    "switches before there is an instance",
    (solution) => {
      const [look = {}, deploy = {}, wait = {}, switchAll = {}, ...rest] = solution;
      return [
        look,
        withoutInstances(deploy),
        switchAll,
        scale({ ...shop, version: "green" }, 2),
        wait,
        ...rest,
      ];
    },
    "no customer ever saw an error",
  ],
  [
    "hard-blue-green-switch",
    "switches in two steps",
    (solution) => [...solution.slice(0, 3), half, ...solution.slice(3)],
    "it was one switch",
  ],
  [
    "hard-healthy-rollout",
    "moves the traffic by hand",
    (solution) => [...solution.slice(0, 2), ...byHand, allToV2, ...solution.slice(4)],
  ],
  [
    "hard-healthy-rollout",
    "moves traffic before there is an instance",
    ([deploy = {}, wait = {}, , , ...rest]) => [
      withoutInstances(deploy),
      ...byHand,
      allToV2,
      scale({ ...shop, version: "v2" }, 3),
      wait,
      ...rest,
    ],
    "not one request failed, from the first to the last",
  ],
  [
    "hard-tenant-onboarding",
    "gives a lead another role",
    and(call("platform.set_member", { namespace: "blue-prod", user: "bo", role: "admin" })),
    "members are those of the template and the lead",
  ],
  [
    "hard-tenant-onboarding",
    "makes one namespace too many",
    and(call("platform.create_namespace", { name: "red-test" })),
    "there is nothing else",
  ],
  [
    "incident-rollback",
    "replaces the bad version",
    (solution) => [
      ...solution.slice(0, 2),
      call("platform.remove_version", { ...store, version: "v2" }),
      call("platform.deploy_version", { ...store, version: "v2", image: "shop:1.1", replicas: 2 }),
      call("platform.wait_until_ready", { ...store, version: "v2" }),
      call("platform.set_traffic", { ...store, weights: { v1: 50, v2: 50 } }),
    ],
  ],
  [
    "knowledge-graph",
    "forgets what was known",
    and(call("memory.delete_entities", { entityNames: ["Charles Babbage"] })),
    "what was known is still known, and once",
  ],
  ["log-report", "miscounts", instead("errors: 3", "errors: 4"), "the number of errors is that of the log"],
  [
    "namespace-copy",
    "changes the original too",
    and(call("platform.put_config", { namespace: "{env.FROM}", name: "web", data: production })),
    "the original still is staging",
  ],
  [
    "notes-summary",
    "empties a note",
    and(write("{workspace}/notes/monday.md", "")),
    "the notes are as they were",
  ],
  [
    "quota-raise",
    "raises the neighbour's quota too",
    and(quota("{env.NEIGHBOUR}", 8)),
    "the neighbour has what it had",
  ],
];

interface TaskDocument {
  readonly metadata: Record<string, unknown>;
  readonly spec: Record<string, unknown> & { solution: readonly Action[] };
}

const copy = copyTasks();
let trials: readonly TrialResult[];

beforeAll(async () => {
  writeOthers();
  const args = ["run", ".", "--agent", "oracle", "--concurrency", "8", "--reporter", "json"];
  const { stdout, stderr } = await runCli(args, { cwd: copy.path });
  if (!stdout.startsWith("{")) throw new Error(`no result:\n${stdout}\n${stderr}`);
  trials = (JSON.parse(stdout) as RunResult).trials;
}, 180_000);
afterAll(() => copy[Symbol.dispose]());

/** Replaces the tasks by one for each row of `others`, with the changed solution. */
function writeOthers(): void {
  const folder = copy.path;
  for (const file of readdirSync(folder).filter((name) => name.endsWith(".yaml"))) rmSync(join(folder, file));
  for (const [index, [task, , change]] of others.entries()) {
    const { metadata, spec, ...rest } = parse(
      readFileSync(join(root, "examples/tasks", `${task}.yaml`), "utf8"),
    ) as TaskDocument;
    const changed = {
      ...rest,
      metadata: { ...metadata, name: nameOf(index) },
      spec: { ...spec, solution: change(spec.solution) },
    };
    writeFileSync(join(folder, `${nameOf(index)}.yaml`), stringify(changed));
  }
}

function nameOf(index: number): string {
  return `other-${index}`;
}

describe("an agent that does not follow the solution", () => {
  const rows = others.map(([task, does, , refusedBy], index) => [task, does, refusedBy, index] as const);
  it.each(rows)("%s: %s", (_task, _does, refusedBy, index) => {
    const [trial] = trials.filter((each) => each.task === nameOf(index));
    const reasons = trial?.grades.map((grade) => grade.reason).join("\n") ?? "";
    expect({ verdict: trial?.verdict, error: trial?.error, reasons }).toMatchObject({
      verdict: refusedBy === undefined ? "pass" : "fail",
      error: undefined,
      reasons: expect.stringContaining(refusedBy ?? "") as unknown,
    });
  });
});

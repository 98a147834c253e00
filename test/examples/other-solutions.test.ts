import { cpSync, readFileSync, readdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { parse, stringify } from "yaml";
import type { RunResult, TrialResult } from "../../src/core/report/result.ts";
import { folderOf, root, runCli } from "../support/cli.ts";

type Action = Readonly<Record<string, unknown>>;
type Change = (solution: readonly Action[]) => readonly Action[];

/** What another agent might do in an example: whether that is right, and the check that says it is not. */
interface Other {
  readonly task: string;
  readonly does: string;
  readonly change: Change;
  /** Absent: it is right too. */
  readonly refusedBy?: string;
}

function call(tool: string, args: Readonly<Record<string, unknown>>): Action {
  return { [tool]: { args } };
}

/** Adds something in the end, before the agent's last words. */
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
const green = { ...shop, version: "green" };
const byHand = [25, 50, 75].map((v2) =>
  call("platform.set_traffic", { ...shop, weights: { v1: 100 - v2, v2 } }),
);
const allToV2 = call("platform.set_traffic", { ...shop, weights: { v2: 100 } });

const others: readonly Other[] = [
  {
    task: "config-edit",
    does: "writes the file anew, in another layout",
    change: () => [
      call("files.write_file", {
        path: "{env.FILE}",
        content:
          '{"changedAt":"2026-02-03T04:05:06Z","limits":{"retries":2,"timeoutMs":5e3},"name":"{env.NAME}","greeting":"welcome to {{task.name}}","upstream":"${HOST}:8080","routes":[{"to":"web","path":"/"},{"path":"/api","to":"api"}]}',
      }),
    ],
  },
  {
    task: "config-edit",
    does: "writes the number as a text",
    change: instead("5000", String.raw`\"5000\"`),
    refusedBy: "the timeout is 5 seconds",
  },
  {
    task: "database-audit",
    does: "changes the database",
    change: and(call("db.execute_write_query", { query: "DELETE FROM customers WHERE id > 4" })),
    refusedBy: "only read",
  },
  {
    task: "database-fix",
    does: "loses the primary key",
    change: and(
      call("db.execute_schema_query", { query: "CREATE TABLE copy AS SELECT * FROM orders" }),
      call("db.drop_table", { table: "orders" }),
      call("db.execute_schema_query", { query: "ALTER TABLE copy RENAME TO orders" }),
    ),
    refusedBy: "and there can be one only once",
  },
  {
    task: "deploy-and-wait",
    does: "names another database",
    change: instead("{env.DATABASE}", "postgres://elsewhere"),
    refusedBy: "the database is known inside the instance",
  },
  {
    task: "deploy-and-wait",
    does: "leaves one instance, which is not enough",
    change: and(
      call("platform.scale_version", {
        namespace: "{env.NAMESPACE}",
        service: "orders",
        version: "stable",
        replicas: 1,
      }),
    ),
    refusedBy: "requests are answered, and go on being answered",
  },
  {
    task: "guided-tour",
    does: "guesses the temperature",
    change: instead("{steps.asked.outputs.celsius}", "5"),
    refusedBy: "the answer has both numbers",
  },
  {
    task: "handover",
    does: "has the lead lead the deputy",
    change: instead(`"from":"Grace","to":"{env.TEAM}"`, `"from":"Grace","to":"{env.DEPUTY}"`),
  },
  {
    task: "handover",
    does: "remembers the room",
    change: and(
      call("memory.add_observations", { observations: [{ entityName: "Grace", contents: ["room 4.02"] }] }),
    ),
    refusedBy: "the room was nobody's business",
  },
  {
    task: "hard-blue-green-switch",
    does: "keeps blue as it was",
    change: without(4),
  },
  {
    task: "hard-blue-green-switch",
    does: "does not wait",
    change: without(2),
    refusedBy: "no customer ever saw an error",
  },
  {
    task: "hard-blue-green-switch",
    does: "removes blue",
    change: (solution) => [
      ...solution.slice(0, 4),
      call("platform.remove_version", { ...shop, version: "blue" }),
    ],
    refusedBy: "blue is kept",
  },
  {
    task: "hard-blue-green-switch",
    does: "starts a third instance",
    change: and(call("platform.scale_version", { ...green, replicas: 3 })),
    refusedBy: "green has all the traffic and is ready",
  },
  {
    task: "hard-blue-green-switch",
    does: "switches in two steps",
    change: (solution) => [
      ...solution.slice(0, 3),
      call("platform.set_traffic", { ...shop, weights: { blue: 50, green: 50 } }),
      ...solution.slice(3),
    ],
    refusedBy: "it was one switch",
  },
  {
    task: "hard-blue-green-switch",
    does: "stops the other service",
    change: and(call("platform.scale_version", { ...shop, service: "search", version: "blue", replicas: 0 })),
    refusedBy: "the other service is as it was",
  },
  {
    task: "hard-healthy-rollout",
    does: "moves the traffic by hand",
    change: (solution) => [...solution.slice(0, 2), ...byHand, allToV2, ...solution.slice(4)],
  },
  {
    task: "hard-healthy-rollout",
    does: "moves all the traffic at once",
    change: (solution) => [...solution.slice(0, 2), allToV2, ...solution.slice(4)],
    refusedBy: "it was a rollout of the platform",
  },
  {
    task: "hard-healthy-rollout",
    does: "moves traffic before v2 is ready",
    change: ([deploy = {}, wait = {}, , , ...rest]) => [deploy, ...byHand, allToV2, wait, ...rest],
    refusedBy: "not one request failed, from the first to the last",
  },
  {
    task: "hard-healthy-rollout",
    does: "takes the image that leaks",
    change: instead("shop:1.1", "shop:1.3"),
    refusedBy: "it stays healthy",
  },
  {
    task: "hard-tenant-onboarding",
    does: "gives a lead another role",
    change: and(call("platform.set_member", { namespace: "blue-prod", user: "bo", role: "admin" })),
    refusedBy: "members are those of the template and the lead",
  },
  {
    task: "hard-tenant-onboarding",
    does: "changes the template",
    change: and(call("platform.set_quota", { namespace: "template", quota: { instances: 9 } })),
    refusedBy: "the template is as it was",
  },
  {
    task: "hard-tenant-onboarding",
    does: "makes one namespace too many",
    change: and(call("platform.create_namespace", { name: "red-test" })),
    refusedBy: "there is nothing else",
  },
  {
    task: "incident-rollback",
    does: "replaces the bad version",
    change: (solution) => [
      ...solution.slice(0, 2),
      call("platform.remove_version", { ...store, version: "v2" }),
      call("platform.deploy_version", { ...store, version: "v2", image: "shop:1.1", replicas: 2 }),
      call("platform.wait_until_ready", { ...store, version: "v2" }),
      call("platform.set_traffic", { ...store, weights: { v1: 50, v2: 50 } }),
    ],
  },
  {
    task: "incident-rollback",
    does: "deletes the service",
    change: and(call("platform.delete_service", store)),
    refusedBy: "what step shop gives",
  },
  {
    task: "knowledge-graph",
    does: "forgets what was known",
    change: and(call("memory.delete_entities", { entityNames: ["Charles Babbage"] })),
    refusedBy: "what was known is still known, and once",
  },
  {
    task: "log-report",
    does: "miscounts",
    change: instead("errors: 3", "errors: 4"),
    refusedBy: "the number of errors is that of the log",
  },
  {
    task: "namespace-copy",
    does: "changes the original too",
    change: and(
      call("platform.put_config", {
        namespace: "{env.FROM}",
        name: "web",
        data: { LOG: "info", STAGE: "production" },
      }),
    ),
    refusedBy: "the original still is staging",
  },
  {
    task: "notes-summary",
    does: "empties a note",
    change: and(call("files.write_file", { path: "{workspace}/notes/monday.md", content: "" })),
    refusedBy: "the notes are as they were",
  },
  {
    task: "quota-raise",
    does: "raises the neighbour's quota too",
    change: and(call("platform.set_quota", { namespace: "{env.NEIGHBOUR}", quota: { instances: 8 } })),
    refusedBy: "the neighbour has what it had",
  },
];

interface TaskDocument {
  readonly metadata: Record<string, unknown>;
  readonly spec: Record<string, unknown> & { solution: readonly Action[] };
}

const examples = join(root, "examples/tasks");
const temp = folderOf({});
let trials: readonly TrialResult[];

beforeAll(async () => {
  writeOthers(join(temp.path, "tasks"));
  const args = ["run", "tasks", "--agent", "oracle", "--concurrency", "8", "--reporter", "json"];
  const { stdout, stderr } = await runCli(args, { cwd: temp.path });
  if (!stdout.startsWith("{")) throw new Error(`no result:\n${stdout}\n${stderr}`);
  trials = (JSON.parse(stdout) as RunResult).trials;
}, 180_000);
afterAll(() => temp[Symbol.dispose]());

/** A folder with everything of the examples but for the tasks, and those with the solutions of the others. */
function writeOthers(folder: string): void {
  cpSync(examples, folder, { recursive: true });
  symlinkSync(join(root, "node_modules"), join(temp.path, "node_modules"), "junction");
  for (const file of readdirSync(folder).filter((name) => name.endsWith(".yaml"))) rmSync(join(folder, file));
  for (const [index, { task, change }] of others.entries()) {
    const { metadata, spec, ...rest } = parse(
      readFileSync(join(examples, `${task}.yaml`), "utf8"),
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

describe("an agent that does something else than the solution", () => {
  it.each(others.map((other, index) => ({ ...other, index })))("$task: $does", ({ index, refusedBy }) => {
    const [trial] = trials.filter((each) => each.task === nameOf(index));
    const reasons = trial?.grades.map((grade) => grade.reason).join("\n") ?? "";
    expect({ verdict: trial?.verdict, error: trial?.error, reasons }).toMatchObject({
      verdict: refusedBy === undefined ? "pass" : "fail",
      error: undefined,
      reasons: expect.stringContaining(refusedBy ?? "") as unknown,
    });
  });
});

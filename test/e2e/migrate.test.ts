import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import type { Json } from "../../src/base/json.ts";
import type { Task } from "../../src/model/task.ts";
import type { Step } from "../../src/model/step.ts";
import { parseTask } from "../../src/formats/tasks.ts";
import { parseTemplate, taskRoots } from "../../src/templates/template.ts";
import { load } from "../../src/formats/load.ts";
import { migrateTask } from "../../src/formats/migrate/migrate.ts";
import { SourceText } from "../../src/formats/read/document.ts";
import { parseData } from "../../src/formats/read/read-files.ts";
import { folderOf, runHere, runIn } from "../support/cli.ts";
import { closedAddress } from "./support.ts";

const scriptForm = `# A task of the script form.
kind: Task
metadata:
  name: "create-pod" # the name
  difficulty: easy
  category: pods
  labels:
    suite: k8s
    level: 3

steps:
  # first make the namespace
  setup:
    inline: |-
      #!/usr/bin/env bash
      kubectl create ns "$NS_NAME" # a comment
      NAME=x; echo $NAME \${KUBECONFIG:-none}
      kubectl get pods -o go-template='{{.items}}' | awk '{print $1}'
  verify:
    file: verify.sh # beside it
  prompt:
    # what to say
    inline: 'Create a pod named {steps.x} and {"a": 1} in \${HOME}.'
  cleanup:
    inline: echo "{env.NS_NAME}"
`;

const migratedScriptForm = `# A task of the script form.
kind: Task
apiVersion: mcp-eval/v1
metadata:
  # migrated: category: "pods" is left out; nothing reads it
  name: "create-pod" # the name
  difficulty: easy
  labels:
    suite: k8s
    level: "3"

# migrated: processes get spec.env, PATH, HOME, LANG and TMPDIR, no longer the whole environment of the shell; an Eval's inheritEnv passes more, such as KUBECONFIG
spec:
  # migrated: what the scripts use of your shell; take out what they set themselves
  env:
    NS_NAME: "{env.NS_NAME}"
  limits:
    cleanupTimeout: 5m
  # first make the namespace
  setup:
    - script:
        inline: |-
          #!/usr/bin/env bash
          kubectl create ns "$NS_NAME" # a comment
          NAME=x; echo $NAME \${KUBECONFIG:-none}
          kubectl get pods -o go-template='{{{{.items}}}}' | awk '{print $1}'
  verify:
    - script:
        file: verify.sh # beside it
  # what to say
  prompt: 'Create a pod named {{steps.x}} and {"a": 1} in \${HOME}.'
  cleanup:
    - script:
        inline: echo "{{env.NS_NAME}}"
`;

const stepForm = `kind: Task
apiVersion: mcpchecker/v1alpha2
metadata:
  name: steps
  description: A step form
  labels: &labels { team: red }
  runs: 4
spec:
  requires:
    # the cluster
    - extension: kubernetes
      as: k8s
    - mcpServer: calc
      as: c
    - command: jq
  limits: { timeout: 1h30m }
  setup:
    # remove what was left over
    - k8s.delete: { kind: Pod, name: web }
    - k8s.create:
        kind: Pod
        id: 7
        metadata: { name: "web-{env.X}", labels: *labels }
    - k8s.currentContext:
    - http:
        url: "http://\${HOST}:8080/{random.id}"
        body: { json: { a: "{env.X}", b: "{c}" } }
    - id: sum
      c.add:
        args: { a: 2 }
        expect: { isError: true }
    - script: { inline: "true", continueOnError: true }
  prompt:
    inline: |
      Look at {steps.kubernetes.create.name}.
      And {env.Y} too.
  verify:
    - script:
        inline: test "$OUT" = {x}
        env: { OUT: "{agent.output}", PORT: 8080 }
        continueOnError: true
        timeout: 90s
    - http:
        url: http://localhost/a
        method: POST
        body: { raw: "a={env.X}" }
        expect:
          status: 200
          body:
            match: '"ok": ?true'
            fields:
              - path: items[0].name # the first
                equals: web
                type: string
              - { path: ready, type: bool }
              - { path: gone, exists: false }
    - llmJudge:
        contains: web
        reason: because
    - c.add: { args: { a: 1 } }
    - llmJudge: { exact: "{steps.calc.add.content}" }
  cleanup:
    - script: { inline: echo one }
    # the second
    - script: { inline: echo two }
`;

const migratedStepForm = `kind: Task
apiVersion: mcp-eval/v1
metadata:
  # migrated: runs: 4 is left out; see --trials
  name: steps
  description: A step form
  labels: { team: red }
# migrated: processes get spec.env, PATH, HOME, LANG and TMPDIR, no longer the whole environment of the shell; an Eval's inheritEnv passes more
spec:
  imports:
    # the cluster
    # migrated: say where kubernetes comes from: github.com/ORG/REPO@VERSION, as in the Eval's config.extensions
    - package: kubernetes
      as: k8s
  requires:
    - server: calc
    - command: jq
  limits: { timeout: 90m, cleanupTimeout: 5m }
  setup:
    # remove what was left over
    # migrated: continueOnError lets a failure of this step pass, as before, but now also an error, such as a step that could not run
    - k8s.delete: { kind: Pod, name: web, continueOnError: true }
    # migrated: continueOnError lets a failure of this step pass, as before, but now also an error, such as a step that could not run
    - extension:
        id: setup_1
        package: k8s
        action: create
        args:
          kind: Pod
          id: 7
          metadata: { name: "web-{{env.X}}", labels: { team: red } }
        continueOnError: true
    # migrated: continueOnError lets a failure of this step pass, as before, but now also an error, such as a step that could not run
    - k8s.currentContext:
        continueOnError: true
    - http:
        url: "http://{env.HOST}:8080/{random.id}"
        body: { json: { a: "{{env.X}}", b: "{c}" } }
        expect:
          status: [ 1xx, 2xx, 3xx, 4xx, 5xx ]
        timeout: 5m
    # migrated: continueOnError lets a failure of this step pass, as before, but now also an error, such as a step that could not run
    - calc.add:
        id: sum
        args: { a: 2 }
        expect: { isError: true }
        timeout: 5m
        continueOnError: true
    # migrated: continueOnError lets a failure of this step pass, as before, but now also an error, such as a step that could not run
    - script: { inline: "true", continueOnError: true }
  prompt: |
    Look at {steps.setup_1.outputs.name}.
    And {{env.Y}} too.
  verify:
    # migrated: continueOnError: true is left out: a failure counted all the same, only the steps after it still ran, as they always do now
    - script:
        inline: test "$OUT" = {x}
        env: { OUT: "{agent.output}", PORT: "8080" }
        timeout: 90s
    # migrated: equals compares JSON values, so that 5 and "5" differ; the older form took them as equal
    - http:
        url: http://localhost/a
        method: POST
        body: "a={{env.X}}"
        expect:
          status: 200
          body:
            matches: '"ok": ?true'
            json:
              - path: items[0].name # the first
                equals: web
                type: string
              - { path: ready, type: boolean }
              - { path: gone, exists: false }
        timeout: 5m
    - llm:
        contains: web
        timeout: 5m
    - calc.add: { id: verify_3, args: { a: 1 }, timeout: 5m, outputs: { content: "{result | json $.content}" } }
    - llm: { exact: "{steps.verify_3.outputs.content}", timeout: 5m }
  # migrated: the last step is run first
  cleanup:
    # the second
    - script: { inline: echo two }
    - script: { inline: echo one }
`;

const judgeForm = `kind: Task
apiVersion: mcpchecker/v1alpha1
metadata: { name: judge, difficulty: hardest }
steps:
  prompt: { file: prompt.txt }
  verify: { contains: "the answer {env.X} to {agent.prompt}" }
`;

const files: Readonly<Record<string, string>> = {
  "verify.sh": "#!/bin/sh\ntest -d .\n",
  "prompt.txt": "Say hi.\n",
};

async function parsed(text: string): Promise<Task> {
  const document = await parseData(new SourceText("task.yaml", text), "yaml");
  const outcome = parseTask(document.value, {
    file: "/tasks/task.yaml",
    dir: "/tasks",
    locate: document.locate,
    files: {
      look: (path) => (path in files ? "file" : "nothing"),
      read: (path) => files[path],
      leaves: () => false,
    },
    servers: [],
    variables: { X: "1", HOST: "h" },
    completeStdio: () => ({ cwd: "/tasks", env: {} }),
    inheritEnv: [],
  });
  if (!outcome.ok) throw new Error(outcome.diagnostics.map(({ message }) => message).join("\n"));
  return outcome.task;
}

function migrated(text: string): string {
  return migrateTask({ text, shown: "task.yaml", name: "task", json: false, read: (file) => files[file] })
    .text;
}

describe("migrating a task", () => {
  it.each([
    ["the script form", scriptForm, migratedScriptForm],
    ["the step form", stepForm, migratedStepForm],
  ])("keeps comments and order of %s", (_, written, expected) => {
    expect(migrated(written)).toBe(expected);
  });

  it.each([
    ["the script form", scriptForm],
    ["the step form", stepForm],
  ])("keeps what %s means", async (_, text) => {
    const [before, after] = [await parsed(text), await parsed(migrated(text))];
    expect(after.portable?.format).toBe("mcp-eval/v1");
    expect(essentials(after)).toEqual(essentials(before));
  });

  it("writes the prompt where the older form has {agent.prompt}", async () => {
    const task = await parsed(migrated(judgeForm));
    expect(task.verify).toMatchObject([{ type: "llm", contains: "the answer {env.X} to Say hi." }]);
    expect(task.portable).toMatchObject({ labels: { difficulty: "hardest" } });
  });

  it("changes nothing in a task of the new form", () => {
    expect(migrated(migratedStepForm)).toBe(migratedStepForm);
  });

  it("takes the first of several documents, and says so", async () => {
    const first = `kind: Task
metadata: { name: t }
steps:
  prompt: { inline: hi }
  verify: { contains: "no" }
`;
    for (const rest of ["---\n", "---\nkind: Other\n"]) {
      const source = { text: first + rest, shown: "t.yaml", name: "t", json: false, read: () => undefined };
      const { text, notes } = migrateTask(source);
      expect((await parsed(text)).name).toBe("t");
      expect(text).not.toContain("Other");
      expect(notes).toContain("only the first document of the file is a task; the others are left out");
    }
  });

  it("writes out merge keys, and words that were booleans", async () => {
    const text = `kind: Task
metadata: { name: t, labels: { on: yes } }
steps:
  prompt: &said { inline: hi }
  verify: { <<: *said, contains: "no" }
`;
    const task = await parsed(migrated(text));
    expect(task.portable?.labels).toEqual({ on: "true" });
    expect(task.turns).toEqual([{ user: "hi" }]);
  });
});

/** What must be the same of a task in both forms: not ids, places, and what only one of the forms can say. */
function essentials({ name, description, turns, verify, portable }: Task): unknown {
  const { setup = [], cleanup = [], labels, difficulty, timeoutMs, cleanupTimeoutMs } = portable ?? {};
  const steps = { setup: setup.map(step), verify: verify.map(step), cleanup: cleanup.map(step) };
  const ids = new Map([...setup, ...verify, ...cleanup].map(({ id }, index) => [id, `step${index}`]));
  const all = { name, description, turns, labels, difficulty, timeoutMs, cleanupTimeoutMs, steps };
  const named = JSON.stringify(all).replaceAll(
    /steps\.([\w-]+)\.outputs/g,
    (_, id: string) => `steps.${ids.get(id) ?? id}.outputs`,
  );
  return JSON.parse(named, (_, value: Json) => (typeof value === "string" ? partsOf(value) : value)) as Json;
}

/** What a text is as a template: an escaped brace and one that needs no escape are the same. */
function partsOf(text: string): Json {
  const isRoot = (root: string): boolean => taskRoots.some((each) => each === root);
  return parseTemplate(text, isRoot).map((part) =>
    typeof part === "string" ? part : { expression: part.text },
  );
}

function step(given: Step): unknown {
  const {
    id: _id,
    failure: _failure,
    continueOnError: _ignored,
    ...rest
  } = given as Step & Record<string, unknown>;
  if (rest.type === "extension") return { ...rest, extension: "", outputs: undefined };
  // The folder of a script that lies beside the task is the task's.
  if (rest.type === "script") return { ...rest, workdir: "task" };
  if (rest.type !== "http") return rest;
  const { status, body } = rest.expect;
  const json = body?.json?.map(({ loose: _loose, path, ...each }) => ({
    path: path.replace(/^\$\./, ""),
    ...each,
  }));
  // Every class of status is as good as none.
  return { ...rest, expect: { status: status.length === 5 ? [] : status, body: body && { ...body, json } } };
}

/** Nothing listens at the address. */
function unreachable(address: string): string {
  return `kind: Task
apiVersion: mcpchecker/v1alpha2
metadata: { name: unreachable }
spec:
  setup:
    - http:
        url: ${address}/
        expect: { status: 200, body: { match: ok } }
  prompt: { inline: hi }
  verify:
    - script: { inline: "test -d ." }
`;
}

describe("mcpvals migrate", () => {
  it("prints the task, and what could not be kept on stderr", async () => {
    const outcome = await runIn({ "judge.yaml": judgeForm, ...files }, ["migrate", "judge.yaml"]);
    expect(outcome).toEqual({
      code: 0,
      stdout: migrated(judgeForm),
      stderr:
        "note: judge.yaml: metadata.difficulty: the difficulty is a label, as it is none of easy, medium, hard\n",
    });
  });

  it("keeps a setup that cannot reach its server an error", async () => {
    using folder = folderOf({ "old.yaml": unreachable(await closedAddress()) });
    const out = await runHere(["migrate", "old.yaml", "--out", "new"], { cwd: folder.path });
    const lost =
      'in setup nothing depended on what was expected, so it is left out: {"status":200,"body":{"match":"ok"}}';
    expect(out.stderr).toContain(`note: old.yaml: spec.setup[0].http: ${lost}\n`);
    const migratedText = readFileSync(join(folder.path, "new/old.yaml"), "utf8");
    expect(migratedText).toContain(`    # migrated: ${lost}\n    - http:`);
    for (const file of ["old.yaml", "new/old.yaml"]) {
      const { code, stdout } = await runHere(["run", file, "--agent", "null"], { cwd: folder.path });
      expect([file, code, stdout.includes("ECONNREFUSED")]).toEqual([file, 3, true]);
    }
  });

  it("writes into the file, or into another folder, where it replaces nothing without --force", async () => {
    using folder = folderOf({ "a.yaml": scriptForm, "b.yaml": judgeForm, ...files });
    const migrate = (...args: readonly string[]) => runHere(["migrate", ...args], { cwd: folder.path });
    const read = (file: string): string => readFileSync(join(folder.path, file), "utf8");
    expect(await migrate("a.yaml", "b.yaml", "--out", "new")).toMatchObject({ code: 0, stdout: "" });
    expect([read("new/a.yaml"), read("a.yaml")]).toEqual([migratedScriptForm, scriptForm]);
    writeFileSync(join(folder.path, "new/a.yaml"), "mine");
    const refused = await migrate("a.yaml", "--out", "new");
    expect(refused).toMatchObject({ code: 2, stdout: "" });
    expect(refused.stderr).toContain(
      `${join(folder.path, "new/a.yaml")} is there already (usage/invalid-option)`,
    );
    expect(read("new/a.yaml")).toBe("mine");
    expect((await migrate("a.yaml", "--out", "new", "--force")).code).toBe(0);
    expect(await migrate("a.yaml", "--write")).toMatchObject({ code: 0, stdout: "" });
    expect([read("new/a.yaml"), read("a.yaml")]).toEqual([migratedScriptForm, migratedScriptForm]);
  });

  it("takes the packages of extensions from an Eval", async () => {
    const old = `kind: Task
apiVersion: mcpchecker/v1alpha2
metadata: { name: x }
spec:
  requires:
    - extension: kubernetes
      as: k8s
    - extension: mine
  prompt: { inline: hi }
  verify:
    - k8s.wait: {}
    - mine.look: {}
`;
    const extensions = `{ kubernetes: { package: "https://github.com/o/k@v1" }, mine: { package: ./mine } }`;
    const evaluation = `kind: Eval\nconfig:\n  extensions: ${extensions}\n  taskSets: [{ path: a.yaml }]\n`;
    using folder = folderOf({ "a.yaml": old, "eval.yaml": evaluation, mine: "#!/bin/sh\n" });
    const outcome = await runHere(["migrate", "a.yaml", "--eval", "eval.yaml", "--write"], {
      cwd: folder.path,
    });
    const note = "say where mine comes from: github.com/ORG/REPO@VERSION, as in the Eval's config.extensions";
    expect(outcome).toMatchObject({ code: 0, stdout: "" });
    expect(outcome.stderr).toMatch(`note: a.yaml: spec.imports: ${note}\n`);
    expect(outcome.stderr).not.toContain("where kubernetes comes from");
    expect(readFileSync(join(folder.path, "a.yaml"), "utf8")).toContain(`  imports:
    - package: https://github.com/o/k@v1
      as: k8s
    # migrated: ${note}
    - package: mine
      as: mine
`);
    writeFileSync(join(folder.path, "a.yaml"), old);
    const named = await runHere(["migrate", "eval.yaml", "--write"], { cwd: folder.path });
    expect(named).toEqual(outcome);
    expect(readFileSync(join(folder.path, "eval.yaml"), "utf8")).toBe(evaluation);
    const loaded = await load({ sources: ["eval.yaml"], cwd: folder.path, environment: {} });
    const specs = Object.values(loaded.eval.tasks[0]?.portable?.extensions ?? {});
    expect(specs.map((spec) => [spec.alias, spec.package, spec.dir])).toEqual([
      ["k8s", "https://github.com/o/k@v1", folder.path],
      ["mine", "./mine", folder.path],
    ]);
    const wrong = await runHere(["migrate", "a.yaml", "--eval", "a.yaml"], { cwd: folder.path });
    expect(wrong).toMatchObject({ code: 2, stdout: "" });
    expect(wrong.stderr).toContain("a.yaml is not an Eval: its kind is not Eval");
  });

  it.each([
    [
      "an Eval without tasks",
      "kind: Eval\nmetadata: { name: e }\n",
      "the task sets of x.yaml name no file of kind Task",
    ],
    [
      "an Eval with a glob as a path",
      "kind: Eval\nconfig: { taskSets: [{ path: a.yaml }, { path: '*.yaml' }] }\n",
      "config.taskSets[1]: no file of kind Task is at the path *.yaml",
    ],
    ["a task that is wrong", scriptForm.replace("verify.sh", "none.sh"), 'there is no file "none.sh"'],
    ["a task without verify", "kind: Task\nsteps: { prompt: { inline: hi } }\n", "x.yaml has no verify step"],
  ])("refuses %s and writes nothing", async (_, text, message) => {
    using folder = folderOf({ "a.yaml": scriptForm, "x.yaml": text, ...files });
    const outcome = await runHere(["migrate", "a.yaml", "x.yaml", "--write"], { cwd: folder.path });
    expect(outcome).toMatchObject({ code: 2, stdout: "" });
    expect(outcome.stderr).toContain(message);
    expect(readFileSync(join(folder.path, "a.yaml"), "utf8")).toBe(scriptForm);
  });
});

import { expect, it } from "vitest";
import type { Task } from "../../src/model/task.ts";
import type { EventBody } from "../../src/model/event.ts";
import { consoleReporter } from "../../src/report/console.ts";
import { brokenTrial, play, request, response, sampleRun, type SampleTrial, textResult } from "./samples.ts";
import { captureOutput } from "./screen.ts";
import { failedCheck, gradedTrial, heldCheck, portableTask, stepEvents } from "./step-runs.ts";
import type { SerializedError } from "../../src/base/serialized-error.ts";

/** The console's report of trials of tasks with steps. */
async function printed(
  ...trials: readonly (readonly [Task, SampleTrial | Promise<SampleTrial>])[]
): Promise<string> {
  const output = captureOutput();
  const run = sampleRun({
    name: "shop",
    tasks: trials.map(([task]) => task),
    trials: await Promise.all(trials.map(async ([, trial]) => await trial)),
    agents: [{ name: "oracle", type: "oracle" }],
  });
  await play(run, consoleReporter(output));
  return output.text();
}

function graded(
  name: string,
  verify: Parameters<typeof portableTask>[1],
  ...events: readonly EventBody[]
): [Task, Promise<SampleTrial>] {
  const task = portableTask(name, verify);
  return [task, gradedTrial(task, events)];
}

function broken(
  name: string,
  verify: readonly string[],
  error: SerializedError,
  ...events: readonly EventBody[]
): [Task, SampleTrial] {
  const task = portableTask(name, verify);
  return [task, brokenTrial(task, error, { agent: "oracle", events })];
}

const noUpstream = failedCheck("exit code", "it exited with 7, expected 0: connection refused", 0, {
  exitCode: 7,
  stderr: "curl: (7) Failed to connect\nconnection refused",
});

it("tells of each failed step its name, its place, what it worked with, and what was expected and there", async () => {
  const text = await printed(
    graded(
      "serve a page",
      ["started", ["page", "the page answers"]],
      ...stepEvents("started", { checks: [heldCheck("exit code", "it exited with 0")] }),
      ...[1, 2, 3].flatMap((attempt) =>
        stepEvents("page", {
          type: "http",
          name: "the page answers",
          attempt,
          input: { method: "GET", url: "http://127.0.0.1:8080/health", headers: {} },
          checks: [failedCheck("status", "it is 503", "2xx", 503)],
        }),
      ),
    ),
    graded(
      "roll out to all hosts",
      ["hosts", "switch", "absent"],
      ...stepEvents(
        "hosts",
        {
          type: "foreach",
          input: { var: "host", in: ["alpha", "beta"] },
          checks: [heldCheck("alpha"), failedCheck("beta", "it exited with 7, expected 0", 0, 7)],
        },
        [
          ...stepEvents("hosts[0]/up", { parent: "hosts[0]", checks: [heldCheck("exit code")] }),
          ...stepEvents("hosts[1]/up", {
            parent: "hosts[1]",
            input: { run: "curl --fail http://beta:8080\necho done" },
            checks: [noUpstream],
          }),
        ],
      ),
      ...stepEvents(
        "switch",
        {
          type: "anyOf",
          input: { steps: 2 },
          checks: [failedCheck("anyOf", "none of 2 alternatives holds", 1, [])],
        },
        ["blue", "green"].flatMap((color) =>
          stepEvents(`switch/${color}`, {
            type: "file",
            parent: "switch",
            input: { path: `${color}.txt` },
            checks: [failedCheck("exists", "there is no such file", true, false)],
          }),
        ),
      ),
      ...stepEvents(
        "absent",
        {
          type: "not",
          input: { steps: 1 },
          checks: [
            failedCheck("not", "it holds: old: exit code: it exited with 0", "does not hold", "holds"),
          ],
        },
        stepEvents("absent/old", { parent: "absent", checks: [heldCheck("exit code", "it exited with 0")] }),
      ),
    ),
    graded(
      "call a tool",
      ["sum"],
      ...stepEvents(
        "sum",
        {
          type: "mcp",
          input: { tool: "get-sum", args: { a: 2, b: 3 } },
          checks: [failedCheck("text", 'does not contain "6"', "6", "The sum of 2 and 3 is 5.")],
        },
        [request(1, "get-sum", { a: 2, b: 3 }), response(1, textResult("The sum of 2 and 3 is 5."))],
      ),
    ),
    graded(
      "write the settings",
      ["settings", "restart"],
      ...stepEvents("settings", {
        type: "file",
        input: { path: "settings.ini" },
        checks: [
          failedCheck(
            "content",
            "is another text",
            "[a]\nport = 80\nname = x\n",
            "[a]\nport = 81\nname = x\n",
          ),
          failedCheck(
            "json $.a",
            "differs at $.a.port",
            { port: 80, tags: ["x"] },
            { port: 81, tags: ["x"] },
          ),
        ],
      }),
      ...stepEvents("restart", {
        ignored: true,
        checks: [failedCheck("exit code", "it exited with 5, expected 0", 0, 5)],
      }),
    ),
  );
  expect(text).toBe(String.raw`mcpvals 0.1.0  shop
4 tasks · agent oracle (the task's own solution, not a model)

  ✗ serve a page               41 ms  score 0.50
  ✗ roll out to all hosts      41 ms  score 0.25
  ✗ call a tool                41 ms
  ✗ write the settings         41 ms

Failed

  ✗ serve a page  t1
    verify-steps 0.50  the page answers: status: it is 503 (3 attempts)
      step      the page answers  (http in verify, 3 attempts in 20 ms, event 9)
      input     GET http://127.0.0.1:8080/health
      expected  "2xx"

  ✗ roll out to all hosts  t2
    verify-steps 0.25  4 checks do not hold
      step      hosts (host="beta") › up  (command in verify, event 6)
      input     $ curl --fail http://beta:8080 ⏎ echo done
      check     exit code: it exited with 7, expected 0: connection refused
      stderr    │ curl: (7) Failed to connect
                │ connection refused
      step      switch: no alternative holds  (anyOf in verify, event 13)
      step      switch › blue  (file in verify, event 10)
      input     blue.txt
      check     exists: there is no such file
      expected  true
      actual    false
      step      switch › green  (file in verify, event 12)
      input     green.txt
      check     exists: there is no such file
      expected  true
      actual    false
      step      absent  (not in verify, event 17)
      check     not: it holds: old: exit code: it exited with 0
      expected  does not hold

  ✗ call a tool  t3
    verify-steps 0.00  text: does not contain "6"
      step      sum  (mcp in verify, event 5)
      actual    "The sum of 2 and 3 is 5."
      call      get-sum {"a":2,"b":3}  (event 3, 4 ms)

  ✗ write the settings  t4
    verify-steps 0.00  2 checks do not hold
      step      settings  (file in verify, event 3)
      input     settings.ini
      check     content: is another text
      diff      │ - expected  + actual
                │   [a]
                │ - port = 80
                │ + port = 81
                │   name = x
      check     json $.a: differs at $.a.port
      diff      │ - expected  + actual
                │   {
                │ -   "port": 80,
                │ +   "port": 81,
                │     "tags": [
                │       "x"
                │   …

Warnings

  - write the settings: verify step "restart" failed, which changes no verdict: exit code: it exited with 5, expected 0

  4 failed · 4 trials in 3.2 s · no model took part

  FAIL   exit 1
`);
});

it("tells of a trial that broke which step broke it, and of skipped ones what they lack, once", async () => {
  const message = "setup failed: create the schema: exit code: it exited with 1, expected 0: no such table";
  const late = {
    code: "step/timeout",
    kind: "timeout",
    message: "step queue: it took longer than 500 ms",
  } as const;
  const lacking = ["asks the cluster", "rolls back"].map((name) => {
    const reason = "requirements not met: command kubectl";
    const [task, { result, events }] = broken(name, ["pods"], {
      code: "task/missing-requirement",
      kind: "environment",
      message: reason,
    });
    return [task, { result: { ...result, verdict: "skip" }, events }] as const;
  });
  const text = await printed(
    broken(
      "needs a database",
      ["rows"],
      { code: "task/setup-failed", kind: "environment", message },
      ...stepEvents("setup[0]", {
        phase: "setup",
        name: "create the schema",
        input: { run: "psql --file schema.sql" },
        checks: [
          failedCheck("exit code", "it exited with 1, expected 0: no such table", 0, {
            exitCode: 1,
            stderr: "connected\nno such table",
          }),
        ],
      }),
    ),
    broken(
      "waits for the queue",
      ["queue"],
      late,
      ...stepEvents("ready", { checks: [heldCheck("exit code")] }),
      ...stepEvents("queue", {
        type: "http",
        outcome: "timeout",
        input: { method: "GET", url: "http://127.0.0.1:1/queue" },
        error: late,
      }),
    ),
    ...lacking,
    graded(
      "reads the file",
      ["content"],
      ...stepEvents("content", { checks: [failedCheck("exists", "it is not there", true, false)] }),
      ...stepEvents("content", { attempt: 2, checks: [heldCheck("exists", "it is there")] }),
    ),
  );
  expect(text).toBe(String.raw`mcpvals 0.1.0  shop
5 tasks · agent oracle (the task's own solution, not a model)

  ! needs a database         41 ms  task/setup-failed
  ! waits for the queue      41 ms  timeout
  - asks the cluster         41 ms  skipped
  - rolls back               41 ms  skipped
  ✓ reads the file           41 ms

Errors  not judged: the environment broke or time ran out

  ! needs a database  t1
    task/setup-failed  setup failed: create the schema: exit code: it exited with 1, expected 0: no such table
    The step's checks, shown with the error, give the expected and the actual values.
      step      create the schema  (command in setup, event 2)
      input     $ psql --file schema.sql
      stderr    │ connected
                │ no such table

  ! waits for the queue  t2
    step/timeout  step queue: it took longer than 500 ms
    If it is only slow, raise the step's timeout.
      step      queue  (http in verify, event 4)
      input     GET http://127.0.0.1:1/queue

Skipped

  - 2 trials: requirements not met: command kubectl
    asks the cluster, rolls back

  1 passed · 1 error · 1 timeout · 2 skipped · 5 trials in 3.2 s · no model took part

  INCOMPLETE   exit 3
  Incomplete: 0 failed, 2 not evaluated (1 error, 1 timeout).
`);
});

it("leaves it to the message what a program found that judges by itself, every line of it", async () => {
  const rows = stepEvents("rows", {
    type: "extension",
    input: { extension: "db", operation: "expect", args: { sql: "SELECT a FROM t" } },
    checks: [
      failedCheck("db.expect", "the rows differ (- expected, + found):\n   a\n-  2\n+  1", true, false),
    ],
  });
  const look = stepEvents("look", {
    type: "script",
    checks: [failedCheck("tidy", "there is dust", true, false)],
  });
  const ready = stepEvents("ready", {
    type: "http",
    checks: [failedCheck("body $.ready", "it differs", true, false)],
  });
  const shown = await printed(
    graded("one", ["rows"], ...rows),
    graded("all", ["rows", "look", "ready"], ...rows, ...look, ...ready),
  );
  expect(shown.slice(shown.indexOf("Failed"), shown.indexOf("  2 failed")).replaceAll(/ +$/gm, "")).toBe(
    `Failed

  ✗ one  t1
    verify-steps 0.00  db.expect: the rows differ (- expected, + found):
      │    a
      │ -  2
      │ +  1
      step      rows  (extension in verify, event 3)
      input     db.expect {"sql":"SELECT a FROM t"}

  ✗ all  t2
    verify-steps 0.00  3 checks do not hold
      step      rows  (extension in verify, event 3)
      input     db.expect {"sql":"SELECT a FROM t"}
      check     │ db.expect: the rows differ (- expected, + found):
                │    a
                │ -  2
                │ +  1
      step      look  (script in verify, event 5)
      check     tidy: there is dust
      step      ready  (http in verify, event 7)
      check     body $.ready: it differs
      expected  true
      actual    false

`,
  );
});

import { resolve } from "node:path";
import { describe, expect, it } from "vitest";
import { prepare } from "../../src/run/prepare.ts";
import { folderOf } from "../support/cli.ts";
import { load, loadIn, problems } from "./support/load.ts";

const task = (name: string, spec: string): string => `apiVersion: mcp-eval/v1
kind: Task
metadata: { name: ${name} }
spec:
  prompt: hi
  verify: [{ command: { run: "test -d ." } }]
${spec}`;

const config = `servers:
  db: { transport: stdio, command: node, args: [good.js], cwd: work, env: { A: "1" } }
  web: { transport: shttp, url: "http://x/mcp" }
variants:
  good: {}
  bad: { servers: { db: { args: [bad.js], env: { A: null, B: "2" } } } }
  alone: { servers: { web: null, new: { command: extra } } }
tasks: [tasks/*.yaml]
workflows:
  - { name: all, steps: [{ user: hi, expectedState: x }] }
  - { name: one, servers: [web], steps: [{ user: hi, expectedState: x }] }
`;

/** What a trial of each task starts, by variant and task: command and arguments, or the address. */
async function tables(files: Readonly<Record<string, string>>): Promise<unknown> {
  const { eval: spec } = await loadIn(files);
  const variants = (spec.variants ?? []).map(({ name, servers }) => {
    const byTask = Object.entries(servers).map(([each, table]) => {
      const started = Object.entries(table).map(([server, made]) => {
        const what = made.transport === "stdio" ? [made.command, ...made.args].join(" ") : made.transport;
        return [server, what];
      });
      return [each, Object.fromEntries(started)];
    });
    return [name, Object.fromEntries(byTask)];
  });
  return Object.fromEntries(variants);
}

describe("variants of a config", () => {
  it("are complete tables by task and server", async () => {
    expect(
      await tables({
        "mcp-eval.config.yaml": config,
        "tasks/a.yaml": task("plain", ""),
        "tasks/b.yaml": task("parts", "  servers: { db: { args: [task.js] }, web: null }\n"),
        "tasks/c.yaml": task("own", "  servers: { db: { command: own }, mine: { url: 'http://y' } }\n"),
        "tasks/d.yaml": task("empty", "  servers: { inherit: false, mine: { command: me } }\n"),
      }),
    ).toEqual({
      good: {
        all: { db: "node good.js", web: "shttp" },
        one: { web: "shttp" },
        plain: { db: "node good.js", web: "shttp" },
        parts: { db: "node task.js" },
        own: { db: "own", web: "shttp", mine: "shttp" },
        empty: { mine: "me" },
      },
      bad: {
        all: { db: "node bad.js", web: "shttp" },
        one: { web: "shttp" },
        plain: { db: "node bad.js", web: "shttp" },
        parts: { db: "node task.js" },
        own: { db: "own", web: "shttp", mine: "shttp" },
        empty: { mine: "me" },
      },
      alone: {
        all: { db: "node good.js", new: "extra" },
        one: {},
        plain: { db: "node good.js", new: "extra" },
        parts: { db: "node task.js", new: "extra" },
        own: { db: "own", new: "extra", mine: "shttp" },
        empty: { mine: "me" },
      },
    });
  });

  it("have the servers that steps of tasks name, unless the task requires them", async () => {
    const steps = `    - not:
        - web.get: { id: inner, args: {} }
    - mcp: { server: web, tool: get }
    - http: { url: "{servers.web.url}/x" }
    - db.get: { args: {} }
`;
    const own = "  servers: { web: { url: 'http://y' } }\n";
    using folder = folderOf({
      "mcp-eval.config.yaml": config,
      "tasks/a.yaml": task("named", "").replace("[{", `\n${steps}    - {`).replace("}]\n", "}\n"),
      "tasks/b.yaml": task("required", `  requires: [{ server: web }]\n  setup:\n${steps}`),
      "tasks/c.yaml": task("own", `${own}  setup:\n${steps}`),
      "tasks/d.yaml": task("part", `  servers: { web: { headers: { A: b } } }\n  setup:\n${steps}`),
    });
    const lost = 'calls the server "web", which the variant "alone" lacks';
    const address = '{servers.web.url} names no server in the variant "alone"';
    expect(await problems(folder.path)).toEqual([
      `tasks/a.yaml:8:11 config/unknown-reference step inner of the task "named" ${lost}`,
      `tasks/a.yaml:9:22 config/unknown-reference step verify[1] of the task "named" ${lost}`,
      `tasks/a.yaml:10:21 config/unknown-reference spec.verify[2].http.url: ${address}`,
      `tasks/d.yaml:10:11 config/unknown-reference step inner of the task "part" ${lost}`,
      `tasks/d.yaml:11:22 config/unknown-reference step setup[1] of the task "part" ${lost}`,
      `tasks/d.yaml:12:21 config/unknown-reference spec.setup[2].http.url: ${address}`,
    ]);
  });

  it("are chosen by name", async () => {
    const loaded = await loadIn({ "mcp-eval.config.yaml": config, "tasks/a.yaml": task("a", "") });
    const names = (variants: readonly string[]): unknown =>
      prepare(loaded, { variants }).eval.variants?.map(({ name }) => name);
    expect(names(["bad", "good"])).toEqual(["good", "bad"]);
    expect(names([])).toEqual(["good", "bad", "alone"]);
    expect(() => names(["bda"])).toThrowError(
      expect.objectContaining({
        code: "usage/no-match",
        message: 'no variant is named "bda"',
        details: { hint: 'Did you mean "bad"? Known variants: good, bad, alone.' },
      }),
    );
  });
});

describe("servers of a task", () => {
  it("changed in part start from the task's folder only where it says so", async () => {
    using folder = folderOf({
      "mcp-eval.config.yaml": "server: { transport: stdio, command: node }\ntasks: [tasks/*.yaml]\n",
      "tasks/a.yaml": task("a", "  servers: { default: { lifetime: per_run } }\n"),
      "tasks/b.yaml": task("b", "  servers: { default: { cwd: sub } }\n"),
    });
    const { taskServers = {} } = (await load(folder.path)).eval;
    expect(taskServers).toMatchObject({
      a: { default: { cwd: folder.path, lifetime: "per_run" } },
      b: { default: { cwd: resolve(folder.path, "tasks/sub") } },
    });
  });

  it("are told with their places when they are wrong", async () => {
    using folder = folderOf({
      "mcp-eval.config.yaml": "server: { transport: stdio, command: node }\ntasks: [tasks/*.yaml]\n",
      "tasks/a.yaml": task("a", "  servers:\n    default: { args: x }\n    defult: { args: [] }\n"),
      "tasks/c.yaml": task("c", "  servers:\n    defult: { args: [] }\n    gone: null\n"),
      "tasks/b.yaml": task("b", "  elicitation: [{ server: other, action: decline }]\n"),
    });
    expect(await problems(folder.path)).toEqual([
      "tasks/a.yaml:8:22 config/invalid-value spec.servers.default.args must be a list, not a string",
      'tasks/b.yaml:7:27 config/unknown-reference no server is named "other"',
      'tasks/c.yaml:8:5 config/unknown-reference no server of the eval is named "defult"',
      'tasks/c.yaml:9:11 config/unknown-reference no server of the eval is named "gone"',
    ]);
  });

  it("have answers to what servers ask", async () => {
    using folder = folderOf({
      "mcp-eval.config.yaml": "server: { transport: stdio, command: node }\ntasks: [a.yaml]\n",
      "a.yaml": task("a", "  elicitation: [{ message: name, action: accept, content: { name: x } }]\n"),
    });
    expect((await load(folder.path)).eval.tasks[0]?.elicitation).toEqual([
      { message: "name", action: "accept", content: { name: "x" } },
    ]);
  });
});

it("keeps client secrets of tasks secret that are templates", async () => {
  using folder = folderOf({
    "mcp-eval.config.yaml": "server: { transport: stdio, command: node }\ntasks: [a.yaml]\n",
    "a.yaml": task(
      "a",
      `  env: { LOGIN: "{env.SHELL_LOGIN}" }
  servers: { c: { url: "http://x", auth: { type: client-credentials, clientId: me, clientSecret: "{env.SHELL_LOGIN}" } } }
`,
    ),
  });
  const { secrets } = await load(folder.path, { environment: { SHELL_LOGIN: "secret-of-login" } });
  expect(secrets.map(({ name, value }) => [name, value])).toContainEqual(["clientSecret", "secret-of-login"]);
});

it("keeps tokens and client secrets of servers, variants and agents secret", async () => {
  using folder = folderOf({
    "mcp-eval.config.yaml": `servers:
  a: { transport: shttp, url: "http://x/mcp", auth: { type: bearer, token: "token-of-bearer" } }
  b: { transport: shttp, url: "http://x/mcp", auth: { type: client-credentials, clientId: me, clientSecret: "secret-of-client" } }
variants:
  v: { servers: { a: { headers: { X-Key: "header-of-variant" } } } }
agents:
  program: { type: acp, preset: gemini, env: { MY_TOKEN: "token-of-agent" }, inheritEnv: [SHELL_TOKEN] }
workflows: [{ name: w, steps: [{ user: hi, expectedState: x }] }]
`,
  });
  const environment = { SHELL_TOKEN: "token-of-shell", GEMINI_API_KEY: "key-of-gemini", PATH: "/bin" };
  const { secrets, eval: spec } = await load(folder.path, { environment });
  expect(secrets.map(({ value }) => value)).toEqual(
    expect.arrayContaining([
      "token-of-bearer",
      "secret-of-client",
      "header-of-variant",
      "token-of-agent",
      "token-of-shell",
      "key-of-gemini",
    ]),
  );
  expect(spec.agents[0]).toMatchObject({
    env: { MY_TOKEN: "token-of-agent", SHELL_TOKEN: "token-of-shell", GEMINI_API_KEY: "key-of-gemini" },
  });
});

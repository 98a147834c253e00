import { describe, expect, it } from "vitest";
import { renderError } from "../../src/base/error.ts";
import { folderOf } from "../support/cli.ts";
import { failure, problems, problemsIn } from "./support/load.ts";

interface Case {
  /** Code and message. */
  readonly problem: string;
  /** Texts with a `▶` in front of what the message points at. */
  readonly yaml?: string;
  readonly json?: string;
}

const server = "server: {transport: stdio, command: x}";
const jsonServer = '"server": {"transport": "stdio", "command": "x"}';
const stdio = { transport: "stdio", command: "x" };
const flow = "steps: [{user: u, expectedState: s}]";
const jsonFlow = '"steps": [{"user": "u", "expectedState": "s"}]';
const suite = "toolHealthSuites: [{name: s, tests: [{name: t}]}]";
const jsonSuite = '"toolHealthSuites": [{"name": "s", "tests": [{"name": "t"}]}]';
const suites = [{ name: "s", tests: [{ name: "t" }] }];

const cases: readonly Case[] = [
  {
    problem: 'config/unknown-key unknown key "expectTool" in workflows[0]',
    yaml: `${server}\nworkflows:\n  - name: a\n    ${flow}\n    ▶expectTool: [t]\n`,
    json: `{\n  ${jsonServer},\n  "workflows": [{"name": "a", ${jsonFlow}, ▶"expectTool": ["t"]}]\n}`,
  },
  {
    problem: 'config/missing-key missing key "command" in server: a string',
    yaml: `server:\n  ▶transport: stdio\n${suite}\n`,
    json: `{\n  "server": ▶{"transport": "stdio"},\n  ${jsonSuite}\n}`,
  },
  {
    problem: 'config/missing-key missing key "server" or "servers"',
    yaml: `# first\n▶${suite}\n`,
    json: `\n  ▶{${jsonSuite}}`,
  },
  {
    problem: "config/invalid-value workflows[0].steps[1].user must be a string or an object, not a number",
    yaml: `${server}\nworkflows:\n- name: a\n  steps:\n  - {user: u, expectedState: s}\n  - user: ▶5\n`,
    json: `{${jsonServer},\n"workflows": [{"name": "a", "steps": [{"user": "u", "expectedState": "s"},\n{"user": ▶5}]}]}`,
  },
  {
    problem: "config/invalid-value trials must be at most 10000",
    yaml: `${server}\n${suite}\ntrials:   ▶10001`,
    json: `{${jsonServer},\r\n${jsonSuite},\r\n\t"trials" :\t▶10001}`,
  },
  {
    problem: "config/invalid-value server.command must be a string, not empty (null)",
    yaml: `server:\n  transport: stdio\n  command:▶\n${suite}`,
    json: `{"server": {"transport": "stdio", "command": ▶null}, ${jsonSuite}}`,
  },
  {
    problem: 'config/duplicate-name two workflows are named "a": workflows[0].name and workflows[1].name',
    yaml: `${server}\nworkflows:\n  - name: a\n    ${flow}\n  - ${flow}\n    name: ▶"a"\n`,
    json: `{${jsonServer}, "workflows": [\n{"name": "a", ${jsonFlow}},\n{"name": ▶"a", ${jsonFlow}}]}`,
  },
  {
    problem: 'config/unknown-reference no finding has the code "client/openai-strickt"',
    yaml: `${server}\n${suite}\ncheck:\n  disable:\n    - client/long-name\n    - ▶client/openai-strickt\n`,
    json: `{${jsonServer}, ${jsonSuite}, "check": {"disable": [▶"client/openai-strickt"]}}`,
  },
  {
    problem: 'agent/no-plan agent.plan has no plan for the workflow "a"',
    yaml: `${server}\nworkflows: [{name: a, ${flow}}]\nagent:\n  type: scripted\n  ▶plan: {}\n`,
    json: `{${jsonServer}, "workflows": [{"name": "a", ${jsonFlow}}],\n"agent": {"type": "scripted", ▶"plan": {}}}`,
  },
  {
    problem: "config/unset-variable server.env.URL: the variable HOST is not set",
    yaml: `server:\n  transport: stdio\n  command: x\n  env:\n    URL: "http://▶\${HOST}:\${PORT:-80}"\n${suite}`,
    json: `{"server": {"transport": "stdio", "command": "x",\n"env": {"URL": "http://▶\${HOST}:\${PORT:-80}"}}, ${jsonSuite}}`,
  },
  {
    problem: 'config/invalid-value server.args[1]: invalid variable syntax after "${"',
    yaml: `server:\n  transport: stdio\n  command: x\n  args:\n    - a\n    - ▶b \${c.d}\n${suite}`,
    json: `{"server": {"transport": "stdio", "command": "x", "args": ["a",\n▶"b \${c.d}"]}, ${jsonSuite}}`,
  },
  {
    problem: 'config/syntax duplicate key "name"',
    yaml: `${server}\nworkflows:\n  - name: a\n    ▶name: b\n`,
    json: `{"workflows": [{"name": "a",\n  ▶"name": "b"}]}`,
  },
  { problem: "config/syntax the file is empty", yaml: "▶", json: "▶" },
  {
    problem: "config/syntax the file holds more than one document; a config is one",
    yaml: `${server}\n▶---\n${server}\n`,
  },
  {
    problem: "config/syntax a tab is used as indentation; YAML wants spaces",
    yaml: "server:\n▶\ttransport: stdio\n",
  },
  { problem: 'config/syntax no anchor is named "base"', yaml: `${server}\nagents: {a: ▶*base}\n` },
  { problem: "config/syntax a comment", json: '{\n  ▶// the server\n  "server": {}\n}' },
  { problem: "config/syntax expected a key in double quotes", json: '{\n  "trials": 1,\n▶}\n' },
];

/** The text without its marker, and where that was. */
function unmark(marked: string): { text: string; place: string } {
  const before = marked.slice(0, marked.indexOf("▶")).split("\n");
  const text = marked.replace("▶", "");
  return { text, place: `${before.length}:${(before.at(-1) ?? "").length + 1}` };
}

const texts = cases.flatMap(({ yaml, json, ...rest }) => [
  ...(yaml === undefined ? [] : [{ ...rest, ending: "yaml", marked: yaml }]),
  ...(json === undefined ? [] : [{ ...rest, ending: "json", marked: json }]),
]);

describe("points at the line and column", () => {
  it.each(texts)("of $problem in $ending: $marked", async ({ problem, ending, marked }) => {
    const { text, place } = unmark(marked);
    const file = `mcp-eval.config.${ending}`;
    expect(await problemsIn({ [file]: text })).toEqual([`${file}:${place} ${problem}`]);
  });

  it.each(texts.filter(({ marked }) => !marked.includes("\r")))(
    "of $problem in $ending with a BOM and CRLF",
    async ({ problem, ending, marked }) => {
      const { text, place } = unmark(marked);
      const file = `mcp-eval.config.${ending}`;
      expect(await problemsIn({ [file]: `\uFEFF${text.replaceAll("\n", "\r\n")}` })).toEqual([
        `${file}:${place} ${problem}`,
      ]);
    },
  );
});

it.each([
  [{ toolHealthSuites: suites }, "config/missing-key", undefined],
  [{ server: { ...stdio, "a b": 1 }, toolHealthSuites: suites }, "config/unknown-key", 'server["a b"]'],
  [
    { server: { ...stdio, args: ["a", "b ${c.d}"] }, toolHealthSuites: suites },
    "config/invalid-value",
    "server.args[1]",
  ],
])("gives the key path of a problem with a config that is a value: %j", async (source, code, path) => {
  const error = await failure("/", { source: source as object as never });
  const location = path === undefined ? { file: "(config)" } : { file: "(config)", path };
  expect(error.details.diagnostics).toMatchObject([{ code, location }]);
  expect(error.details.diagnostics?.[0]?.location).toEqual(location);
});

it("names the other place of two equal names", async () => {
  using folder = folderOf({
    "mcp-eval.config.yaml": `${server}\nworkflows:\n  - name: a\n    ${flow}\n  - name: a\n    ${flow}\n`,
  });
  const error = await failure(folder.path);
  expect(error.details.diagnostics?.[0]?.hint).toBe(
    "The other is at mcp-eval.config.yaml:3:11. Rename one of them.",
  );
});

it("points into what an alias stands for", async () => {
  using folder = folderOf({
    "mcp-eval.config.yaml": `server: &s {transport: stdio, comand: x}\nagents: {a: *s}\n${suite}\n`,
  });
  expect(await problems(folder.path)).toContain(
    'mcp-eval.config.yaml:1:31 config/unknown-key unknown key "comand" in server',
  );
});

it("tells everything at once, in the order of the file, ready to print", async () => {
  using folder = folderOf({
    "mcp-eval.config.yaml": `server:
  transport: stdio
  comand: node
  env: { PORT: 3000, API_KEY: sk-verysecret, HOST: "\${HOST}" }
${suite}
`,
  });
  const printed = renderError(await failure(folder.path));
  expect(printed.match(/^mcp-eval\S+/gm)).toEqual(
    ["2:3", "3:3", "4:16", "4:53"].map((place) => `mcp-eval.config.yaml:${place}:`),
  );
  expect(printed).toContain(`\
mcp-eval.config.yaml:4:16: error server.env.PORT must be a string, not a number (config/invalid-value)
    3 |   comand: node
  > 4 |   env: { PORT: 3000, API_KEY: *************, HOST: "\${HOST}" }
      |                ^^^^
    5 | ${suite}
  hint: Write it in quotes.
`);
  expect(printed.endsWith("\n\n4 problems")).toBe(true);
});

it("tells every YAML mistake, once a line", async () => {
  const found = await problemsIn({ "mcp-eval.config.yaml": 'a: "x\nb: [1, 2\nc: }\n' });
  expect(found.length).toBeGreaterThan(0);
  expect(found.every((each) => /^mcp-eval\.config\.yaml:\d+:\d+ config\/syntax /.test(each))).toBe(true);
  const lines = found.map((each) => each.split(":")[1]);
  expect(new Set(lines).size).toBe(lines.length);
});

it("refuses tags that nobody asked for", async () => {
  using folder = folderOf({ "a.yaml": "a: !thing 1", "b.yaml": "a: !!binary aGk=" });
  expect(await problems(folder.path, { source: "a.yaml" })).toEqual([
    "a.yaml:1:4 config/syntax Unresolved tag: !thing",
  ]);
  expect(await problems(folder.path, { source: "b.yaml" })).toContain(
    "b.yaml:1:13 config/invalid-value a: a Buffer is not JSON",
  );
});

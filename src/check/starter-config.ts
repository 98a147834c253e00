import { stringify } from "yaml";
import { resultText } from "../expect/tool-result.ts";
import type { ParsedServer } from "../model/server.ts";
import {
  isJsonObject,
  type Json,
  type JsonObject,
  mapTexts,
  mapValues,
  withoutUndefined,
} from "../base/json.ts";
import { taskApiVersion } from "../model/task.ts";
import { exchangesOf, readSurface } from "./check-view.ts";
import { visibleText, shortened } from "../base/visible-text.ts";
import type { Trajectory } from "../trace/trajectory.ts";

/** A tool test that a first config has. */
export interface StarterTest {
  readonly server: string;
  readonly tool: string;
  /** What the server says of the tool, in one line. */
  readonly description: string;
  readonly args: JsonObject;
  /** Absent: the call only has to succeed. */
  readonly expectedResult?: Json;
  /** Of a call that only has to succeed, why nothing is expected of its result. */
  readonly openBecause?: string;
  /** Whether the server has to refuse the call. */
  readonly isRefused?: boolean;
}

/** A tool without a test, which the config has as a comment. */
export interface UntestedTool extends StarterTest {
  /** Why it has none, such as `not annotated readOnlyHint: true`. */
  readonly reason: string;
}

/** What a first config is made of. */
export interface StarterParts {
  /** Path of the JSON Schema of configs, relative to the folder of the config; absent: an editor can find none. */
  readonly schema?: string | undefined;
  readonly servers: Readonly<Record<string, JsonObject>>;
  readonly tests: readonly StarterTest[];
  readonly untested: readonly UntestedTool[];
}

/**
 * Makes a tool test of the first successful call of each tool in a trial that made planned calls. Nothing is expected of a result that
 * has one of `local`: texts that are others on another machine, or on another day.
 */
export function testsOfCalls(
  { task, calls, exchanges }: Trajectory,
  local: readonly string[],
): readonly StarterTest[] {
  const planned = (task.check?.calls ?? []).filter(({ expects }) => expects === "result");
  const [server = ""] = task.servers;
  const { tools } = readSurface(exchangesOf(exchanges, "initialize", "tools/list"));
  const names = [...new Set(planned.map(({ tool }) => tool))];
  return names.flatMap((tool): StarterTest[] => {
    const valid = planned.filter((call) => call.tool === tool).map(({ args }) => JSON.stringify(args));
    const call = calls.find(
      ({ tool: called, args, result }) =>
        called === tool &&
        result !== undefined &&
        result["isError"] !== true &&
        valid.includes(JSON.stringify(args)),
    );
    if (call?.result === undefined || !isJsonObject(call.args)) return [];
    const definition = tools.find(({ name }) => name === tool)?.definition ?? {};
    const expectedResult = expectationOf(call.result, local);
    return [
      withoutUndefined({
        server,
        tool,
        description: lineOf(definition["description"]),
        args: call.args,
        expectedResult,
        openBecause:
          expectedResult === undefined
            ? "its result is too short, or names this machine or the time"
            : undefined,
      }),
    ];
  });
}

const maxDescriptionLength = 110;

/** The first line of a text from a server, for a comment. */
function lineOf(text: Json | undefined): string {
  if (typeof text !== "string") return "";
  const [line = ""] = text.trim().split(/\r?\n/, 1);
  const shown = visibleText(shortened(line, maxDescriptionLength));
  return shown.trim();
}

const maxTextLength = 100;
const maxObjectLength = 300;

/** Absolute paths below the folders of users and of temporary files. */
const localPath = /(?:^|[^\w/.])(?:\/(?:home|Users|root|tmp|var|private)\/|[A-Za-z]:\\)\w/;

/** What a result must have to be taken for the same again; undefined when it has nothing of that kind. */
function expectationOf(result: JsonObject, local: readonly string[]): Json | undefined {
  const isLocal = (text: string): boolean =>
    localPath.test(text) || local.some((each) => text.includes(each));
  const { structuredContent } = result;
  if (isJsonObject(structuredContent)) {
    const isWhole = ["content", "structuredContent", "isError"].some((key) => key in structuredContent);
    const length = JSON.stringify(structuredContent).length;
    const isSame = !isLocal(JSON.stringify(structuredContent));
    if (!isWhole && isSame && length > 2 && length <= maxObjectLength) return structuredContent;
  }
  const text = resultText(result).trim();
  // A text of one digit is in others by chance; a number is compared as a whole.
  if (String(Number(text)) === text && Number.isFinite(Number(text))) return Number(text);
  const [, key] = /^\{\s*("(?:[^"\\]|\\.){1,60}"):/.exec(text) ?? [];
  if (key !== undefined && text.length > maxTextLength) return isLocal(text) ? undefined : key;
  const lines = text.split(/\r?\n/).map((line) => line.trim());
  const line = lines.find((each) => /[\p{L}\p{N}].*[\p{L}\p{N}]/u.test(each) && !isLocal(each)) ?? "";
  // A text that was cut within a word or number would not be found again.
  const cut = line.length > maxTextLength ? line.slice(0, maxTextLength).replace(/\S*$/, "").trim() : line;
  return cut === "" ? undefined : cut;
}

/** The config of a file with only tests. `servers` are how each is started or reached. */
export function starterDocument({ servers, tests }: Pick<StarterParts, "servers" | "tests">): JsonObject {
  const suites = [...Map.groupBy(tests, ({ server }) => server)].map(([server, own]) => ({
    name: server,
    server,
    tests: own.map(({ tool, args, expectedResult, isRefused }) =>
      withoutUndefined({
        name: tool,
        args,
        expectedResult,
        expect: isRefused ? { isError: true } : undefined,
      }),
    ),
  }));
  return { servers, toolHealthSuites: suites.map((suite) => escapeVariables(suite)) };
}

/** Doubles the `$` of `${` in the texts of a value. */
function escapeVariables(value: Json): Json {
  return mapTexts(value, (text) => text.replaceAll("${", "$$${"));
}

const maxUntested = 40;

/** The text of a first config: YAML with comments, which become tests without their `# `. */
export function starterText({ schema, servers, tests, untested }: StarterParts): string {
  const names = Object.keys(servers);
  const [withTests, others] = [true, false].map((has) =>
    names.filter((name) => tests.some(({ server }) => server === name) === has),
  ) as [string[], string[]];
  const suites = withTests.flatMap((server) => suiteLines(server, tests, untested, "# "));
  const ideas = others.flatMap((server) => suiteLines(server, [], untested, ""));
  const hasTests = suites.length > 0;
  const first = tests[0]?.tool ?? untested[0]?.tool ?? "tool";
  const lines = [
    ...(schema === undefined ? [] : [`# yaml-language-server: $schema=${schema}`, ""]),
    stringify({ servers }, { lineWidth: 0 }).trimEnd(),
    "",
    ...(hasTests
      ? []
      : [
          "# No tool could be tested yet. mcpvals check tries everything else.",
          "check:",
          "  calls: safe",
          "",
        ]),
    "# Each test calls one tool and checks the result. No model and no key is needed.",
    ...(hasTests ? ["toolHealthSuites:", ...suites] : []),
    ...commented(hasTests || ideas.length === 0 ? [] : ["toolHealthSuites:"], ""),
    ...commented(ideas, hasTests ? "  " : ""),
    "",
    "# A workflow gives a model a task; it needs the key of the model's provider, such as ANTHROPIC_API_KEY. Remove the # and fill it in.",
    ...commented(
      [
        "agent: anthropic/claude-sonnet-4-5",
        "workflows:",
        "  - name: my first workflow",
        "    steps:",
        "      - user: What a user would ask for.",
        "        expectedState: { contains: a text that the answer must contain, in: answer }",
        `    expectTools: [${flow(first)}]`,
      ],
      "",
    ),
  ];
  return `${lines.join("\n")}\n`;
}

/** The text of a first task: about the answer of the first test with one, else with texts to fill in. */
export function starterTask({ schema, servers, tests }: Omit<StarterParts, "untested">): string {
  const known = tests.find(({ expectedResult }) => answerOf(expectedResult) !== undefined);
  const answer = answerOf(known?.expectedResult) ?? "a text that the answer must contain";
  const document = {
    kind: "Task",
    apiVersion: taskApiVersion,
    metadata: { name: "first-task" },
    spec: {
      servers: mapTexts(servers, (text) => text.replaceAll(/\$\{(\w+)\}/g, "{env.$1}")),
      prompt:
        known === undefined
          ? "What a user would ask for."
          : `What does the tool ${known.tool} of the server ${known.server} answer to ${JSON.stringify(known.args)}?`,
      verify: [
        { command: { run: "printf %s {agent.output | sh}", expect: { stdout: { contains: answer } } } },
      ],
      ...(known === undefined
        ? {}
        : { solution: [{ [`${known.server}.${known.tool}`]: { args: known.args } }, { say: answer }] }),
    },
  };
  const lines = [
    ...(schema === undefined ? [] : [`# yaml-language-server: $schema=${schema}`]),
    "# prompt is what the agent is told; it must not contain the answer. verify says what must hold once it is done: files, commands, HTTP",
    "# requests, further calls. solution shows one way to do it, which mcpvals validate --run plays.",
    "",
    stringify(document, { lineWidth: 0 }).trimEnd(),
  ];
  return `${lines.join("\n")}\n`;
}

/** The part of a result that an agent would say; undefined when there is none. */
function answerOf(expected: Json | undefined): string | undefined {
  if (typeof expected === "string" || typeof expected === "number") return String(expected);
  return isJsonObject(expected)
    ? Object.values(expected)
        .map(answerOf)
        .find((each) => each !== undefined)
    : undefined;
}

/** Lines as comments, the marks in the column after `indent`. */
function commented(lines: readonly string[], indent: string): readonly string[] {
  return lines.map((line) => `${indent}# ${line.slice(indent.length)}`);
}

/** The suite of a server; `mark` stands before the tests of tools without one. */
function suiteLines(
  server: string,
  allTests: readonly StarterTest[],
  allUntested: readonly UntestedTool[],
  mark: string,
): readonly string[] {
  const tests = allTests.filter((test) => test.server === server);
  const untested = allUntested.filter((tool) => tool.server === server);
  if (tests.length + untested.length === 0) return [];
  const rest = untested.length - maxUntested;
  const shown = [...Map.groupBy(untested.slice(0, maxUntested), ({ reason }) => reason)];
  return [
    `  - name: ${flow(server)}`,
    `    server: ${flow(server)}`,
    `    tests:`,
    ...tests.flatMap((test) => [
      ...(test.description === "" ? [] : [`      # ${test.description}`]),
      ...(test.isRefused ? ["      # The server has to refuse the call, since arguments are missing."] : []),
      ...testLines(test),
      ...(test.openBecause === undefined
        ? []
        : [
            `        # Only that the call succeeds is tested, because ${test.openBecause}. Add expectedResult.`,
          ]),
    ]),
    ...shown.flatMap(([reason, tools]) => [
      `      # Without a test: ${reason}. Remove the # before a test to call the tool.`,
      ...tools.flatMap((tool) => testLines(tool).map((line) => `      ${mark}${line.slice(6)}`)),
    ]),
    ...(rest > 0 ? [`      # and ${rest} more`] : []),
  ];
}

function testLines({ tool, args, expectedResult, isRefused }: StarterTest): readonly string[] {
  return [
    `      - name: ${flow(tool)}`,
    `        args: ${flow(escapeVariables(args))}`,
    ...(expectedResult === undefined
      ? []
      : [`        expectedResult: ${flow(escapeVariables(expectedResult))}`]),
    ...(isRefused ? ["        expect: { isError: true }"] : []),
  ];
}

function flow(value: Json): string {
  return visibleText(stringify(value, { collectionStyle: "flow", lineWidth: 0 }).trim());
}

/** A server as a config has it. What equals a secret becomes a variable; their names are added to `variables`. */
export function writtenServer(
  server: ParsedServer,
  {
    secrets,
    variables,
  }: {
    readonly secrets: readonly { readonly name: string; readonly value: string }[];
    readonly variables: Set<string>;
  },
): JsonObject {
  const hide = (text: string, name?: string): string => {
    let hidden = text;
    for (const secret of secrets) {
      if (secret.value === "" || !hidden.includes(secret.value)) continue;
      const variable = (name ?? secret.name).replaceAll(/\W+/g, "_").toUpperCase();
      variables.add(variable);
      hidden = hidden.replaceAll(secret.value, () => `\${${variable}}`);
    }
    return hidden;
  };
  const hideAll = (texts: Readonly<Record<string, string>>): JsonObject | undefined => {
    return Object.keys(texts).length === 0 ? undefined : mapValues(texts, hide);
  };
  if (server.transport === "stdio") {
    const { transport, command, args, env, cwd, inheritEnv } = server;
    return withoutUndefined({
      transport,
      command: hide(command),
      args: args.length === 0 ? undefined : args.map((argument) => hide(argument)),
      env: hideAll(env),
      cwd,
      inheritEnv: inheritEnv === true ? true : inheritEnv.length === 0 ? undefined : [...inheritEnv],
    });
  }
  if (server.transport === "mock") return { transport: "mock" };
  const { transport, url, headers } = server;
  return withoutUndefined({ transport, url: hide(url), headers: hideAll(headers) });
}

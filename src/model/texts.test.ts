import * as fc from "fast-check";
import { expect, it } from "vitest";
import { containsText, statesText } from "../expect/contains-text.ts";
import { didYouMean, listNames, suggestion } from "../base/did-you-mean.ts";
import { maxDurationMs, parseByteSize, parseDuration, parseGoDuration } from "../base/duration.ts";
import { sandboxSchema } from "./sandbox.ts";
import { objectHint } from "./zod-problems.ts";

it.each([
  [1500, 1500],
  [0.5, 0.5],
  ["500ms", 500],
  ["2s", 2000],
  ["5m", 300_000],
  ["1h", 3_600_000],
  ["1.5 s", 1500],
  ["2 minutes", 120_000],
  [maxDurationMs, maxDurationMs],
])("reads %j as %d ms", (value, ms) => {
  expect(parseDuration(value)).toBe(ms);
});

it.each([
  0,
  -1,
  NaN,
  Infinity,
  maxDurationMs + 1,
  "",
  " ",
  "soon",
  "-2s",
  "0s",
  "25 days",
  "1h30m",
  "1e3",
  "2s".repeat(60),
  true,
  null,
  undefined,
  {},
])("refuses %j", (value) => {
  expect(parseDuration(value)).toBeUndefined();
});

it("never throws and gives only what a timer can wait", () => {
  fc.assert(
    fc.property(fc.anything(), (value) => {
      const ms = parseDuration(value);
      expect(ms === undefined || (ms > 0 && ms <= maxDurationMs)).toBe(true);
    }),
  );
});

it.each([
  ["300ms", 300],
  ["1.5h", 5_400_000],
  ["1h30m", 5_400_000],
  ["1h30m10.5s", 5_410_500],
  ["1500µs", 1.5],
  ["1500μs", 1.5],
  ["2000000ns", 2],
  [".5s", 500],
])("%s is %d ms", (text, milliseconds) => {
  expect(parseGoDuration(text)).toBeCloseTo(milliseconds, 9);
});

it.each(["", "30", "0s", "-5s", "5 m", "5 minutes", "1d", "s", "1h 30m", "1e3s", "600h", "."])(
  "%j is not a duration",
  (text) => {
    expect(parseGoDuration(text)).toBeUndefined();
  },
);

it.each<[unknown, number]>([
  [1, 1],
  [1.9, 1],
  ["512MB", 512 * 1024 ** 2],
  ["1.5g", 1.5 * 1024 ** 3],
  ["64k", 65_536],
  ["10B", 10],
])("%j is %d bytes", (value, bytes) => {
  expect(parseByteSize(value)).toBe(bytes);
});

it.each([
  0,
  -1,
  Number.NaN,
  Number.POSITIVE_INFINITY,
  "",
  "MB",
  "1TB",
  "-1MB",
  "0",
  "1e3",
  "1,5MB",
  null,
  {},
])("%j is none", (value) => {
  expect(parseByteSize(value)).toBeUndefined();
});

it.each([
  ["The sum is FIVE.", "the sum is five"],
  ["using [secret:API_KEY] now", "[secret:API_KEY]"],
  ["a [***] b", "[***]"],
  ["the secret key", "secret"],
  ["a list [secret: yes", "secret"],
])("%j contains %j", (text, wanted) => {
  expect(containsText(text, wanted)).toBe(true);
});

it("a text of many beginnings of marks is searched in linear time", () => {
  for (const start of ["[secret:", "‹secret:", "[part of secret:"])
    expect(containsText(start.repeat(1_000_000), "secret")).toBe(true);
});

it.each([
  ["using [secret:API_KEY] now", "secret"],
  ["using [secret:API_KEY] now", "]"],
  ["using [secret:API_KEY 2] now", "[secret:API_KEY]"],
  ["using [secret:KEY] now", "[secret:key]"],
  ["a [***] b", "*"],
  ["nothing", "[secret:key]"],
])("%j does not contain %j", (text, wanted) => {
  expect(containsText(text, wanted)).toBe(false);
});

it.each([
  ["expectTool", ["user", "expectTools", "expectedState"], "expectTools"],
  ["expect_tools", ["user", "expectTools"], "expectTools"],
  ["comand", ["command", "cwd"], "command"],
  ["tiemout", ["timeout"], "timeout"],
  ["serve", ["servers", "server"], "server"],
  ["promt", ["premt", "prompt", "from"], "prompt"],
  ["cat", ["bat", "cap"], "cap"],
  ["llm", ["llmJudge"], undefined],
  ["foo", ["bar", "baz"], undefined],
  ["a", ["b"], "b"],
  ["", ["server"], undefined],
  ["x".repeat(1000), ["x".repeat(999)], undefined],
])("of %j in %j means %j", (name, candidates, expected) => {
  expect(didYouMean(name, candidates)).toBe(expected);
});

it("names the likely one and all there are", () => {
  expect(suggestion("fst", ["fast", "slow"], "agents")).toBe(
    'Did you mean "fast"? Known agents: fast, slow.',
  );
  expect(suggestion("other", ["fast", "fast"], "agents")).toBe("Known agents: fast.");
  expect(suggestion("other", [], "agents")).toBe("There are no agents.");
});

it("cuts long lists", () => {
  const names = Array.from({ length: 23 }, (_, index) => `n${index}`);
  expect(listNames(names)).toMatch(/^n0, n1, .* n19 and 3 more$/);
});

it.each([
  ["1MB", true],
  ["1023kB", false],
])("a sandbox may have %s of memory: %s", (memory, isEnough) => {
  expect(sandboxSchema.safeParse({ kind: "process", memory }).success).toBe(isEnough);
});

it.each([
  ["the sum is 5.", "5", true],
  ["the sum is 5.0", "5", true],
  ["the sum is 15", "5", false],
  ["the sum is 0.5", "5", false],
  ["the sum is 5.2", "5", false],
  ["the sum is -5", "5", false],
  ["version 1.2.3", "1.2", true],
  ["50 items", "0 items", false],
  ["the sum is 52 or 5", "5", true],
  ["a5b", "b", true],
])("%j states %j: %s", (text, wanted, isStated) => {
  expect(statesText(text, wanted)).toBe(isStated);
});

const extensionSettings =
  "Settings for all extensions are cacheDir, timeout, sandbox, network, allowedSources, releasesUrl; any other key is an extension, an object with its package.";

it.each<[string, unknown, string]>([
  ["timout", "5m", `Did you mean "timeout"? ${extensionSettings}`],
  ["Network", ["host"], `Did you mean "network"? ${extensionSettings}`],
  ["shop", 7, extensionSettings],
  ["csv", "mcpvals:csv", 'Write it as { package: "mcpvals:csv" }.'],
])("extensions.%s: %j is a misspelt setting, or an extension without its form", (name, value, hint) => {
  expect(objectHint(["config", "extensions", name], value, "package, config")).toBe(hint);
});

it("says that the arguments of an operation are keys of its step", () => {
  expect(objectHint(["spec", "verify", 0, "db.query"], null, "id, if")).toBe(
    "Its keys are the arguments of the operation, and id, if. Without any it is written {}.",
  );
  expect(objectHint(["spec", "verify", 0, "command"], null, "run")).toBeUndefined();
  expect(objectHint(["servers", "db.query"], null, "command")).toBeUndefined();
});

import { expect, it } from "vitest";
import { objectHint } from "./zod-problems.ts";

const settings =
  "Settings for all extensions are cacheDir, timeout, sandbox, network, allowedSources, releasesUrl; any other key is an extension, an object with its package.";

it.each<[string, unknown, string]>([
  ["timout", "5m", `Did you mean "timeout"? ${settings}`],
  ["Network", ["host"], `Did you mean "network"? ${settings}`],
  ["shop", 7, settings],
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

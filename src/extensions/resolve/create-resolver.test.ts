import { homedir } from "node:os";
import { join } from "node:path";
import { expect, it, test } from "vitest";
import { parsePackageRef } from "../../core/formats/extension/package-ref.ts";
import { checkSource, extensionPlaces } from "./create-resolver.ts";

test.each([
  ["github.com/acme/demo@v1", "github.com/acme/*", true],
  ["https://github.com/acme/demo@v1", "github.com/acme/*", true],
  ["github.com/acme/demo", "github.com/*/demo", true],
  ["github.com/acme/demo", "github.com/*", false],
  ["github.com/acme-evil/demo", "github.com/acme/*", false],
  ["npm:@acme/demo@^1", "npm:@acme/*", true],
  ["npm:demo", "npm:*", true],
  ["npm:@evil/demo", "npm:*", false],
  ["mcpvals:sql", "mcpvals:*", true],
  ["./demo/start", "./demo/*", true],
  ["./demo/sub/../start", "./demo/*", true],
  ["./demo/../start", "./demo/**", false],
  ["demo/../../start", "demo/**", false],
  ["../demo", "./**", false],
  ["/etc/demo", "./**", false],
  ["./demo", "**", true],
  ["/opt/extensions/demo", "/opt/extensions/*", true],
  ["/opt/extensions/../demo", "/opt/extensions/**", false],
  ["file:///opt/extensions/demo", "/opt/extensions/*", true],
  ["./demo", "!github.com/**", false],
  ["./..", "./**", false],
  ["./demo/..\\..\\start", "./demo/**", process.platform !== "win32"],
])("%s with %s: %s", (text, glob, allowed) => {
  const parsed = parsePackageRef(text);
  if (!parsed.ok) throw new Error(parsed.message);
  const check = (): void => checkSource(parsed.ref, [glob]);
  if (allowed) expect(check).not.toThrow();
  else expect(check).toThrow("a source that is not allowed");
  expect(() => checkSource(parsed.ref, undefined)).not.toThrow();
  expect(() => checkSource(parsed.ref, [])).toThrow("a source that is not allowed");
});

test.skipIf(process.platform === "win32")("a backslash is a part of a file's name", () => {
  const parsed = parsePackageRef("./trusted\\evil");
  if (!parsed.ok) throw new Error(parsed.message);
  expect(() => checkSource(parsed.ref, ["./trusted/*"])).toThrow("a source that is not allowed");
});

const env = { MCPVALS_EXTENSIONS_CACHE: "/env", MCPVALS_RELEASES_URL: "http://env" };
const settings = { cacheDir: "/eval", releasesUrl: "http://eval", allowedSources: ["npm:*"] };

it("prefers options to the eval, the eval to the environment, and that to what is usual", () => {
  const options = { cacheDir: "/option", releasesUrl: "http://option" };
  const home = homedir();
  expect(extensionPlaces({ options, settings, env })).toEqual({
    ...options,
    allowedSources: ["npm:*"],
    home,
    env,
  });
  expect(extensionPlaces({ options: {}, settings, env })).toEqual({ ...settings, home, env });
  expect(extensionPlaces({ env })).toEqual({ cacheDir: "/env", releasesUrl: "http://env", home, env });
  const empty = { MCPVALS_EXTENSIONS_CACHE: "", MCPVALS_RELEASES_URL: "" };
  const usual = join(home, ".mcpvals", "extensions");
  expect(extensionPlaces({ env: empty })).toEqual({ cacheDir: usual, home, env: empty });
});

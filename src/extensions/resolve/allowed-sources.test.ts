import { expect, test } from "vitest";
import { parsePackageRef } from "../../core/formats/extension/package-ref.ts";
import { checkSource } from "./create-resolver.ts";

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

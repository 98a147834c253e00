import { readFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { expect, it } from "vitest";
import { root } from "../support/cli.ts";

it("keeps the app small", () => {
  const app = readFileSync(join(root, "dist/dashboard/app.js"));
  expect(gzipSync(app).length).toBeLessThan(200_000);
});

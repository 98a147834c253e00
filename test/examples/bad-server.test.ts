import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { findingRules } from "../../src/core/lint/catalogue.ts";
import type { Finding } from "../../src/core/lint/finding.ts";
import type { RunResult } from "../../src/core/report/result.ts";
import { folderOf, root, runHere } from "../support/cli.ts";

const folder = join(root, "examples/bad-server");
const [all = "", onlyByName = ""] = readFileSync(join(folder, "README.md"), "utf8").split("## Only");

/** The codes of the defects in a part of the README, with the tool that has each. */
function defectsIn(part: string): readonly { readonly code: string; readonly tool: string | undefined }[] {
  return [...part.matchAll(/^\| `(?<code>\w+\/[\w-]+)` *\| (?:the tools? `(?<tool>[^`]+)`)?/gm)].map(
    ({ groups = {} }) => ({ code: groups["code"] ?? "", tool: groups["tool"] }),
  );
}

/** What `mcpvals check` says of the server with defects. */
async function check(
  ...defects: readonly string[]
): Promise<{ readonly code: number | null; readonly findings: readonly Finding[] }> {
  using cwd = folderOf({});
  const { code, stdout, stderr } = await runHere(
    ["check", "--reporter", "json", "--", "node", join(folder, "server.mjs"), ...defects],
    { cwd: cwd.path },
  );
  if (!stdout.startsWith("{")) throw new Error(`no result:\n${stdout}\n${stderr}`);
  const { trials } = JSON.parse(stdout) as RunResult;
  return { code, findings: trials.flatMap(({ grades }) => grades.flatMap(({ findings = [] }) => findings)) };
}

describe("the bad server", () => {
  it("has a defect for every rule that looks at one server by itself", () => {
    const planted = [...defectsIn(all), ...defectsIn(onlyByName)].map(({ code }) => code);
    const others = [
      // Needs seconds of waiting.
      "protocol/slow-start",
      // Need an address.
      "protocol/origin",
      "protocol/session",
      // Needs another server.
      "definition/shared-name",
      // Needs a committed file.
      "stability/snapshot",
    ];
    expect([...planted, ...others].toSorted()).toEqual(Object.keys(findingRules).toSorted());
  });

  it("is found to have every defect that its README lists", async () => {
    const { code, findings } = await check();
    const missed = defectsIn(all).filter(
      (defect) =>
        !findings.some(
          ({ code: found, place }) => found === defect.code && (!defect.tool || place.tool === defect.tool),
        ),
    );
    expect([code, missed]).toEqual([1, []]);
  }, 120_000);

  it.each(defectsIn(onlyByName).map(({ code }) => code))(
    "has %s when that is named",
    async (wanted) => {
      const { code, findings } = await check(wanted.replace(/^\w+\//, ""));
      expect(findings.map((finding) => finding.code)).toContain(wanted);
      expect(code).toBe(findings.some(({ severity }) => severity === "error") ? 1 : 0);
    },
    60_000,
  );

  it("is not blamed for what a second process of it cannot do", async () => {
    const { code, findings } = await check("second-start");
    expect([code, findings.map((finding) => finding.code)]).toEqual([0, ["protocol/second-start"]]);
  }, 60_000);

  it("has nothing to be found without defects", async () => {
    expect(await check("none")).toEqual({ code: 0, findings: [] });
  }, 60_000);
});
